/* Checkpoints that keep attention: gradients with the bits of plain checkpoints, attention run
 * forward once, memory between that of no checkpoint and that of one that keeps nothing. */
#include "fovea/autograd.h"
#include "support/launches.h"
#include "support/transformers.h"

enum { HEADS = 2, N = 24, D = 8, CALLS = 3, VALUES = HEADS * N * D };

typedef struct outcome {
    float grad[VALUES];
    int64_t forward, backward; /* launches of attention */
    uint64_t peak;
} outcome;

/* Attention with dropout in it, between maps that are cheap to compute again. */
static fv_tensor *layer(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.causal = true;
    rule.dropout = 0.1;
    fv_tensor *y = in[0];
    for (int i = 0; i < *(const int *)user; i++) {
        fv_tensor *q = fv_tanh(ctx, y), *k = fv_sigmoid(ctx, y);
        y = fv_add(ctx, y, fv_gelu(ctx, fv_attend(ctx, q, k, y, &rule, NULL, NULL)));
    }
    return y;
}

typedef enum mode { PLAIN, CHECKPOINT, KEEPING, MODES } mode;

static outcome train(mode how, int attentions, fv_device_kind device)
{
    outcome out;
    fv_ctx *ctx = NULL;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = device;
    cfg.threads = 1;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    launches_watch(ctx);
    fv_ctx_set_step(ctx, 3, 0);
    fv_tensor *x = fv_rand_normal(ctx, FV_F32, 4, (int64_t[]){1, HEADS, N, D}, 0, 1);
    fv_tensor *y = x = fv_leaf(ctx, x);
    for (int i = 0; i < CALLS; i++)
        y = how == PLAIN        ? layer(ctx, &attentions, &y)
            : how == CHECKPOINT ? fv_checkpoint(ctx, layer, &attentions, 1, &y)
                                : fv_checkpoint_keeping(ctx, layer, &attentions, 1, &y,
                                                        FV_CHECKPOINT_KEEP_ATTENTION);
    fv_memory_stats stats;
    fv_ctx_memory(ctx, &stats);
    out.peak = stats.used_bytes; /* after forward */
    CHECK_OK(ctx, fv_backward(ctx, fv_mean(ctx, fv_square(ctx, y), 0, NULL, false)));
    out.forward = launches_of(FV_KERNEL_ATTENTION);
    out.backward = launches_of(FV_KERNEL_ATTENTION_GRAD);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), out.grad, sizeof out.grad));
    fv_ctx_destroy(&ctx);
    return out;
}

static void attention_runs_forward_once(void)
{
    for (int device = FV_DEVICE_CPU; device <= FV_DEVICE_GUARDED; device++) {
        static outcome o[MODES];
        for (int how = 0; how < MODES; how++) {
            o[how] = train((mode)how, 2, (fv_device_kind)device);
            CHECK_EQ(o[how].backward, 2 * CALLS);
            CHECK_EQ(o[how].forward, how == CHECKPOINT ? 4 * CALLS : 2 * CALLS);
            CHECK(memcmp(o[how].grad, o[PLAIN].grad, sizeof o->grad) == 0);
        }
        CHECK(o[CHECKPOINT].peak < o[KEEPING].peak);
        CHECK(o[KEEPING].peak < o[PLAIN].peak);
    }
}

/* More results than a node can hold: the first are kept, in order, and the rest computed again. */
static void what_does_not_fit_is_computed_again(void)
{
    const outcome plain = train(PLAIN, 9, FV_DEVICE_CPU), kept = train(KEEPING, 9, FV_DEVICE_CPU);
    CHECK(memcmp(plain.grad, kept.grad, sizeof plain.grad) == 0);
    CHECK_EQ(plain.forward, 9 * CALLS);
    CHECK_EQ(kept.forward, (9 + 2) * CALLS); /* 14 tensors of 7 calls are kept */
}

/* ---- nested, and blocks that differ ------------------------------------------------------- */

static fv_tensor *outer(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    fv_tensor *y = fv_checkpoint(ctx, layer, user, 1, in);
    return fv_checkpoint_keeping(ctx, layer, user, 1, &y, FV_CHECKPOINT_KEEP_ATTENTION);
}

static void checkpoints_nest(void)
{
    float grad[2][VALUES];
    int once = 1;
    for (int nested = 0; nested < 2; nested++) {
        fv_ctx *ctx = values_begin();
        launches_watch(ctx);
        fv_ctx_set_step(ctx, 3, 0);
        fv_tensor *x = fv_rand_normal(ctx, FV_F32, 4, (int64_t[]){1, HEADS, N, D}, 0, 1);
        fv_tensor *y = x = fv_leaf(ctx, x);
        if (nested) {
            y = fv_checkpoint_keeping(ctx, outer, &once, 1, &y, FV_CHECKPOINT_KEEP_ATTENTION);
        } else {
            y = layer(ctx, &once, &y);
            y = layer(ctx, &once, &y);
        }
        CHECK_OK(ctx, fv_backward(ctx, fv_mean(ctx, y, 0, NULL, false)));
        CHECK_EQ(launches_of(FV_KERNEL_ATTENTION), 2);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), grad[nested], sizeof grad[0]));
        values_end(&ctx);
    }
    CHECK(memcmp(grad[0], grad[1], sizeof grad[0]) == 0);
}

static fv_tensor *changing(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    int *calls = user, once = 1;
    fv_tensor *x = (*calls)++ ? fv_slice(ctx, in[0], 2, 0, N / 2, 1) : in[0];
    fv_tensor *y = layer(ctx, &once, &x);
    return fv_sum(ctx, y, 0, NULL, false);
}

static void a_block_that_changes_is_refused(void)
{
    int calls = 0;
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 4, (int64_t[]){1, HEADS, N, D}, 0.5));
    fv_tensor *y =
        fv_checkpoint_keeping(ctx, changing, &calls, 1, &x, FV_CHECKPOINT_KEEP_ATTENTION);
    CHECK_EQ(fv_backward(ctx, y), FV_ERR_STATE);
    CHECK(strstr(fv_ctx_message(ctx), "the block ran other ops the second time"));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_STATE);
    CHECK(!ctx->kept);
    values_end(&ctx);
}

/* ---- models -------------------------------------------------------------------------------- */

static void models_have_equal_gradients(void)
{
    fv_transformer_config cfg = small_config(FV_FAMILY_LLAMA);
    static float grads[2][4096];
    size_t size[2];
    for (int keep = 0; keep < 2; keep++) {
        small s = small_make(&cfg);
        fill_sequences();
        const fv_sequences batch = one_of(s.t, 3);
        const fv_pass pass = {
            .training = true, .checkpoint = true, .kept = (fv_checkpoint_kept)keep};
        launches_watch(s.ctx);
        fv_scope_begin(s.ctx);
        CHECK_OK(s.ctx, fv_backward(s.ctx, fv_transformer_lm_loss(s.ctx, s.t, &batch, &pass)));
        fv_scope_end(s.ctx);
        CHECK_EQ(launches_of(FV_KERNEL_ATTENTION), keep ? 2 : 4); /* two layers */
        size[keep] = 0;
        for (int i = 0; i < fv_params_count(s.params); i++) {
            fv_tensor *g = fv_grad(s.ctx, fv_params_tensor(s.params, i));
            const size_t n = g ? (size_t)fv_tensor_count(g) : 0;
            if (n == 0 || size[keep] + n > 4096) continue;
            CHECK_OK(s.ctx, fv_tensor_read(s.ctx, g, grads[keep] + size[keep], n * sizeof(float)));
            size[keep] += n;
        }
        small_free(&s);
    }
    CHECK(size[0] > 1000 && size[0] == size[1]);
    CHECK(memcmp(grads[0], grads[1], size[0] * sizeof(float)) == 0);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(attention_runs_forward_once);
    RUN(what_does_not_fit_is_computed_again);
    RUN(checkpoints_nest);
    RUN(a_block_that_changes_is_refused);
    RUN(models_have_equal_gradients);
    return TEST_END();
}

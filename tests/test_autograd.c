/* The tape's behaviour: what is recorded, what backward frees, what it refuses. */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/test.h"

static fv_ctx *make(void)
{
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) test_failed(__FILE__, __LINE__, "no context");
    return ctx;
}

static fv_tensor *values(fv_ctx *ctx, int64_t n, const double *x)
{
    return fv_from_host(ctx, FV_F64, 1, &n, x);
}

static double item(fv_ctx *ctx, const fv_tensor *t)
{
    double x = NAN;
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &x));
    return x;
}

static void gradient_at(fv_ctx *ctx, fv_tensor *t, const double *expected, int64_t n)
{
    double g[16];
    CHECK(fv_grad(ctx, t) != NULL);
    if (!fv_grad(ctx, t)) return;
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, t), g, (size_t)n * sizeof *g));
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(g[i], expected[i], 1e-12);
}

static fv_tensor *total(fv_ctx *ctx, fv_tensor *x) { return fv_sum(ctx, x, 0, NULL, false); }

static void fan_out_adds_up(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){3, -2}));
    /* x x + x + x: 2x + 2, through one op with both inputs the same and two pass-through adds */
    fv_tensor *y = fv_add(ctx, fv_add(ctx, fv_mul(ctx, x, x), x), x);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    gradient_at(ctx, x, (double[]){8, -2}, 2);
    fv_ctx_destroy(&ctx);
}

static void same_gradient_to_both_inputs(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *z = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_add(ctx, x, z))));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_add(ctx, x, x))));
    gradient_at(ctx, x, (double[]){3, 3}, 2);
    gradient_at(ctx, z, (double[]){1, 1}, 2); /* not changed through x's gradient */
    fv_ctx_destroy(&ctx);
}

/* A half-precision result that is used twice: its gradient is summed in f32 and stored narrow. */
static void half_gradients_add_up(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 1, (int64_t[]){2}, 1.5));
    fv_tensor *h = fv_cast(ctx, x, FV_BF16);
    fv_tensor *y = fv_add(ctx, fv_cast(ctx, h, FV_F32), fv_cast(ctx, h, FV_F32));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    float g[2] = {0};
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), g, sizeof g));
    CHECK(g[0] == 2.0f && g[1] == 2.0f);
    fv_ctx_destroy(&ctx);
}

static void gradients_accumulate_until_zeroed(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 1, (double[]){5}));
    for (int i = 0; i < 3; i++)
        CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_mul(ctx, x, x))));
    gradient_at(ctx, x, (double[]){30}, 1);
    fv_zero_grad(ctx, x);
    CHECK(fv_grad(ctx, x) == NULL);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_mul(ctx, x, x))));
    gradient_at(ctx, x, (double[]){10}, 1);
    fv_ctx_destroy(&ctx);
}

static void unrecorded_things_have_no_gradient(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 1, (double[]){5}));
    fv_no_grad_begin(ctx);
    fv_tensor *y = fv_mul(ctx, x, x);
    fv_no_grad_end(ctx);
    CHECK_EQ(fv_backward(ctx, y), FV_ERR_STATE);
    fv_tensor *cut = fv_mul(ctx, fv_detach(ctx, fv_tanh(ctx, x)), x);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, cut)));
    gradient_at(ctx, x, (double[]){tanh(5)}, 1);
    fv_ctx_destroy(&ctx);
}

static void a_loss_has_one_element(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *y = fv_tanh(ctx, x);
    CHECK_EQ(fv_backward(ctx, y), FV_ERR_SHAPE);
    CHECK(strstr(fv_ctx_message(ctx), "[2]") != NULL);
    CHECK_OK(ctx, fv_backward_from(ctx, y, values(ctx, 2, (double[]){1, 10})));
    gradient_at(ctx, x, (double[]){1 - tanh(1) * tanh(1), 10 * (1 - tanh(2) * tanh(2))}, 2);
    fv_ctx_destroy(&ctx);
}

static void backward_consumes_and_says_so(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *shared = fv_tanh(ctx, x);
    fv_tensor *first = total(ctx, fv_mul(ctx, shared, shared));
    fv_tensor *second = total(ctx, fv_exp(ctx, shared));
    CHECK_OK(ctx, fv_backward(ctx, first));
    CHECK_NEAR(item(ctx, first), tanh(1) * tanh(1) + tanh(2) * tanh(2), 1e-12);
    CHECK_EQ(fv_backward(ctx, first), FV_ERR_STATE);
    /* The second loss leads through `shared`, whose past is gone. */
    fv_tensor *grown = total(ctx, fv_mul(ctx, second, total(ctx, x)));
    double before[2], after[2];
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), before, sizeof before));
    CHECK_EQ(fv_backward(ctx, grown), FV_ERR_STATE);
    CHECK(strstr(fv_ctx_message(ctx), "exp") != NULL);
    /* Refused before anything was added or consumed, so ops still work. */
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    fv_ctx_destroy(&ctx);
}

static void released_results_cannot_be_read(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *gone = fv_tanh(ctx, x);
    fv_tensor *kept = fv_retain(ctx, fv_exp(ctx, gone));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_mul(ctx, kept, kept))));
    double out[2];
    CHECK_EQ(fv_tensor_read(ctx, gone, out, sizeof out), FV_ERR_STATE);
    CHECK(strstr(fv_ctx_message(ctx), "fv_retain") != NULL);
    CHECK_OK(ctx, fv_tensor_read(ctx, kept, out, sizeof out));
    CHECK_NEAR(out[1], exp(tanh(2)), 1e-12);
    gradient_at(ctx, kept, (double[]){2 * exp(tanh(1)), 2 * exp(tanh(2))}, 2);
    fv_neg(ctx, gone); /* as an op's input: the sticky error */
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_STATE);
    fv_ctx_destroy(&ctx);
}

static void backward_frees_as_it_goes(void)
{
    enum { N = 1 << 16, LAYERS = 40 };
    fv_ctx *ctx = make();
    int64_t n = N;
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 1, &n, 0.5));
    fv_tensor *y = x;
    for (int i = 0; i < LAYERS; i++)
        y = fv_tanh(ctx, y);
    fv_tensor *loss = total(ctx, y);
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    fv_ctx_memory_reset_peak(ctx);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    fv_ctx_memory(ctx, &after);
    const uint64_t layer = N * sizeof(float);
    CHECK(before.used_bytes >= LAYERS * layer);
    /* All activations go; two gradients at a time come. The leaf and its gradient stay. */
    CHECK(after.used_bytes < 5 * layer);
    CHECK(after.peak_bytes <= before.used_bytes + 4 * layer);
    fv_ctx_destroy(&ctx);
}

static void scopes_end_recordings(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 1, (double[]){2}));
    fv_memory_stats before, after;
    fv_scope_begin(ctx);
    fv_mul(ctx, fv_exp(ctx, x), x);
    fv_scope_end(ctx);
    fv_ctx_memory(ctx, &before);
    for (int i = 0; i < 100; i++) {
        fv_scope_begin(ctx);
        fv_mul(ctx, fv_exp(ctx, x), x); /* recorded, never walked back */
        fv_scope_end(ctx);
    }
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
    /* A kept result keeps the recorded ops that it depends on. */
    fv_scope_begin(ctx);
    fv_tensor *y = fv_scope_keep(ctx, fv_mul(ctx, fv_exp(ctx, x), x));
    fv_scope_end(ctx);
    CHECK_OK(ctx, fv_backward(ctx, y));
    gradient_at(ctx, x, (double[]){exp(2) * 3}, 1);
    fv_ctx_destroy(&ctx);
}

static void errors_stick_and_steps_do_nothing(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 3, (double[]){1, 2, 3}));
    fv_tensor *y = fv_add(ctx, x, values(ctx, 2, (double[]){1, 2}));
    CHECK_EQ(fv_ctx_error(ctx), FV_ERR_SHAPE);
    CHECK(strstr(fv_ctx_message(ctx), "add: shapes [3] and [2]") != NULL);
    CHECK(!fv_tensor_valid(y));
    fv_tensor *z = fv_exp(ctx, fv_mul(ctx, y, x)); /* no-ops */
    CHECK(!fv_tensor_valid(z));
    CHECK_EQ(fv_backward(ctx, total(ctx, z)), FV_ERR_SHAPE);
    CHECK(fv_grad(ctx, x) == NULL);
    double out[3];
    CHECK_EQ(fv_tensor_read(ctx, x, out, sizeof out), FV_ERR_SHAPE);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    CHECK_OK(ctx, fv_tensor_read(ctx, x, out, sizeof out));
    fv_ctx_destroy(&ctx);
}

/* y = x + 6 x: the gradient given passes through an add to x's slot, where more is added. */
static void a_given_gradient_stays_the_callers(void)
{
    fv_ctx *ctx = make();
    fv_tensor *w = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *x = fv_affine(ctx, w, 1, 0);
    fv_tensor *far = fv_scale(ctx, fv_scale(ctx, x, 2), 3);
    fv_tensor *y = fv_retain(ctx, fv_add(ctx, x, far));
    fv_tensor *given = values(ctx, 2, (double[]){1, 10});
    CHECK_OK(ctx, fv_backward_from(ctx, y, given));
    gradient_at(ctx, w, (double[]){7, 70}, 2);
    double after[2], more[2] = {5, 5};
    CHECK_OK(ctx, fv_tensor_read(ctx, given, after, sizeof after));
    CHECK(after[0] == 1 && after[1] == 10);
    CHECK_OK(ctx, fv_tensor_write(ctx, given, more, sizeof more));
    gradient_at(ctx, y, (double[]){1, 10}, 2); /* retained, and not shared with the caller */
    fv_ctx_destroy(&ctx);
}

static void unusable_gradients_are_refused(void)
{
    fv_ctx *ctx = make();
    fv_tensor *w = fv_leaf(ctx, fv_scalar(ctx, FV_F32, 2.0));
    fv_tensor *gone = fv_exp(ctx, w);
    CHECK_OK(ctx, fv_backward(ctx, fv_exp(ctx, gone)));
    fv_tensor *invalid = fv_add(ctx, w, NULL);
    CHECK(fv_ctx_take_error(ctx) != FV_OK);
    fv_tensor *y = fv_exp(ctx, w);
    CHECK_EQ(fv_backward_from(ctx, y, invalid), FV_ERR_STATE);
    CHECK_EQ(fv_backward_from(ctx, y, gone), FV_ERR_STATE);
    CHECK_OK(ctx, fv_backward_from(ctx, y, fv_scalar(ctx, FV_F32, 1.0)));
    fv_ctx_destroy(&ctx);
}

/* A fresh gradient becomes the leaf's own; it is not copied. */
static void leaf_gradients_are_not_copied(void)
{
    enum { N = 1 << 16 };
    fv_ctx *ctx = make();
    int64_t n = N;
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 1, &n, 0.5));
    fv_tensor *y = fv_tanh(ctx, x), *given = fv_full(ctx, FV_F32, 1, &n, 1.0);
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    fv_ctx_memory_reset_peak(ctx);
    CHECK_OK(ctx, fv_backward_from(ctx, y, given));
    fv_ctx_memory(ctx, &after);
    const uint64_t layer = N * sizeof(float);
    CHECK(after.peak_bytes < before.used_bytes + layer + layer / 2);
    fv_ctx_destroy(&ctx);
}

static void cancel_stops_backward(void)
{
    int cancel = 0;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.cancel = &cancel;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 0, NULL, 1.0));
    fv_tensor *y = fv_exp(ctx, fv_exp(ctx, x));
    cancel = 1;
    CHECK_EQ(fv_backward(ctx, y), FV_ERR_CANCELLED);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_CANCELLED);
    CHECK(fv_grad(ctx, x) == NULL);
    fv_ctx_destroy(&ctx);
}

typedef struct layer {
    fv_tensor *w;
    int calls;
} layer;

static fv_tensor *block(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    layer *l = user;
    l->calls++;
    return fv_dropout(ctx, fv_tanh(ctx, fv_mul(ctx, in[0], l->w)), 0.25);
}

/* The same numbers with and without recomputation, parameters inside the block included. */
static void checkpoint_equals_plain(void)
{
    double grads[2][2][8], values_seen[2];
    for (int mode = 0; mode < 2; mode++) {
        fv_ctx *ctx = make();
        double w[8] = {1, -1, 2, -2, 0.5, 0.25, 3, 1}, v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        layer l = {.w = fv_leaf(ctx, values(ctx, 8, w))};
        fv_tensor *x = fv_leaf(ctx, values(ctx, 8, v));
        fv_ctx_set_step(ctx, 4, 0);
        fv_tensor *y = x;
        for (int i = 0; i < 3; i++)
            y = mode ? fv_checkpoint(ctx, block, &l, 1, &y) : block(ctx, &l, &y);
        fv_tensor *loss = total(ctx, y);
        values_seen[mode] = item(ctx, loss);
        CHECK_OK(ctx, fv_backward(ctx, loss));
        CHECK_EQ(l.calls, mode ? 6 : 3);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), grads[mode][0], sizeof grads[0][0]));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, l.w), grads[mode][1], sizeof grads[0][0]));
        fv_ctx_destroy(&ctx);
    }
    CHECK(values_seen[0] == values_seen[1]);
    CHECK(memcmp(grads[0], grads[1], sizeof grads[0]) == 0);
    bool any = false;
    for (int i = 0; i < 8; i++)
        any = any || grads[0][1][i] != 0;
    CHECK(any);
}

static fv_tensor *wide_block(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)user;
    fv_tensor *y = in[0];
    for (int i = 0; i < 10; i++)
        y = fv_tanh(ctx, y);
    return y;
}

/* What an op keeps for its backward alone (here mean and deviation, and the log-sum-exp) goes when
 * backward has used it, though the scope is still open. */
static void private_saves_die_with_their_node(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 2, (int64_t[]){5000, 2}, 1.0));
    fv_memory_stats before, after;
    for (int i = 0; i < 6; i++) {
        fv_tensor *loss = total(ctx, fv_layer_norm(ctx, x, NULL, NULL, 1e-5));
        CHECK_OK(ctx, fv_backward(ctx, loss));
        if (i == 0) fv_ctx_memory(ctx, &before);
    }
    fv_ctx_memory(ctx, &after);
    CHECK(after.used_bytes < before.used_bytes + 5000 * sizeof(float)); /* handles only */
    fv_ctx_destroy(&ctx);
}

static void checkpoint_saves_memory(void)
{
    enum { N = 1 << 15 };
    uint64_t peak[2];
    for (int mode = 0; mode < 2; mode++) {
        fv_ctx *ctx = make();
        int64_t n = N;
        fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 1, &n, 0.5)), *y = x;
        for (int i = 0; i < 10; i++)
            y = mode ? fv_checkpoint(ctx, wide_block, NULL, 1, &y) : wide_block(ctx, NULL, &y);
        CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
        fv_memory_stats stats;
        fv_ctx_memory(ctx, &stats);
        peak[mode] = stats.peak_bytes;
        fv_ctx_destroy(&ctx);
    }
    CHECK(peak[1] * 3 < peak[0]); /* 100 activations against 10 + 10 */
}

static fv_tensor *first_input(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)ctx;
    (void)user;
    return in[0];
}

static fv_tensor *captured(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)ctx;
    (void)in;
    return user;
}

/* Blocks that record nothing of their own still pass the gradient on. */
static void checkpoint_of_nothing_passes_on(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *y = fv_checkpoint(ctx, first_input, NULL, 1, &x);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_scale(ctx, y, 3))));
    gradient_at(ctx, x, (double[]){3, 3}, 2);
    y = fv_checkpoint(ctx, captured, x, 0, NULL);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    gradient_at(ctx, x, (double[]){4, 4}, 2);
    /* A result older than the block, used outside of it as well. */
    fv_tensor *older = fv_scale(ctx, x, 10);
    y = fv_add(ctx, fv_checkpoint(ctx, captured, older, 0, NULL), older);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    gradient_at(ctx, x, (double[]){24, 24}, 2);
    fv_ctx_destroy(&ctx);
}

static fv_tensor *product(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)user;
    return fv_mul(ctx, in[0], in[1]);
}

static fv_tensor *nested(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    fv_tensor *y = fv_checkpoint(ctx, block, user, 1, in);
    return fv_exp(ctx, fv_checkpoint(ctx, block, user, 1, &y));
}

static void checkpoints_nest_and_share_inputs(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){3, -2}));
    fv_tensor *y = fv_checkpoint(ctx, product, NULL, 2, (fv_tensor *[]){x, x});
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    gradient_at(ctx, x, (double[]){6, -4}, 2);
    fv_ctx_destroy(&ctx);

    double grads[2][2][4];
    for (int mode = 0; mode < 2; mode++) {
        ctx = make();
        layer l = {.w = fv_leaf(ctx, values(ctx, 4, (double[]){1, -1, 2, 0.5}))};
        x = fv_leaf(ctx, values(ctx, 4, (double[]){1, 2, 3, 4}));
        fv_ctx_set_step(ctx, 9, 0);
        y = mode ? fv_checkpoint(ctx, nested, &l, 1, &x) : nested(ctx, &l, &x);
        CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), grads[mode][0], sizeof grads[0][0]));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, l.w), grads[mode][1], sizeof grads[0][0]));
        fv_ctx_destroy(&ctx);
    }
    CHECK(memcmp(grads[0], grads[1], sizeof grads[0]) == 0);
}

typedef struct trap {
    int calls, bad_call;
} trap;

static fv_tensor *trapped(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    trap *t = user;
    fv_tensor *y = fv_exp(ctx, in[0]);
    return t->calls++ == t->bad_call ? fv_add(ctx, y, fv_zeros(ctx, FV_F64, 1, (int64_t[]){3})) : y;
}

/* A block that fails in its first or second run leaves a context that works. */
static void checkpoint_blocks_may_fail(void)
{
    for (int bad = 0; bad < 2; bad++) {
        fv_ctx *ctx = make();
        trap t = {.bad_call = bad};
        fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){0, 0}));
        fv_scope_begin(ctx);
        fv_tensor *y = fv_checkpoint(ctx, trapped, &t, 1, &x);
        CHECK_EQ(fv_tensor_valid(y), bad == 1);
        CHECK_EQ(fv_backward(ctx, total(ctx, y)), FV_ERR_SHAPE);
        fv_scope_end(ctx);
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
        CHECK(fv_grad(ctx, x) == NULL);
        CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_checkpoint(ctx, trapped, &t, 1, &x))));
        gradient_at(ctx, x, (double[]){1, 1}, 2);
        fv_ctx_destroy(&ctx);
    }
}

/* The tape keeps what it needs when the caller lets go of it. */
static void freed_tensors_still_serve_backward(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, values(ctx, 2, (double[]){1, 2}));
    fv_tensor *square = fv_mul(ctx, x, x);
    fv_tensor *row = fv_slice(ctx, square, 0, 1, 2, 1);
    fv_tensor *loss = total(ctx, fv_mul(ctx, row, row));
    fv_tensor_free(ctx, &square);
    fv_tensor_free(ctx, &row);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    gradient_at(ctx, x, (double[]){0, 32}, 2); /* of x_1^4 */
    fv_ctx_destroy(&ctx);
}

/* Cross-entropy writes its gradient over logits that only it reads again. */
static void logits_are_overwritten_only_if_unused(void)
{
    fv_ctx *ctx = make();
    const int64_t shape[2] = {1, 2}, target = 1;
    fv_tensor *t = fv_from_host(ctx, FV_I64, 1, (int64_t[]){1}, &target);
    const double p = 1 / (1 + exp(1.0)), x[2] = {1, 2};
    for (int use = 0; use < 6; use++) {
        fv_tensor *leaf = fv_leaf(ctx, values(ctx, 2, x)), *scaled = fv_scale(ctx, leaf, 1.0);
        fv_tensor *logits = fv_reshape(ctx, scaled, 2, shape), *size = NULL;
        if (use < 4) logits = fv_scale(ctx, logits, 1.0); /* 4 and 5: a view */
        if (use >= 2)                                     /* reads them again; 5: their memory */
            size = total(ctx, fv_abs(ctx, use == 5 ? scaled : logits));
        fv_tensor *loss = fv_cross_entropy(ctx, logits, t, -1, 0, FV_REDUCTION_SUM);
        if (use == 1) fv_retain(ctx, logits);
        if (use >= 2) loss = fv_add(ctx, size, loss);
        if (use == 3) fv_tensor_free(ctx, &logits);
        CHECK_OK(ctx, fv_backward(ctx, loss));
        if (use == 1) CHECK(item(ctx, fv_slice(ctx, logits, 1, 0, 1, 1)) == 1);
        const double more = use >= 2 ? 1 : 0; /* of the sizes */
        double g[2] = {0};
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_cast(ctx, fv_grad(ctx, leaf), FV_F64), g, sizeof g));
        CHECK(fabs(g[0] - (p + more)) < 1e-6 && fabs(g[1] - (-p + more)) < 1e-6);
    }
    fv_ctx_destroy(&ctx);
}

static void cancel_stops_ops(void)
{
    int cancel = 0;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.cancel = &cancel;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_tensor *x = fv_full(ctx, FV_F32, 0, NULL, 1.0);
    CHECK(fv_tensor_valid(fv_exp(ctx, x)));
    cancel = 1;
    fv_exp(ctx, x);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_CANCELLED);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(fan_out_adds_up);
    RUN(same_gradient_to_both_inputs);
    RUN(half_gradients_add_up);
    RUN(gradients_accumulate_until_zeroed);
    RUN(unrecorded_things_have_no_gradient);
    RUN(a_loss_has_one_element);
    RUN(backward_consumes_and_says_so);
    RUN(released_results_cannot_be_read);
    RUN(backward_frees_as_it_goes);
    RUN(scopes_end_recordings);
    RUN(errors_stick_and_steps_do_nothing);
    RUN(a_given_gradient_stays_the_callers);
    RUN(unusable_gradients_are_refused);
    RUN(leaf_gradients_are_not_copied);
    RUN(freed_tensors_still_serve_backward);
    RUN(checkpoint_equals_plain);
    RUN(private_saves_die_with_their_node);
    RUN(checkpoint_saves_memory);
    RUN(checkpoint_of_nothing_passes_on);
    RUN(checkpoints_nest_and_share_inputs);
    RUN(checkpoint_blocks_may_fail);
    RUN(logits_are_overwritten_only_if_unused);
    RUN(cancel_stops_ops);
    RUN(cancel_stops_backward);
    return TEST_END();
}

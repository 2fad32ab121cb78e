/* fv_attend: results of its kinds of score, documents and blocks on tensors, and what it refuses.
 * Its kernels are tested in test_attention*.c, its gradients in test_grad.c. */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *make(void) { return op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU); }

static fv_tensor *bytes_of(fv_ctx *ctx, const uint8_t *x, int64_t rows, int64_t cols)
{
    return fv_from_host(ctx, FV_U8, 2, (int64_t[]){rows, cols}, x);
}

static void scores(void)
{
    fv_ctx *ctx = make();
    /* one query, two keys: tanh(1) against tanh(0) */
    fv_tensor *q = tensor_of(ctx, (float[]){1}, 4, 1, 1, 1, 1);
    fv_tensor *k = tensor_of(ctx, (float[]){0, -1}, 4, 1, 1, 2, 1);
    fv_tensor *v = tensor_of(ctx, (float[]){1, 0}, 4, 1, 1, 2, 1);
    fv_tensor *w = tensor_of(ctx, (float[]){2}, 2, 1, 1);
    fv_attend_extra extra = {.w = w};
    const double odds = exp(2 * tanh(1));
    CHECK_VALUES(ctx, fv_attend(ctx, q, k, v, NULL, &extra, NULL), 1e-6, odds / (odds + 1));
    /* the bias as the score: both heads of it share the values */
    extra = (fv_attend_extra){.bias = tensor_of(ctx, (float[]){0, 0, 0, logf(3)}, 3, 2, 1, 2)};
    CHECK_VALUES(ctx, fv_attend(ctx, NULL, NULL, v, NULL, &extra, NULL), 1e-6, 0.5, 0.25);

    fv_tensor *other = fv_cast(ctx, k, FV_F64);
    fv_attend(ctx, q, other, v, NULL, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "attend");
    fv_attend(ctx, fv_cast(ctx, q, FV_F64), k, v, NULL, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "attend");
    fv_attend(ctx, q, NULL, v, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "q and k must both be given");
    fv_attend(ctx, NULL, k, v, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "q and k must both be given");
    fv_attend(ctx, NULL, NULL, v, NULL, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "must be a bias");
    extra.w = w;
    fv_attend(ctx, NULL, NULL, v, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "w needs q and k");
    extra = (fv_attend_extra){.w = v};
    fv_attend(ctx, q, k, v, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "w must be [1, 1]");
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.reserved[3] = 1; /* a setting of a later version */
    fv_attend(ctx, q, k, v, &rule, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "out of range");
    fv_ctx_destroy(&ctx);
}

/* The smallest result there is has a gradient like any other. */
static void one_number(void)
{
    fv_ctx *ctx = make();
    fv_tensor *q = tensor_of(ctx, (float[]){1}, 4, 1, 1, 1, 1);
    fv_tensor *k = tensor_of(ctx, (float[]){0, logf(3)}, 4, 1, 1, 2, 1);
    fv_tensor *v = fv_leaf(ctx, tensor_of(ctx, (float[]){1, 2}, 4, 1, 1, 2, 1));
    fv_tensor *y = fv_attend(ctx, q, k, v, NULL, NULL, NULL);
    CHECK_VALUES(ctx, y, 1e-6, 1.75);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false)));
    CHECK_VALUES(ctx, fv_grad(ctx, v), 1e-6, 0.25, 0.75);
    fv_ctx_destroy(&ctx);
}

/* A row of documents, and the same one by one. */
static void documents(void)
{
    static const int64_t q_at[] = {0, 12, 12, 30}, k_at[] = {0, 20, 25, 40};
    fv_ctx *ctx = make();
    fv_tensor *q = tensor_random(ctx, 1, 4, 1, 2, 30, 8),
              *k = tensor_random(ctx, 2, 4, 1, 2, 40, 8);
    fv_tensor *v = tensor_random(ctx, 3, 4, 1, 2, 40, 8), *lse, *one_lse;
    fv_attend_extra extra = {.q_begin = indices_of(ctx, q_at, 4),
                             .k_begin = indices_of(ctx, k_at, 4)};
    fv_tensor *all = fv_attend(ctx, q, k, v, NULL, &extra, &lse);
    for (int b = 0; b < 3; b++) {
        fv_tensor *one =
            fv_attend(ctx, fv_slice(ctx, q, 2, q_at[b], q_at[b + 1], 1),
                      fv_slice(ctx, k, 2, k_at[b], k_at[b + 1], 1),
                      fv_slice(ctx, v, 2, k_at[b], k_at[b + 1], 1), NULL, NULL, &one_lse);
        CHECK(tensor_same(ctx, one, fv_slice(ctx, all, 2, q_at[b], q_at[b + 1], 1)));
        CHECK(tensor_same(ctx, one_lse, fv_slice(ctx, lse, 2, q_at[b], q_at[b + 1], 1)));
    }

    fv_attend_extra bad = {.q_begin = extra.q_begin};
    fv_attend(ctx, q, k, v, NULL, &bad, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "belong together");
    bad = extra;
    bad.bias = tensor_of(ctx, (float[]){1}, 1, 1);
    fv_attend(ctx, q, k, v, NULL, &bad, NULL);
    CHECK_ERROR(ctx, FV_ERR_UNSUPPORTED, "neither bias nor visible");
    bad = extra;
    bad.k_begin = indices_of(ctx, k_at, 3);
    fv_attend(ctx, q, k, v, NULL, &bad, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "same documents");
    bad.k_begin = indices_of(ctx, (int64_t[]){0, 30, 25, 40}, 4);
    fv_attend(ctx, q, k, v, NULL, &bad, NULL); /* only the kernel sees that they fall */
    CHECK_ERROR(ctx, FV_ERR_INDEX, "");
    fv_tensor *two = tensor_random(ctx, 1, 4, 2, 2, 30, 8);
    fv_attend(ctx, two, two, two, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "stored in one row");
    fv_ctx_destroy(&ctx);
}

static void blocks(void)
{
    fv_ctx *ctx = make();
    fv_tensor *q = tensor_random(ctx, 1, 4, 1, 2, 20, 8),
              *k = tensor_random(ctx, 2, 4, 1, 2, 40, 8);
    const uint8_t grid[2][3] = {{1, 0, 1}, {0, 1, 1}};
    uint8_t pairs[20][40];
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 40; j++)
            pairs[i][j] = grid[i / 10][j / 16];
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    const fv_attend_extra pattern = {.visible = bytes_of(ctx, &pairs[0][0], 20, 40)};
    fv_tensor *by_pairs = fv_attend(ctx, q, k, k, &rule, &pattern, NULL);
    rule.block_q = 10;
    rule.block_k = 16;
    fv_attend_extra extra = {.blocks = bytes_of(ctx, &grid[0][0], 2, 3)};
    CHECK(tensor_same(ctx, fv_attend(ctx, q, k, k, &rule, &extra, NULL), by_pairs));

    fv_attend(ctx, q, k, k, &rule, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "blocks and their sizes belong together");
    fv_attend(ctx, q, k, k, NULL, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "blocks and their sizes belong together");
    rule.block_q = 5;
    fv_attend(ctx, q, k, k, &rule, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "blocks [2,3] does not broadcast to [1,2,4,3]");
    rule.block_k = 8;
    fv_attend(ctx, q, k, k, &rule, &extra, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "out of range");
    fv_ctx_destroy(&ctx);
}

/* Calls that share keys: their gradients are gathered in one place, at every level. One query and
 * several, different numbers of visible keys. */
static void shared_keys(void)
{
    enum { B = 3, H = 2, KEYS = 37, D = 19, CALLS = 3 };
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
        for (int kind = 0; kind < 3; kind++) {
            fv_ctx *ctx = op_context((fv_simd)level, 2, FV_DEVICE_CPU);
            const int rows = kind == 1 ? 4 : 1;
            fv_tensor *k = fv_leaf(ctx, tensor_random(ctx, 1, 4, B, H, KEYS, D));
            fv_tensor *v = fv_leaf(ctx, tensor_random(ctx, 2, 4, B, H, KEYS, D));
            fv_tensor *key_lengths = indices_of(ctx, (int64_t[]){KEYS, 0, 20}, B);
            fv_attend_extra extra = {.key_lengths = key_lengths};
            if (kind < 2) extra.w = tensor_random(ctx, 3, 2, H, D);
            fv_tensor *all = NULL, *sum[2] = {NULL, NULL};
            for (int call = 0; call < 2 * CALLS; call++) { /* together, then one by one */
                const bool alone = call >= CALLS;
                fv_tensor *q = tensor_random(ctx, 10 + (uint64_t)(call % CALLS), 4, B, H, rows, D);
                fv_tensor *keys = alone ? fv_leaf(ctx, fv_contiguous(ctx, fv_detach(ctx, k))) : k;
                fv_tensor *values = alone ? fv_leaf(ctx, fv_contiguous(ctx, fv_detach(ctx, v))) : v;
                fv_tensor *o = fv_attend(ctx, q, keys, values, NULL, &extra, NULL);
                o = fv_sum(ctx, fv_mul(ctx, o, q), 0, NULL, false);
                if (!alone) {
                    all = all ? fv_add(ctx, all, o) : o;
                    continue;
                }
                CHECK_OK(ctx, fv_backward(ctx, o));
                fv_tensor *g[2] = {fv_grad(ctx, keys), fv_grad(ctx, values)};
                for (int i = 0; i < 2; i++)
                    sum[i] = sum[i] ? fv_add(ctx, sum[i], g[i]) : g[i];
            }
            CHECK_OK(ctx, fv_backward(ctx, all));
            CHECK(tensor_distance(ctx, fv_grad(ctx, k), sum[0]) < 2e-6);
            CHECK(tensor_distance(ctx, fv_grad(ctx, v), sum[1]) < 2e-6);
            fv_ctx_destroy(&ctx);
        }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(scores);
    RUN(one_number);
    RUN(documents);
    RUN(blocks);
    RUN(shared_keys);
    return TEST_END();
}

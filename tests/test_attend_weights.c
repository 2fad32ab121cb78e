/* The ops that return attention weights: equal to the raw calls, on both devices; refusals. */
#include "fovea/attention.h"
#include "fovea/ops.h"
#include "support/attention_weights.h"

static fv_tensor *tensor_of(fv_ctx *ctx, vec x, int rank, const int64_t *shape)
{
    return fv_from_host(ctx, x.dtype, rank, shape, x.data);
}

static bool tensor_holds(fv_ctx *ctx, fv_tensor *t, vec want)
{
    const vec got = vec_new(want.dtype, want.n);
    const size_t bytes = (size_t)want.n * fv_dtype_size(want.dtype);
    return fv_tensor_read(ctx, t, got.data, bytes) == FV_OK && vec_same_bits(got, want);
}

/* Parts have the bits of the whole: the last heads, a band of rows, columns across a block. */
static bool part_agrees(fv_ctx *ctx, fv_tensor *whole, fv_tensor *part,
                        const fv_attention_region *at)
{
    fv_tensor *cut = fv_slice(ctx, whole, 1, at->head, at->head + at->heads, 1);
    cut = fv_slice(ctx, cut, 2, at->row, at->row + at->rows, 1);
    cut = fv_contiguous(ctx, fv_slice(ctx, cut, 3, at->col, at->col + at->cols, 1));
    const vec want = vec_new(FV_F32, fv_tensor_count(cut));
    return fv_tensor_read(ctx, cut, want.data, (size_t)want.n * sizeof(float)) == FV_OK &&
           fv_tensor_count(part) == want.n && tensor_holds(ctx, part, want);
}

/* Tensors give what raw pointers give, on both devices. */
static void ops_on(fv_device_kind device)
{
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.device = device;
    config.simd = weights_exec.level;
    fv_ctx *ctx = NULL;
    CHECK(fv_ctx_create(&config, &ctx) == FV_OK);
    fv_attn a = attn_heads(2, 4, 2, 20, 300, 24);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = -3;
    problem p = problem_of(a);
    run_forward(&p);
    fv_tensor *q = tensor_of(ctx, p.q, 4, (int64_t[]){2, 4, 20, 24});
    fv_tensor *k = tensor_of(ctx, p.k, 4, (int64_t[]){2, 2, 300, 24});
    fv_tensor *lse = tensor_of(ctx, p.lse, 3, (int64_t[]){2, 4, 20}), *index;
    const fv_attention_saved view = {.q = q, .k = k, .lse = lse, .rule = a.rule};
    const summary want = weights_summary(&p, 5);
    CHECK(tensor_holds(ctx, fv_attention_weights(ctx, &view, NULL), weights_map(&p)));
    /* The same numbers in another order in memory. */
    fv_tensor *reordered = fv_contiguous(ctx, fv_permute(ctx, lse, (int[]){2, 0, 1}));
    fv_attention_saved reordered_view = view;
    reordered_view.lse = fv_permute(ctx, reordered, (int[]){1, 2, 0});
    CHECK(tensor_holds(ctx, fv_attention_weights(ctx, &reordered_view, NULL), weights_map(&p)));
    const fv_attention_region part = {
        .head = 1, .heads = 3, .row = 7, .rows = 9, .col = 40, .cols = 231};
    CHECK(part_agrees(ctx, fv_attention_weights(ctx, &view, NULL),
                      fv_attention_weights(ctx, &view, &part), &part));
    CHECK(tensor_holds(ctx, fv_attention_top(ctx, &view, 5, &index), want.weight));
    CHECK(tensor_holds(ctx, index, want.index));
    const fv_attention_summary s = fv_attention_summarise(ctx, &view);
    CHECK(tensor_holds(ctx, s.entropy, want.entropy));
    CHECK(tensor_holds(ctx, s.distance, want.distance));
    CHECK(tensor_holds(ctx, s.received, want.received));
    const vec means = vec_new(FV_F32, 8), got = vec_new(FV_F32, 8);
    CHECK(fv_attn_head_means(&p.a, p.lse.data, want.entropy.data, means.data) == FV_OK);
    CHECK(fv_tensor_read(ctx, s.head_entropy, got.data, 8 * sizeof(float)) == FV_OK);
    CHECK(vec_distance(means, got) <= 20 * 0x1p-24 * vec_largest(means));
    CHECK(fv_attn_head_means(&p.a, p.lse.data, want.distance.data, means.data) == FV_OK);
    CHECK(fv_tensor_read(ctx, s.head_distance, got.data, 8 * sizeof(float)) == FV_OK);
    CHECK(vec_distance(means, got) <= 20 * 0x1p-24 * vec_largest(means));
    fv_ctx_destroy(&ctx);
    vec_free_all();
}

/* Varlen documents, likewise. */
static void documents_on(fv_device_kind device)
{
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.device = device;
    config.simd = weights_exec.level;
    fv_ctx *ctx = NULL;
    CHECK(fv_ctx_create(&config, &ctx) == FV_OK);
    fv_attn a = attn_heads(1, 2, 1, 20, 300, 24);
    a.batch = 3;
    a.varlen = true;
    problem p = problem_of(a);
    p.q_begin = VEC_OF(FV_I64, 0, 4, 4, 20);
    p.k_begin = VEC_OF(FV_I64, 0, 30, 90, 300);
    p.lse = vec_new(FV_F32, 2 * 20);
    run_forward(&p);
    const fv_attend_extra extra = {.q_begin = tensor_of(ctx, p.q_begin, 1, (int64_t[]){4}),
                                   .k_begin = tensor_of(ctx, p.k_begin, 1, (int64_t[]){4})};
    fv_tensor *q = tensor_of(ctx, p.q, 4, (int64_t[]){1, 2, 20, 24});
    fv_tensor *k = tensor_of(ctx, p.k, 4, (int64_t[]){1, 1, 300, 24});
    fv_tensor *lse = tensor_of(ctx, p.lse, 3, (int64_t[]){1, 2, 20}), *index;
    const fv_attention_saved view = {.q = q, .k = k, .lse = lse, .rule = a.rule, .extra = extra};
    const summary want = weights_summary(&p, 5);
    CHECK(tensor_holds(ctx, fv_attention_weights(ctx, &view, NULL), weights_map(&p)));
    const fv_attention_region part = {
        .head = 1, .heads = 1, .row = 2, .rows = 12, .col = 90, .cols = 160};
    CHECK(part_agrees(ctx, fv_attention_weights(ctx, &view, NULL),
                      fv_attention_weights(ctx, &view, &part), &part));
    CHECK(tensor_holds(ctx, fv_attention_top(ctx, &view, 5, &index), want.weight));
    CHECK(tensor_holds(ctx, index, want.index));
    const fv_attention_summary s = fv_attention_summarise(ctx, &view);
    CHECK(tensor_holds(ctx, s.entropy, want.entropy));
    CHECK(tensor_holds(ctx, s.received, want.received));
    const vec means = vec_new(FV_F32, 2), got = vec_new(FV_F32, 2);
    CHECK(fv_attn_head_means(&p.a, p.lse.data, want.distance.data, means.data) == FV_OK);
    CHECK(fv_tensor_read(ctx, s.head_distance, got.data, 2 * sizeof(float)) == FV_OK);
    CHECK(vec_distance(means, got) <= 20 * 0x1p-24 * vec_largest(means));
    fv_ctx_destroy(&ctx);
    vec_free_all();
}

static void ops_at_level(void)
{
    ops_on(FV_DEVICE_CPU);
    ops_on(FV_DEVICE_GUARDED);
    documents_on(FV_DEVICE_CPU);
    documents_on(FV_DEVICE_GUARDED);
}
static void ops(void) { weights_every_level(ops_at_level); }

static void refused_by_ops(void)
{
    fv_ctx *ctx = NULL;
    CHECK(fv_ctx_create(NULL, &ctx) == FV_OK);
    fv_tensor *q = fv_full(ctx, FV_F32, 4, (int64_t[]){1, 2, 3, 4}, 0);
    fv_tensor *k = fv_full(ctx, FV_F32, 4, (int64_t[]){1, 2, 5, 4}, 0);
    fv_tensor *lse = fv_full(ctx, FV_F32, 3, (int64_t[]){1, 2, 3}, 0);
    fv_tensor *other = fv_full(ctx, FV_F32, 3, (int64_t[]){1, 2, 4}, 0);
    fv_tensor *wide = fv_full(ctx, FV_F64, 3, (int64_t[]){1, 2, 3}, 0);
    fv_attention_saved good = {.q = q, .k = k, .lse = lse}, bad = good;
    fv_attention_rule_init(&good.rule);
    fv_tensor *begin = fv_full(ctx, FV_I64, 1, (int64_t[]){2}, 0);
    const fv_attend_extra documents = {.q_begin = lse, .k_begin = lse}, half = {.q_begin = begin};
    bad = good, bad.lse = other;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_SHAPE);
    bad = good, bad.lse = wide;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_DTYPE);
    bad = good, bad.k = NULL;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_ARGUMENT);
    bad = good, bad.q = bad.k = NULL;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_ARGUMENT);
    bad = good, bad.extra = documents;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_DTYPE);
    bad = good, bad.extra = half;
    fv_attention_weights(ctx, &bad, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_ARGUMENT);
    const fv_attention_region beyond[] = {{.heads = 3, .rows = 3, .cols = 5},
                                          {.heads = 2, .row = 1, .rows = 3, .cols = 5},
                                          {.heads = 2, .rows = 3, .col = INT64_MAX, .cols = 1},
                                          {.heads = 2, .rows = 3, .cols = -1}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        fv_attention_weights(ctx, &good, &beyond[i]);
        CHECK(fv_ctx_take_error(ctx) == FV_ERR_ARGUMENT);
    }
    fv_attention_top(ctx, &good, -1, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_ERR_ARGUMENT);
    fv_attention_weights(ctx, &good, NULL);
    CHECK(fv_ctx_take_error(ctx) == FV_OK);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(ops);
    RUN(refused_by_ops);
    return TEST_END();
}

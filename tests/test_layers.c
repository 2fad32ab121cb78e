/*
 * Layers: heads of every shape, caches and packed documents against the whole sequence, names,
 * counts, refusals, grids. PyTorch's numbers are in test_layers_torch.c, gradients in
 * test_compounds.c.
 */
#include "fovea/autograd.h"
#include "nn/mha.h"
#include "support/layerbench.h"
#include "support/tensors.h"

/* ---- heads of every shape ------------------------------------------------------------ */

/* Grouped heads are heads whose keys are repeated. */
static void grouped_heads_repeat_keys(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, 12, 4);
    cfg.kv_heads = 2;
    cfg.d_v = 5;
    fv_mha grouped, full;
    CHECK_OK(ctx, fv_mha_create(b.params, "g", &cfg, &grouped));
    CHECK_EQ(fv_tensor_size(grouped.k.weight, 0), 6);
    CHECK_EQ(fv_tensor_size(grouped.v.weight, 0), 10);
    CHECK_EQ(fv_tensor_size(grouped.out.weight, 1), 20);
    cfg.kv_heads = 4;
    CHECK_OK(ctx, fv_mha_complete(ctx, &cfg, &full));
    full.q = grouped.q;
    full.out = grouped.out;
    const int64_t rows_k[12] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5};
    int64_t rows_v[20];
    for (int i = 0; i < 20; i++)
        rows_v[i] = i / 10 * 5 + i % 5;
    fv_tensor *ik = indices_of(ctx, rows_k, 12), *iv = indices_of(ctx, rows_v, 20);
    full.k = (fv_dense){fv_index_select(ctx, grouped.k.weight, ik, 0),
                        fv_index_select(ctx, grouped.k.bias, ik, 0)};
    full.v = (fv_dense){fv_index_select(ctx, grouped.v.weight, iv, 0),
                        fv_index_select(ctx, grouped.v.bias, iv, 0)};
    fv_mha_input in = {.x = tensor_random(ctx, 1, 3, 2, 7, 12)};
    CHECK(tensor_distance(ctx, fv_mha_run(ctx, &grouped, &in, NULL),
                          fv_mha_run(ctx, &full, &in, NULL)) < 1e-6);
    bench_free(&b);
}

/* Every score and position setting: step by step over a cache is what the whole sequence gives. */
static void decode_by_steps(const fv_mha_config *cfg, const char *what)
{
    enum { B = 2, N = 6, WIDTH = 8 };
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_mha heads;
    CHECK_OK(ctx, fv_mha_create(b.params, what, cfg, &heads));
    fv_no_grad_begin(ctx);
    fv_tensor *x = tensor_random(ctx, 5, 3, B, N, WIDTH);
    fv_tensor *whole = fv_mha_run(ctx, &heads, &(fv_mha_input){.x = x}, NULL);
    fv_tensor *k = NULL, *v = NULL, *rows[N];
    for (int t = 0; t < N; t++) {
        fv_tensor *now = fv_slice(ctx, x, 1, t, t + 1, 1), *k_new = NULL, *v_new = NULL;
        fv_mha_project_keys(ctx, &heads, now, NULL, t, NULL, &k_new, &v_new);
        k = t ? fv_concat(ctx, 2, (fv_tensor *[]){k, k_new}, 2) : k_new;
        v = t ? fv_concat(ctx, 2, (fv_tensor *[]){v, v_new}, 2) : v_new;
        fv_mha_input in = {.x = now, .k = k, .v = v, .position = t};
        rows[t] = fv_mha_run(ctx, &heads, &in, NULL);
    }
    const double off = tensor_distance(ctx, whole, fv_concat(ctx, N, rows, 1));
    if (!(off < 1e-5)) test_failed(__FILE__, __LINE__, "%s: steps are off by %g", what, off);
    fv_no_grad_end(ctx);
    bench_free(&b);
}

static void steps_equal_the_whole(void)
{
    fv_mha_config cfg;
#define VARIANT(what, ...)                                                                         \
    do {                                                                                           \
        fv_mha_config_init(&cfg, sizeof cfg, 8, 2);                                                \
        cfg.attention.rule.causal = FV_CAUSAL_TOP_LEFT;                                            \
        __VA_ARGS__;                                                                               \
        decode_by_steps(&cfg, what);                                                               \
    } while (0)
    VARIANT("scaled");
    VARIANT("fused QKV, one key head", cfg.fused_qkv = true; cfg.kv_heads = 1);
    VARIANT("rotary", cfg.rotary.width = 4);
    VARIANT("ALiBi", cfg.alibi = true);
    VARIANT("window", cfg.attention.rule.left = 2);
    VARIANT("buckets", cfg.relative = (fv_relative){FV_RELATIVE_T5, 8, 4, false, false});
    VARIANT("vectors", cfg.relative = (fv_relative){.max_distance = 2};
            cfg.relative_vectors = true);
    VARIANT("vectors for keys and queries", cfg.relative = (fv_relative){.max_distance = 2};
            cfg.relative.reversed = cfg.relative_vectors = true;
            cfg.relative_no_values = cfg.relative_queries = true);
    VARIANT("norms of q and k", cfg.qk_norm = true; cfg.qk_norm_eps = 1e-6; cfg.rotary.width = 4);
    VARIANT("general", cfg.attention.score = FV_ATTENTION_GENERAL);
    VARIANT("additive", cfg.attention.score = FV_ATTENTION_ADDITIVE);
    VARIANT("cosine", cfg.attention.score = FV_ATTENTION_COSINE);
    VARIANT("location", cfg.attention.score = FV_ATTENTION_LOCATION; cfg.location_keys = 6);
    VARIANT("local-m", cfg.attention.normaliser = FV_ATTENTION_LOCAL_M;
            cfg.attention.half_width = 2);
#undef VARIANT
}

/* Three documents in one row are what they are one by one; rotary positions begin again in each,
 * by a table that the caller puts together. */
static void packed_documents(void)
{
    enum { DOCUMENTS = 3, TOTAL = 12, WIDTH = 8 };
    static const int64_t begin[DOCUMENTS + 1] = {0, 5, 6, TOTAL};
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, WIDTH, 2);
    cfg.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    cfg.rotary.width = 4;
    fv_mha heads;
    CHECK_OK(ctx, fv_mha_create(b.params, "d", &cfg, &heads));
    fv_no_grad_begin(ctx);
    fv_tensor *x = tensor_random(ctx, 1, 3, 1, TOTAL, WIDTH), *alone[DOCUMENTS], *angles[DOCUMENTS];
    for (int i = 0; i < DOCUMENTS; i++) {
        fv_mha_input one = {.x = fv_slice(ctx, x, 1, begin[i], begin[i + 1], 1)};
        alone[i] = fv_mha_run(ctx, &heads, &one, NULL);
        angles[i] = fv_rotary_table(ctx, FV_F32, &cfg.rotary, 0, begin[i + 1] - begin[i]);
    }
    fv_mha_input in = {.x = x, .rotary_table = fv_concat(ctx, DOCUMENTS, angles, 1)};
    in.q_begin = in.k_begin = indices_of(ctx, begin, DOCUMENTS + 1);
    fv_tensor *expected = fv_concat(ctx, DOCUMENTS, alone, 1);
    CHECK(tensor_distance(ctx, fv_mha_run(ctx, &heads, &in, NULL), expected) < 1e-6);
    in.rotary_table = NULL; /* or run on: only differences count, up to rounding */
    CHECK(tensor_distance(ctx, fv_mha_run(ctx, &heads, &in, NULL), expected) < 1e-5);
    in.q_begin = in.k_begin = NULL; /* one document */
    CHECK(tensor_distance(ctx, fv_mha_run(ctx, &heads, &in, NULL), expected) > 1e-3);
    in.q_begin = in.k_begin = indices_of(ctx, begin, DOCUMENTS + 1);
    heads.cfg.attention.want_weights = true;
    CHECK(!fv_tensor_valid(fv_mha_run(ctx, &heads, &in, NULL)));
    CHECK_ERROR(ctx, FV_ERR_UNSUPPORTED, "documents");
    bench_free(&b);
}

static void cross_attention_with_a_learned_centre(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, 8, 2);
    cfg.attention.normaliser = FV_ATTENTION_LOCAL_P;
    cfg.attention.half_width = 2;
    fv_mha heads;
    CHECK_OK(ctx, fv_mha_create(b.params, "c", &cfg, &heads));
    fv_tensor *memory = tensor_random(ctx, 2, 3, 2, 9, 8);
    fv_mha_input in = {.x = tensor_random(ctx, 1, 3, 2, 4, 8), .keys = memory};
    fv_attention_result r;
    fv_tensor *y = fv_mha_run(ctx, &heads, &in, &r);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, y), 0, NULL, false)));
    CHECK(fv_grad(ctx, bench_parameter(&b, "c.centre.weight")) != NULL);
    CHECK(fv_grad(ctx, bench_parameter(&b, "c.centre.vector")) != NULL);
    CHECK(r.centre != NULL);
    bench_free(&b);
}

/* A sequence's bits do not depend on what else is in the batch, with any score inside. */
static void batches_do_not_matter(void)
{
    enum { B = 5, N = 6, WIDTH = 8 };
    for (int score = 0; score < FV_ATTENTION_CUSTOM; score++) {
        bench b = bench_new();
        fv_ctx *ctx = b.ctx;
        fv_block_config cfg;
        fv_block_config_init(&cfg, sizeof cfg, WIDTH, 2);
        cfg.self.attention.score = (fv_attention_score)score;
        cfg.self.location_keys = N;
        cfg.self.rotary.width = 2;
        fv_block block;
        CHECK_OK(ctx, fv_block_create(b.params, "b", &cfg, &block));
        fv_no_grad_begin(ctx);
        fv_tensor *x = tensor_random(ctx, 1, 3, B, N, WIDTH), *alone[B];
        for (int i = 0; i < B; i++) {
            fv_block_input one = {.x = fv_slice(ctx, x, 0, i, i + 1, 1)};
            alone[i] = fv_block_run(ctx, &block, &one, NULL);
        }
        fv_tensor *all = fv_block_run(ctx, &block, &(fv_block_input){.x = x}, NULL);
        CHECK(tensor_same(ctx, all, fv_concat(ctx, B, alone, 0)));
        bench_free(&b);
    }
}

/* Weights on request, of both attentions, without touching the result. */
static void weights_on_request(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 8, 2);
    fv_mha_config_init(&cfg.cross, sizeof cfg.cross, 8, 4);
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "b", &cfg, &block));
    fv_block_input in = {.x = tensor_random(ctx, 1, 3, 1, 3, 8),
                         .memory = tensor_random(ctx, 2, 3, 1, 5, 8)};
    fv_block_result r;
    fv_tensor *y = fv_block_run(ctx, &block, &in, &r);
    CHECK(r.self.weights == NULL && r.cross.weights == NULL);
    in.want_weights = true;
    CHECK(tensor_same(ctx, y, fv_block_run(ctx, &block, &in, &r)));
    CHECK_EQ(fv_tensor_count(r.self.weights), 2 * 3 * 3);
    CHECK_EQ(fv_tensor_count(r.cross.weights), 4 * 3 * 5);
    bench_free(&b);
}

/* ---- names, counts, refusals ---------------------------------------------------------- */

static void names_and_counts(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 16, 4);
    cfg.norm = FV_NORM_RMS;
    cfg.bias = false;
    cfg.ff.gated = true;
    cfg.ff.act = FV_ACT_SILU;
    cfg.ff.hidden = 24;
    cfg.self.kv_heads = 2;
    cfg.self.rotary.width = 4;
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "model.layers.0", &cfg, &block));
    static const char *const names[] = {
        "model.layers.0.self.q_proj.weight", "model.layers.0.self.k_proj.weight",
        "model.layers.0.self.v_proj.weight", "model.layers.0.self.out_proj.weight",
        "model.layers.0.self_norm.weight",   "model.layers.0.ff.up.weight",
        "model.layers.0.ff.gate.weight",     "model.layers.0.ff.down.weight",
        "model.layers.0.ff_norm.weight"};
    CHECK_EQ(fv_params_count(b.params), 9);
    for (int i = 0; i < 9; i++)
        bench_parameter(&b, names[i]);
    CHECK_EQ(fv_params_elements(b.params), 16 * 16 * 2 + 8 * 16 * 2 + 3 * 16 * 24 + 2 * 16);
    fv_tensor *table = NULL;
    CHECK_OK(ctx, fv_embedding_create(b.params, "embed", 5, 16, 0.02, &table));
    CHECK(bench_parameter(&b, "embed.weight") == table);
    bench_free(&b);
}

static void starts(void)
{
    bench b = bench_new();
    fv_dense xavier, normal;
    CHECK_OK(b.ctx, fv_dense_create(b.params, "x", 300, 100, true, 0, &xavier));
    CHECK_OK(b.ctx, fv_dense_create(b.params, "n", 300, 100, false, 0.02, &normal));
    float *x = tensor_floats(b.ctx, xavier.weight), *n = tensor_floats(b.ctx, normal.weight);
    double most = 0, square_x = 0, square_n = 0;
    for (int i = 0; i < 30000; i++) {
        most = fmax(most, fabs((double)x[i]));
        square_x += pow((double)x[i], 2) / 30000;
        square_n += pow((double)n[i], 2) / 30000;
    }
    const double bound = sqrt(6.0 / 400);
    CHECK(most <= bound && most > 0.99 * bound);
    CHECK_NEAR(square_x, bound * bound / 3, 0.03 * bound * bound / 3);
    CHECK_NEAR(sqrt(square_n), 0.02, 0.0004);
    CHECK(normal.bias == NULL);
    free(x);
    free(n);
    bench_free(&b);
}

static void refusals(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_mha_config cfg;
    fv_mha heads = {.score = NULL};
#define REFUSE(change, text)                                                                       \
    do {                                                                                           \
        fv_mha_config_init(&cfg, sizeof cfg, 8, 2);                                                \
        change;                                                                                    \
        CHECK_EQ(fv_mha_create(b.params, "r", &cfg, &heads), FV_ERR_ARGUMENT);                     \
        CHECK(strstr(fv_ctx_message(ctx), text) != NULL);                                          \
        CHECK_EQ(fv_ctx_error(ctx), FV_OK);                                                        \
        CHECK_EQ(fv_params_count(b.params), 0);                                                    \
    } while (0)
    REFUSE(cfg.struct_size = 1, "initialised");
    REFUSE(cfg.heads = 0, "0 heads");
    REFUSE(cfg.kv_heads = 3, "3 key heads");
    REFUSE(cfg.d_k = INT64_MAX, "widths");
    REFUSE(cfg.fused_qkv = true; cfg.width_k = 9, "one width");
    REFUSE(cfg.rotary.width = 6, "rotary");
    REFUSE(cfg.relative = ((fv_relative){FV_RELATIVE_T5, 3, 0, false, false}),
           "relative positions");
    REFUSE(cfg.relative_vectors = true; cfg.attention.score = FV_ATTENTION_ADDITIVE, "vectors");
    REFUSE(cfg.attention.score = FV_ATTENTION_LOCATION, "location_keys");
#undef REFUSE
    fv_feed_forward_config ff;
    fv_feed_forward_config_init(&ff, sizeof ff, 8);
    ff.dropout = 1;
    fv_feed_forward made;
    CHECK_EQ(fv_feed_forward_create(b.params, "f", &ff, &made), FV_ERR_ARGUMENT);
    fv_norm_layer norm;
    CHECK_EQ(fv_norm_layer_create(b.params, "n", 0, FV_NORM_LAYER, true, 1e-5, &norm),
             FV_ERR_ARGUMENT);
    fv_dense dense = {.weight = NULL};
    fv_params_add(b.params, "d.weight", fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 3}));
    CHECK_EQ(fv_dense_create(b.params, "d", 3, 4, false, 0, &dense), FV_ERR_SHAPE);
    CHECK(dense.weight == NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "'d.weight' has shape [3,3], expected [4,3]");
    fv_nonlocal grid = {.channels = 4};
    CHECK(!fv_tensor_valid(
        fv_nonlocal_run(ctx, &grid, tensor_random(ctx, 1, 3, 2, 4, 4), false, NULL)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,4,4], expected [batch, 4, height, width]");
    fv_block_config block_cfg;
    fv_block_config_init(&block_cfg, sizeof block_cfg, 8, 2);
    fv_mha_config_init(&block_cfg.cross, sizeof block_cfg.cross, 8, 2);
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "b", &block_cfg, &block));
    fv_tensor *x = tensor_random(ctx, 1, 3, 1, 2, 8);
    CHECK(!fv_tensor_valid(fv_block_run(ctx, &block, &(fv_block_input){.x = x}, NULL)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "needs memory");
    bench_free(&b);
}

/* Without training there is no dropout; with it there is, and the step keys it. */
static void dropout_is_for_training(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 8, 2);
    cfg.dropout = cfg.ff.dropout = cfg.self.attention.rule.dropout = 0.3;
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "", &cfg, &block));
    fv_block_input in = {.x = tensor_random(ctx, 1, 3, 2, 4, 8)};
    fv_tensor *calm = fv_block_run(ctx, &block, &in, NULL);
    CHECK(tensor_same(ctx, calm, fv_block_run(ctx, &block, &in, NULL)));
    in.training = true;
    fv_ctx_set_step(ctx, 4, 0);
    fv_tensor *wild = fv_block_run(ctx, &block, &in, NULL);
    CHECK(tensor_distance(ctx, calm, wild) > 1e-2);
    fv_ctx_set_step(ctx, 4, 0);
    CHECK(tensor_same(ctx, wild, fv_block_run(ctx, &block, &in, NULL)));
    fv_ctx_set_step(ctx, 5, 0);
    CHECK(!tensor_same(ctx, wild, fv_block_run(ctx, &block, &in, NULL)));
    bench_free(&b);
}

/* ---- grids -------------------------------------------------------------------------- */

static void grid_by_its_formula(void)
{
    enum { C = 4, H = 2, W = 3, N = H * W, INNER = 2 };
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_nonlocal grid;
    CHECK_OK(ctx, fv_nonlocal_create(b.params, "g", C, INNER, 0, 0, &grid));
    CHECK_OK(ctx, fv_tensor_write(ctx, grid.gamma, (float[]){0.5f}, sizeof(float)));
    fv_tensor *x = tensor_random(ctx, 1, 4, 1, C, H, W);
    float *y = tensor_floats(ctx, fv_nonlocal_run(ctx, &grid, x, false, NULL)),
          *p = tensor_floats(ctx, x);
    float *wq = tensor_floats(ctx, grid.query), *wk = tensor_floats(ctx, grid.key);
    float *wv = tensor_floats(ctx, grid.values), *wo = tensor_floats(ctx, grid.out);
    for (int j = 0; j < N; j++) {
        double score[N], sum = 0, blend[INNER] = {0};
        for (int i = 0; i < N; i++) {
            score[i] = 0;
            for (int a = 0; a < INNER; a++) {
                double q = 0, k = 0;
                for (int c = 0; c < C; c++) {
                    q += (double)wq[a * C + c] * (double)p[c * N + j];
                    k += (double)wk[a * C + c] * (double)p[c * N + i];
                }
                score[i] += q * k; /* no 1/sqrt(d) */
            }
            sum += exp(score[i]);
        }
        for (int i = 0; i < N; i++)
            for (int a = 0; a < INNER; a++)
                for (int c = 0; c < C; c++)
                    blend[a] += exp(score[i]) / sum * (double)wv[a * C + c] * (double)p[c * N + i];
        for (int c = 0; c < C; c++) {
            double o = 0;
            for (int a = 0; a < INNER; a++)
                o += (double)wo[c * INNER + a] * blend[a];
            CHECK_NEAR(y[c * N + j], (double)p[c * N + j] + 0.5 * o, 1e-5);
        }
    }
    free(y);
    free(p);
    free(wq);
    free(wk);
    free(wv);
    free(wo);
    bench_free(&b);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(grouped_heads_repeat_keys);
    RUN(steps_equal_the_whole);
    RUN(packed_documents);
    RUN(cross_attention_with_a_learned_centre);
    RUN(batches_do_not_matter);
    RUN(weights_on_request);
    RUN(names_and_counts);
    RUN(starts);
    RUN(refusals);
    RUN(dropout_is_for_training);
    RUN(grid_by_its_formula);
    return TEST_END();
}

/*
 * Layers: PyTorch's multi-head attention and Transformer layers by ours, heads of every shape
 * against the plain formula, caches against the whole sequence, names, counts, refusals. Gradients
 * are in test_compounds.c.
 */
#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "fovea/safetensors.h"
#include "support/opcase.h"
#include "support/tensors.h"

typedef struct bench {
    fv_ctx *ctx;
    fv_params *params;
} bench;

static bench bench_new(void)
{
    bench b = {.ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU)};
    CHECK_OK(b.ctx, fv_params_create(b.ctx, &b.params));
    return b;
}

static void bench_free(bench *b)
{
    CHECK_OK(b->ctx, fv_ctx_error(b->ctx));
    fv_params_destroy(&b->params);
    fv_ctx_destroy(&b->ctx);
}

static fv_tensor *parameter(const bench *b, const char *name)
{
    fv_tensor *t = fv_params_find(b->params, name);
    if (!t) test_failed(__FILE__, __LINE__, "there is no parameter '%s'", name);
    return t;
}

/* ---- PyTorch's numbers -------------------------------------------------------------- */

typedef struct fixture {
    bench *b;
    fv_safetensors *file;
    const char *layer;
} fixture;

static fv_tensor *load(const fixture *f, const char *part, const char *suffix)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s%s", f->layer, part, suffix);
    return fv_safetensors_load(f->b->ctx, f->file, name);
}

/* A parameter of the set from the file, which is how loaded weights reach a layer. */
static void take(const fixture *f, const char *ours, const char *theirs)
{
    fv_params_add(f->b->params, ours, load(f, theirs, ""));
}

static void take_rows(const fixture *f, const char *ours, const char *theirs, int64_t from,
                      int64_t to)
{
    fv_ctx *ctx = f->b->ctx;
    fv_tensor *rows = fv_slice(ctx, load(f, theirs, ""), 0, from, to, 1);
    fv_tensor *own = fv_zeros(ctx, FV_F32, fv_tensor_rank(rows), fv_tensor_shape(rows));
    fv_params_add(f->b->params, ours, fv_contiguous(ctx, fv_add(ctx, own, rows)));
}

static void compare(const fixture *f, const char *part, const char *suffix, fv_tensor *ours)
{
    const double off = tensor_distance(f->b->ctx, ours, load(f, part, suffix));
    if (!(off <= 2e-5))
        test_failed(__FILE__, __LINE__, "%s.%s%s: off by %g", f->layer, part, suffix, off);
}

/* sum(y upstream), so that backward sends just the upstream gradient of the file. */
static fv_tensor *weighed(const fixture *f, const char *part, fv_tensor *y)
{
    fv_ctx *ctx = f->b->ctx;
    return fv_sum(ctx, fv_mul(ctx, y, load(f, part, ".grad")), 0, NULL, false);
}

static void run_mha(fixture *f, const fv_heads *heads, int inputs)
{
    static const char *const names[3] = {"in0", "in1", "in2"};
    fv_ctx *ctx = f->b->ctx;
    fv_tensor *in[3] = {NULL};
    for (int i = 0; i < inputs; i++)
        in[i] = fv_leaf(ctx, load(f, names[i], ""));
    fv_attention_result r;
    fv_tensor *y =
        fv_heads_run(ctx, heads, &(fv_heads_input){.x = in[0], .keys = in[1], .values = in[2]}, &r);
    compare(f, "out0", "", y);
    compare(f, "out1", "", r.weights);
    fv_tensor *loss = fv_add(ctx, weighed(f, "out0", y), weighed(f, "out1", r.weights));
    CHECK_OK(ctx, fv_backward(ctx, loss));
    for (int i = 0; i < inputs; i++)
        compare(f, names[i], ".grad", fv_grad(ctx, in[i]));
    compare(f, "param.out_proj.weight", ".grad",
            fv_grad(ctx, parameter(f->b, "m.out_proj.weight")));
}

static void torch_self_attention(void)
{
    for (int packed = 0; packed < 2; packed++) {
        bench b = bench_new();
        fixture f = {.b = &b, .layer = "mha_self"};
        CHECK_OK(b.ctx, fv_safetensors_open(b.ctx, test_path("fixtures/torch/layers.safetensors"),
                                            FV_SAFETENSORS_COPY, &f.file));
        static const char *const ours[6] = {"m.q_proj.weight", "m.k_proj.weight", "m.v_proj.weight",
                                            "m.q_proj.bias",   "m.k_proj.bias",   "m.v_proj.bias"};
        for (int i = 0; i < 6 && !packed; i++)
            take_rows(&f, ours[i], i < 3 ? "param.in_proj_weight" : "param.in_proj_bias",
                      i % 3 * 24, i % 3 * 24 + 24);
        if (packed) {
            take(&f, "m.qkv_proj.weight", "param.in_proj_weight");
            take(&f, "m.qkv_proj.bias", "param.in_proj_bias");
        }
        take(&f, "m.out_proj.weight", "param.out_proj.weight");
        take(&f, "m.out_proj.bias", "param.out_proj.bias");
        const int before = fv_params_count(b.params);
        fv_heads_config cfg;
        fv_heads_config_init(&cfg, sizeof cfg, 24, 4);
        cfg.packed = packed;
        cfg.attention.want_weights = true;
        fv_heads heads;
        CHECK_OK(b.ctx, fv_heads_create(b.params, "m", &cfg, &heads));
        CHECK_EQ(fv_params_count(b.params), before); /* all of them were there */
        run_mha(&f, &heads, 1);
        if (packed) compare(&f, "param.in_proj_weight", ".grad", fv_grad(b.ctx, heads.qkv.weight));
        fv_safetensors_close(&f.file);
        bench_free(&b);
    }
}

static void torch_cross_attention(void)
{
    bench b = bench_new();
    fixture f = {.b = &b, .layer = "mha_cross"};
    CHECK_OK(b.ctx, fv_safetensors_open(b.ctx, test_path("fixtures/torch/layers.safetensors"),
                                        FV_SAFETENSORS_COPY, &f.file));
    take(&f, "m.q_proj.weight", "param.q_proj_weight");
    take(&f, "m.k_proj.weight", "param.k_proj_weight");
    take(&f, "m.v_proj.weight", "param.v_proj_weight");
    static const char *const biases[3] = {"m.q_proj.bias", "m.k_proj.bias", "m.v_proj.bias"};
    for (int i = 0; i < 3; i++)
        take_rows(&f, biases[i], "param.in_proj_bias", i * 24, i * 24 + 24);
    take(&f, "m.out_proj.weight", "param.out_proj.weight");
    take(&f, "m.out_proj.bias", "param.out_proj.bias");
    fv_heads_config cfg;
    fv_heads_config_init(&cfg, sizeof cfg, 24, 3);
    cfg.width_k = 10;
    cfg.width_v = 14;
    cfg.attention.want_weights = true;
    fv_heads heads;
    CHECK_OK(b.ctx, fv_heads_create(b.params, "m", &cfg, &heads));
    run_mha(&f, &heads, 3);
    compare(&f, "param.k_proj_weight", ".grad", fv_grad(b.ctx, heads.k.weight));
    fv_safetensors_close(&f.file);
    bench_free(&b);
}

/* torch.nn.TransformerDecoderLayer in its four forms; tests/data/layers/make_blocks.py. */
static void check_torch_block(const char *layer, bool post, fv_act act)
{
    static const char *const map[][2] = {
        {"self.qkv_proj.weight", "self_attn.in_proj_weight"},
        {"self.qkv_proj.bias", "self_attn.in_proj_bias"},
        {"self.out_proj.weight", "self_attn.out_proj.weight"},
        {"self.out_proj.bias", "self_attn.out_proj.bias"},
        {"cross.qkv_proj.weight", "multihead_attn.in_proj_weight"},
        {"cross.qkv_proj.bias", "multihead_attn.in_proj_bias"},
        {"cross.out_proj.weight", "multihead_attn.out_proj.weight"},
        {"cross.out_proj.bias", "multihead_attn.out_proj.bias"},
        {"ff.up.weight", "linear1.weight"},
        {"ff.up.bias", "linear1.bias"},
        {"ff.down.weight", "linear2.weight"},
        {"ff.down.bias", "linear2.bias"},
        {"self_norm.weight", "norm1.weight"},
        {"self_norm.bias", "norm1.bias"},
        {"cross_norm.weight", "norm2.weight"},
        {"cross_norm.bias", "norm2.bias"},
        {"ff_norm.weight", "norm3.weight"},
        {"ff_norm.bias", "norm3.bias"}};
    enum { PARAMETERS = sizeof map / sizeof *map, WIDTH = 8 };
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fixture f = {.b = &b, .layer = layer};
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("fixtures/torch/blocks.safetensors"),
                                      FV_SAFETENSORS_COPY, &f.file));
    for (int i = 0; i < PARAMETERS; i++)
        take(&f, map[i][0], map[i][1]);
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, WIDTH, 2);
    fv_heads_config_init(&cfg.cross, sizeof cfg.cross, WIDTH, 2);
    cfg.self.packed = cfg.cross.packed = true;
    cfg.self.attention.causal = FV_CAUSAL_TOP_LEFT;
    cfg.ff.hidden = 12;
    cfg.ff.act = act;
    cfg.post = post;
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "", &cfg, &block));
    CHECK_EQ(fv_params_count(b.params), PARAMETERS);
    fv_tensor *x = fv_leaf(ctx, load(&f, "x", "")), *memory = fv_leaf(ctx, load(&f, "memory", ""));
    const int64_t lengths[2] = {5, 3};
    fv_tensor *keys = fv_from_host(ctx, FV_I64, 1, (int64_t[]){2}, lengths);
    fv_block_input in = {.x = x, .memory = memory, .memory_keys = keys, .training = true};
    fv_tensor *y = fv_block_run(ctx, &block, &in, NULL);
    compare(&f, "y", "", y);
    CHECK_OK(ctx, fv_backward(ctx, weighed(&f, "y", y)));
    compare(&f, "x", ".grad", fv_grad(ctx, x));
    compare(&f, "memory", ".grad", fv_grad(ctx, memory));
    for (int i = 0; i < PARAMETERS; i++)
        compare(&f, map[i][1], ".grad", fv_grad(ctx, parameter(&b, map[i][0])));
    fv_safetensors_close(&f.file);
    bench_free(&b);
}

static void torch_blocks(void)
{
    check_torch_block("pre_relu", false, FV_ACT_RELU);
    check_torch_block("pre_gelu", false, FV_ACT_GELU);
    check_torch_block("post_relu", true, FV_ACT_RELU);
    check_torch_block("post_gelu", true, FV_ACT_GELU);
}

/* ---- heads of every shape ------------------------------------------------------------ */

/* Grouped heads are heads whose keys are repeated. */
static void grouped_heads_repeat_keys(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_heads_config cfg;
    fv_heads_config_init(&cfg, sizeof cfg, 12, 4);
    cfg.kv_heads = 2;
    cfg.d_v = 5;
    fv_heads grouped, full;
    CHECK_OK(ctx, fv_heads_create(b.params, "g", &cfg, &grouped));
    CHECK_EQ(fv_tensor_size(grouped.k.weight, 0), 6);
    CHECK_EQ(fv_tensor_size(grouped.v.weight, 0), 10);
    CHECK_EQ(fv_tensor_size(grouped.out.weight, 1), 20);
    cfg.kv_heads = 4;
    CHECK_OK(ctx, fv_heads_complete(ctx, &cfg, &full));
    full.q = grouped.q;
    full.out = grouped.out;
    const int64_t rows_k[12] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5};
    int64_t rows_v[20];
    for (int i = 0; i < 20; i++)
        rows_v[i] = i / 10 * 5 + i % 5;
    fv_tensor *ik = indices_of(ctx, rows_k, 12), *iv = indices_of(ctx, rows_v, 20);
    full.k = (fv_dense){fv_index_select(ctx, grouped.k.weight, 0, ik),
                        fv_index_select(ctx, grouped.k.bias, 0, ik)};
    full.v = (fv_dense){fv_index_select(ctx, grouped.v.weight, 0, iv),
                        fv_index_select(ctx, grouped.v.bias, 0, iv)};
    fv_heads_input in = {.x = tensor_random(ctx, 1, 3, 2, 7, 12)};
    CHECK(tensor_distance(ctx, fv_heads_run(ctx, &grouped, &in, NULL),
                          fv_heads_run(ctx, &full, &in, NULL)) < 1e-6);
    bench_free(&b);
}

/* Every score and position setting: step by step over a cache is what the whole sequence gives. */
static void decode_by_steps(const fv_heads_config *cfg, const char *what)
{
    enum { B = 2, N = 6, WIDTH = 8 };
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_heads heads;
    CHECK_OK(ctx, fv_heads_create(b.params, what, cfg, &heads));
    fv_no_grad_begin(ctx);
    fv_tensor *x = tensor_random(ctx, 5, 3, B, N, WIDTH);
    fv_tensor *whole = fv_heads_run(ctx, &heads, &(fv_heads_input){.x = x}, NULL);
    fv_tensor *k = NULL, *v = NULL, *rows[N];
    for (int t = 0; t < N; t++) {
        fv_tensor *now = fv_slice(ctx, x, 1, t, t + 1, 1), *k_new = NULL, *v_new = NULL;
        fv_heads_keys(ctx, &heads, now, NULL, t, &k_new, &v_new);
        k = t ? fv_concat(ctx, 2, (fv_tensor *[]){k, k_new}, 2) : k_new;
        v = t ? fv_concat(ctx, 2, (fv_tensor *[]){v, v_new}, 2) : v_new;
        fv_heads_input in = {.x = now, .k = k, .v = v, .position = t};
        rows[t] = fv_heads_run(ctx, &heads, &in, NULL);
    }
    const double off = tensor_distance(ctx, whole, fv_concat(ctx, N, rows, 1));
    if (!(off < 1e-5)) test_failed(__FILE__, __LINE__, "%s: steps are off by %g", what, off);
    fv_no_grad_end(ctx);
    bench_free(&b);
}

static void steps_equal_the_whole(void)
{
    fv_heads_config cfg;
#define VARIANT(what, ...)                                                                         \
    do {                                                                                           \
        fv_heads_config_init(&cfg, sizeof cfg, 8, 2);                                              \
        cfg.attention.causal = FV_CAUSAL_TOP_LEFT;                                                 \
        __VA_ARGS__;                                                                               \
        decode_by_steps(&cfg, what);                                                               \
    } while (0)
    VARIANT("scaled");
    VARIANT("packed, one key head", cfg.packed = true; cfg.kv_heads = 1);
    VARIANT("rotary", cfg.rotary.width = 4);
    VARIANT("ALiBi", cfg.alibi = true);
    VARIANT("window", cfg.attention.left = 2);
    VARIANT("buckets", cfg.relative = (fv_relative){FV_RELATIVE_T5, 8, 4, false});
    VARIANT("vectors", cfg.relative = (fv_relative){.reach = 2}; cfg.relative_vectors = true);
    VARIANT("general", cfg.attention.score = FV_ATTENTION_GENERAL);
    VARIANT("additive", cfg.attention.score = FV_ATTENTION_ADDITIVE);
    VARIANT("cosine", cfg.attention.score = FV_ATTENTION_COSINE);
    VARIANT("location", cfg.attention.score = FV_ATTENTION_LOCATION; cfg.location_keys = 6);
    VARIANT("local-m", cfg.attention.normaliser = FV_ATTENTION_LOCAL_M;
            cfg.attention.half_width = 2);
#undef VARIANT
}

static void cross_attention_with_a_learned_centre(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_heads_config cfg;
    fv_heads_config_init(&cfg, sizeof cfg, 8, 2);
    cfg.attention.normaliser = FV_ATTENTION_LOCAL_P;
    cfg.attention.half_width = 2;
    fv_heads heads;
    CHECK_OK(ctx, fv_heads_create(b.params, "c", &cfg, &heads));
    fv_tensor *memory = tensor_random(ctx, 2, 3, 2, 9, 8);
    fv_heads_input in = {.x = tensor_random(ctx, 1, 3, 2, 4, 8), .keys = memory};
    fv_attention_result r;
    fv_tensor *y = fv_heads_run(ctx, &heads, &in, &r);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, y), 0, NULL, false)));
    CHECK(fv_grad(ctx, parameter(&b, "c.centre.weight")) != NULL);
    CHECK(fv_grad(ctx, parameter(&b, "c.centre.vector")) != NULL);
    CHECK(r.centre != NULL);
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
        parameter(&b, names[i]);
    CHECK_EQ(fv_params_elements(b.params), 16 * 16 * 2 + 8 * 16 * 2 + 3 * 16 * 24 + 2 * 16);
    fv_tensor *table = NULL;
    CHECK_OK(ctx, fv_table_create(b.params, "embed", 5, 16, 0.02, &table));
    CHECK(parameter(&b, "embed.weight") == table);
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
    fv_heads_config cfg;
    fv_heads heads = {.score = NULL};
#define REFUSE(change, text)                                                                       \
    do {                                                                                           \
        fv_heads_config_init(&cfg, sizeof cfg, 8, 2);                                              \
        change;                                                                                    \
        CHECK_EQ(fv_heads_create(b.params, "r", &cfg, &heads), FV_ERR_ARGUMENT);                   \
        CHECK(strstr(fv_ctx_message(ctx), text) != NULL);                                          \
        CHECK_EQ(fv_ctx_error(ctx), FV_OK);                                                        \
        CHECK_EQ(fv_params_count(b.params), 0);                                                    \
    } while (0)
    REFUSE(cfg.struct_size = 1, "initialised");
    REFUSE(cfg.heads = 0, "0 heads");
    REFUSE(cfg.kv_heads = 3, "over 3");
    REFUSE(cfg.d_k = INT64_MAX, "widths");
    REFUSE(cfg.packed = true; cfg.width_k = 9, "one width");
    REFUSE(cfg.rotary.width = 6, "rotary");
    REFUSE(cfg.relative = ((fv_relative){FV_RELATIVE_T5, 3, 0, false}), "relative positions");
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
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "'d.weight' is [3,3], not [4,3]");
    fv_grid grid = {.channels = 4};
    CHECK(
        !fv_tensor_valid(fv_grid_run(ctx, &grid, tensor_random(ctx, 1, 3, 2, 4, 4), false, NULL)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,4,4] is not [batch, 4, height, width]");
    fv_block_config block_cfg;
    fv_block_config_init(&block_cfg, sizeof block_cfg, 8, 2);
    fv_heads_config_init(&block_cfg.cross, sizeof block_cfg.cross, 8, 2);
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "b", &block_cfg, &block));
    fv_tensor *x = tensor_random(ctx, 1, 3, 1, 2, 8);
    CHECK(!fv_tensor_valid(fv_block_run(ctx, &block, &(fv_block_input){.x = x}, NULL)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "without a memory");
    bench_free(&b);
}

/* Without training there is no dropout; with it there is, and the step keys it. */
static void dropout_is_for_training(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 8, 2);
    cfg.dropout = cfg.ff.dropout = cfg.self.attention.dropout = 0.3;
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
    fv_grid grid;
    CHECK_OK(ctx, fv_grid_create(b.params, "g", C, INNER, 0, 0, &grid));
    CHECK_OK(ctx, fv_tensor_write(ctx, grid.gamma, (float[]){0.5f}, sizeof(float)));
    fv_tensor *x = tensor_random(ctx, 1, 4, 1, C, H, W);
    float *y = tensor_floats(ctx, fv_grid_run(ctx, &grid, x, false, NULL)),
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

int main(int argc, char **argv)
{
    TEST_BEGIN(argc, argv);
    RUN(torch_self_attention);
    RUN(torch_cross_attention);
    RUN(torch_blocks);
    RUN(grouped_heads_repeat_keys);
    RUN(steps_equal_the_whole);
    RUN(cross_attention_with_a_learned_centre);
    RUN(names_and_counts);
    RUN(starts);
    RUN(refusals);
    RUN(dropout_is_for_training);
    RUN(grid_by_its_formula);
    return TEST_END();
}

/*
 * PyTorch's numbers by our layers: scaled dot-product attention, multi-head attention and the
 * Transformer's decoder layer, outputs and all gradients.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "support/layerbench.h"
#include "support/tensors.h"

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

static bool fixture_open(fixture *f, const char *path)
{
    CHECK_OK(f->b->ctx,
             fv_safetensors_open(f->b->ctx, test_path(path), FV_SAFETENSORS_COPY, &f->file));
    return f->file != NULL;
}

static void fixture_close(fixture *f)
{
    fv_safetensors_close(&f->file);
    bench_free(f->b);
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

/* Scaled dot-product attention in PyTorch's four forms, by description. */
static void check_sdpa(const char *layer, fv_causal causal, bool biased)
{
    static const char *const names[3] = {"in0", "in1", "in2"};
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fixture f = {.b = &b, .layer = layer};
    if (!fixture_open(&f, "fixtures/torch/layers.safetensors")) return;
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.rule.causal = causal;
    fv_tensor *leaf[3];
    for (int i = 0; i < 3; i++)
        leaf[i] = fv_leaf(ctx, load(&f, names[i], ""));
    fv_attention_input in = {.q = leaf[0], .k = leaf[1], .v = leaf[2]};
    if (biased) in.bias = load(&f, "bias", "");
    fv_tensor *y = fv_attention_run(ctx, &in, &how, NULL);
    compare(&f, "out0", "", y);
    CHECK_OK(ctx, fv_backward(ctx, weighed(&f, "out0", y)));
    for (int i = 0; i < 3; i++)
        compare(&f, names[i], ".grad", fv_grad(ctx, leaf[i]));
    fixture_close(&f);
}

static void torch_scaled_dot_product(void)
{
    check_sdpa("sdpa", FV_CAUSAL_NONE, false);
    check_sdpa("sdpa_causal", FV_CAUSAL_TOP_LEFT, false);
    check_sdpa("sdpa_bias", FV_CAUSAL_NONE, true);
    check_sdpa("sdpa_gqa", FV_CAUSAL_TOP_LEFT, false);
}

static void run_mha(fixture *f, const fv_mha *heads, int inputs)
{
    static const char *const names[3] = {"in0", "in1", "in2"};
    fv_ctx *ctx = f->b->ctx;
    fv_tensor *in[3] = {NULL};
    for (int i = 0; i < inputs; i++)
        in[i] = fv_leaf(ctx, load(f, names[i], ""));
    fv_attention_result r;
    fv_tensor *y =
        fv_mha_run(ctx, heads, &(fv_mha_input){.x = in[0], .keys = in[1], .values = in[2]}, &r);
    compare(f, "out0", "", y);
    compare(f, "out1", "", r.weights);
    fv_tensor *loss = fv_add(ctx, weighed(f, "out0", y), weighed(f, "out1", r.weights));
    CHECK_OK(ctx, fv_backward(ctx, loss));
    for (int i = 0; i < inputs; i++)
        compare(f, names[i], ".grad", fv_grad(ctx, in[i]));
    compare(f, "param.out_proj.weight", ".grad",
            fv_grad(ctx, bench_parameter(f->b, "m.out_proj.weight")));
}

static void torch_self_attention(void)
{
    for (int packed = 0; packed < 2; packed++) {
        bench b = bench_new();
        fixture f = {.b = &b, .layer = "mha_self"};
        if (!fixture_open(&f, "fixtures/torch/layers.safetensors")) return;
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
        fv_mha_config cfg;
        fv_mha_config_init(&cfg, sizeof cfg, 24, 4);
        cfg.fused_qkv = packed;
        cfg.attention.want_weights = true;
        fv_mha heads;
        CHECK_OK(b.ctx, fv_mha_create(b.params, "m", &cfg, &heads));
        CHECK_EQ(fv_params_count(b.params), before); /* all of them were there */
        run_mha(&f, &heads, 1);
        if (packed) compare(&f, "param.in_proj_weight", ".grad", fv_grad(b.ctx, heads.qkv.weight));
        fixture_close(&f);
    }
}

static void torch_cross_attention(void)
{
    bench b = bench_new();
    fixture f = {.b = &b, .layer = "mha_cross"};
    if (!fixture_open(&f, "fixtures/torch/layers.safetensors")) return;
    take(&f, "m.q_proj.weight", "param.q_proj_weight");
    take(&f, "m.k_proj.weight", "param.k_proj_weight");
    take(&f, "m.v_proj.weight", "param.v_proj_weight");
    static const char *const biases[3] = {"m.q_proj.bias", "m.k_proj.bias", "m.v_proj.bias"};
    for (int i = 0; i < 3; i++)
        take_rows(&f, biases[i], "param.in_proj_bias", i * 24, i * 24 + 24);
    take(&f, "m.out_proj.weight", "param.out_proj.weight");
    take(&f, "m.out_proj.bias", "param.out_proj.bias");
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, 24, 3);
    cfg.width_k = 10;
    cfg.width_v = 14;
    cfg.attention.want_weights = true;
    fv_mha heads;
    CHECK_OK(b.ctx, fv_mha_create(b.params, "m", &cfg, &heads));
    run_mha(&f, &heads, 3);
    compare(&f, "param.k_proj_weight", ".grad", fv_grad(b.ctx, heads.k.weight));
    fixture_close(&f);
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
    if (!fixture_open(&f, "fixtures/torch/blocks.safetensors")) return;
    for (int i = 0; i < PARAMETERS; i++)
        take(&f, map[i][0], map[i][1]);
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, WIDTH, 2);
    fv_mha_config_init(&cfg.cross, sizeof cfg.cross, WIDTH, 2);
    cfg.self.fused_qkv = cfg.cross.fused_qkv = true;
    cfg.self.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    cfg.ff.hidden = 12;
    cfg.ff.act = act;
    cfg.post_norm = post;
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "", &cfg, &block));
    CHECK_EQ(fv_params_count(b.params), PARAMETERS);
    fv_tensor *x = fv_leaf(ctx, load(&f, "x", "")), *memory = fv_leaf(ctx, load(&f, "memory", ""));
    const int64_t lengths[2] = {5, 3};
    fv_tensor *keys = fv_from_host(ctx, FV_I64, 1, (int64_t[]){2}, lengths);
    fv_block_input in = {.x = x, .memory = memory, .memory_lengths = keys, .training = true};
    fv_tensor *y = fv_block_run(ctx, &block, &in, NULL);
    compare(&f, "y", "", y);
    CHECK_OK(ctx, fv_backward(ctx, weighed(&f, "y", y)));
    compare(&f, "x", ".grad", fv_grad(ctx, x));
    compare(&f, "memory", ".grad", fv_grad(ctx, memory));
    for (int i = 0; i < PARAMETERS; i++)
        compare(&f, map[i][1], ".grad", fv_grad(ctx, bench_parameter(&b, map[i][0])));
    fixture_close(&f);
}

static void torch_blocks(void)
{
    check_torch_block("pre_relu", false, FV_ACT_RELU);
    check_torch_block("pre_gelu", false, FV_ACT_GELU);
    check_torch_block("post_relu", true, FV_ACT_RELU);
    check_torch_block("post_gelu", true, FV_ACT_GELU);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(torch_scaled_dot_product);
    RUN(torch_self_attention);
    RUN(torch_cross_attention);
    RUN(torch_blocks);
    return TEST_END();
}

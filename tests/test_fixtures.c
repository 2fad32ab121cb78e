/*
 * Layers as PyTorch computes them: outputs and all gradients of fixtures/torch/layers.safetensors,
 * rebuilt from our ops, on every SIMD level and on the guarded device.
 *
 * A layer's entries are "<layer>.in0", "<layer>.param.<name>", "<layer>.out0" and, for each of
 * them, the gradient under the same name with ".grad": that of an output is the upstream one.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "support/opcase.h"

enum { MAX_LEAVES = 16, NAME_BYTES = 128 };

typedef struct layer {
    fv_ctx *ctx;
    fv_safetensors *file;
    const char *name;
    int n;
    fv_tensor *leaf[MAX_LEAVES];
    const char *leaf_name[MAX_LEAVES];
    fv_tensor *loss; /* the sum of output x upstream gradient: backward sends just that */
} layer;

/* ---- reading and comparing -------------------------------------------------------- */

static fv_tensor *load(layer *l, const char *part, const char *suffix)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s%s", l->name, part, suffix);
    return fv_safetensors_load(l->ctx, l->file, name);
}

static fv_tensor *constant(layer *l, const char *part) { return load(l, part, ""); }

static fv_tensor *leaf(layer *l, const char *part)
{
    fv_tensor *t = fv_leaf(l->ctx, load(l, part, ""));
    l->leaf[l->n] = t;
    l->leaf_name[l->n++] = part;
    return t;
}

static float *read_all(fv_ctx *ctx, const fv_tensor *t)
{
    size_t bytes = (size_t)fv_tensor_count(t) * sizeof(float);
    float *x = calloc(1, bytes + 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, x, bytes));
    return x;
}

/* max |a - b| <= tolerance max |b| */
static void compare(layer *l, const char *part, const char *suffix, const fv_tensor *ours,
                    double tolerance)
{
    fv_tensor *theirs = load(l, part, suffix);
    if (fv_ctx_error(l->ctx) != FV_OK || !ours ||
        fv_tensor_count(ours) != fv_tensor_count(theirs)) {
        test_failed(__FILE__, __LINE__, "%s.%s%s: nothing to compare: %s", l->name, part, suffix,
                    fv_ctx_message(l->ctx));
        return;
    }
    float *a = read_all(l->ctx, ours), *b = read_all(l->ctx, theirs);
    double worst = 0, most = 0;
    bool finite = true;
    for (int64_t i = 0; i < fv_tensor_count(ours); i++) {
        finite = finite && isfinite(a[i]);
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    if (!finite || !(worst <= tolerance * most))
        test_failed(__FILE__, __LINE__, "%s.%s%s: off by %.3g of at most %.3g (%s)", l->name, part,
                    suffix, worst, most, fv_simd_name(fv_ctx_simd(l->ctx)));
    free(a);
    free(b);
}

static void output(layer *l, const char *part, fv_tensor *y)
{
    compare(l, part, "", y, 2e-6);
    fv_tensor *upstream = load(l, part, ".grad");
    if (fv_ctx_error(l->ctx) != FV_OK) return;
    fv_tensor *flat = fv_reshape(l->ctx, y, 1, (int64_t[]){-1});
    upstream = fv_reshape(l->ctx, upstream, 1, (int64_t[]){-1});
    fv_tensor *part_loss = fv_sum(l->ctx, fv_mul(l->ctx, flat, upstream), 0, NULL, false);
    l->loss = l->loss ? fv_add(l->ctx, l->loss, part_loss) : part_loss;
}

/* Gradients in the file that belong to inputs and parameters of this layer. */
static int gradients_in_file(const layer *l)
{
    int n = 0;
    const size_t length = strlen(l->name);
    for (size_t i = 0; i < fv_safetensors_count(l->file); i++) {
        const char *name = fv_safetensors_entry(l->file, i)->name;
        const char *end = name + strlen(name) - 5;
        if (strncmp(name, l->name, length) == 0 && name[length] == '.' &&
            strcmp(end, ".grad") == 0 && strncmp(name + length, ".out", 4) != 0)
            n++;
    }
    return n;
}

typedef void (*layer_fn)(layer *l);

static void check_on(fv_ctx *ctx, const char *name, layer_fn build)
{
    layer l = {.ctx = ctx, .name = name};
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("fixtures/torch/layers.safetensors"),
                                      FV_SAFETENSORS_COPY, &l.file));
    if (!l.file) return;
    fv_scope_begin(ctx);
    build(&l);
    CHECK(l.loss != NULL);
    if (l.loss) CHECK_OK(ctx, fv_backward(ctx, l.loss));
    for (int i = 0; i < l.n; i++)
        compare(&l, l.leaf_name[i], ".grad", fv_grad(ctx, l.leaf[i]), 1e-5);
    CHECK_EQ(l.n, gradients_in_file(&l));
    fv_scope_end(ctx);
    fv_ctx_take_error(ctx);
    fv_safetensors_close(&l.file);
}

static void check(const char *name, layer_fn build)
{
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        fv_ctx *ctx = op_context((fv_simd)level, 2, FV_DEVICE_CPU);
        check_on(ctx, name, build);
        fv_ctx_destroy(&ctx);
    }
    fv_ctx *guarded = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    check_on(guarded, name, build);
    fv_ctx_destroy(&guarded);
}

/* ---- pointwise, norm, loss -------------------------------------------------------- */

static void build_layernorm(layer *l)
{
    fv_tensor *x = leaf(l, "in0"), *gamma = leaf(l, "param.weight"), *beta = leaf(l, "param.bias");
    output(l, "out0", fv_layer_norm(l->ctx, x, gamma, beta, 1e-5));
}

static void build_gelu_erf(layer *l) { output(l, "out0", fv_gelu(l->ctx, leaf(l, "in0"))); }
static void build_gelu_tanh(layer *l) { output(l, "out0", fv_gelu_tanh(l->ctx, leaf(l, "in0"))); }

static void build_cross_entropy(layer *l)
{
    fv_tensor *logits = leaf(l, "in0"), *target = constant(l, "target");
    output(l, "out0", fv_cross_entropy(l->ctx, logits, target, -100, 0.1, FV_REDUCTION_MEAN));
}

static void layernorm(void) { check("layernorm", build_layernorm); }
static void gelu_erf(void) { check("gelu_erf", build_gelu_erf); }
static void gelu_tanh(void) { check("gelu_tanh", build_gelu_tanh); }
static void cross_entropy(void) { check("cross_entropy_ls", build_cross_entropy); }

/* ---- recurrent: the files have the batch first, our sequences time ------------------ */

static fv_tensor *time_first(fv_ctx *ctx, fv_tensor *x) { return fv_transpose(ctx, x, 0, 1); }

/* x W_ih^T + b_ih + b_hh for all steps; both biases get the gradient of their sum. */
static fv_tensor *lstm_layer(layer *l, fv_tensor *x, const char *const names[4], bool reverse)
{
    fv_tensor *w_ih = leaf(l, names[0]), *w_hh = leaf(l, names[1]);
    fv_tensor *b_ih = leaf(l, names[2]), *b_hh = leaf(l, names[3]);
    fv_tensor *gates = fv_linear(l->ctx, x, w_ih, fv_add(l->ctx, b_ih, b_hh));
    return fv_lstm(l->ctx, gates, w_hh, NULL, NULL, reverse, NULL, NULL);
}

static const char *const first_layer[4] = {"param.weight_ih_l0", "param.weight_hh_l0",
                                           "param.bias_ih_l0", "param.bias_hh_l0"};
static const char *const second_layer[4] = {"param.weight_ih_l1", "param.weight_hh_l1",
                                            "param.bias_ih_l1", "param.bias_hh_l1"};
static const char *const reverse_layer[4] = {
    "param.weight_ih_l0_reverse", "param.weight_hh_l0_reverse", "param.bias_ih_l0_reverse",
    "param.bias_hh_l0_reverse"};

static void build_lstm(layer *l)
{
    fv_tensor *x = time_first(l->ctx, leaf(l, "in0"));
    fv_tensor *h = lstm_layer(l, lstm_layer(l, x, first_layer, false), second_layer, false);
    output(l, "out0", time_first(l->ctx, h));
}

static void build_bilstm(layer *l)
{
    fv_tensor *x = time_first(l->ctx, leaf(l, "in0"));
    fv_tensor *both[2] = {lstm_layer(l, x, first_layer, false),
                          lstm_layer(l, x, reverse_layer, true)};
    output(l, "out0", time_first(l->ctx, fv_concat(l->ctx, 2, both, -1)));
}

static void build_gru(layer *l)
{
    fv_tensor *x = time_first(l->ctx, leaf(l, "in0"));
    fv_tensor *w_ih = leaf(l, first_layer[0]), *w_hh = leaf(l, first_layer[1]);
    fv_tensor *b_ih = leaf(l, first_layer[2]), *b_hh = leaf(l, first_layer[3]);
    fv_tensor *gates = fv_linear(l->ctx, x, w_ih, b_ih);
    fv_tensor *h = fv_gru(l->ctx, gates, w_hh, b_hh, NULL, false, NULL);
    output(l, "out0", time_first(l->ctx, h));
}

/* h = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), a loop in C. */
static void build_rnn_tanh(layer *l)
{
    enum { STEPS = 5, BATCH = 3, HIDDEN = 11 };
    fv_tensor *x = time_first(l->ctx, leaf(l, "in0"));
    fv_tensor *w_ih = leaf(l, first_layer[0]), *w_hh = leaf(l, first_layer[1]);
    fv_tensor *b_ih = leaf(l, first_layer[2]), *b_hh = leaf(l, first_layer[3]);
    fv_tensor *gates = fv_linear(l->ctx, x, w_ih, b_ih);
    fv_tensor *h = fv_zeros(l->ctx, FV_F32, 2, (int64_t[]){BATCH, HIDDEN}), *all[STEPS];
    for (int t = 0; t < STEPS; t++) {
        fv_tensor *step = fv_squeeze(l->ctx, fv_slice(l->ctx, gates, 0, t, t + 1, 1), 0);
        h = all[t] = fv_tanh(l->ctx, fv_linear_act(l->ctx, h, w_hh, b_hh, FV_ACT_NONE, step));
    }
    output(l, "out0", fv_stack(l->ctx, STEPS, all, 1));
}

static void lstm_two_layers(void) { check("lstm", build_lstm); }
static void bilstm(void) { check("bilstm", build_bilstm); }
static void gru(void) { check("gru", build_gru); }
static void rnn_tanh(void) { check("rnn_tanh", build_rnn_tanh); }

/* ---- convolution ------------------------------------------------------------------ */

static void build_conv1d(layer *l)
{
    fv_tensor *x = leaf(l, "in0"), *w = leaf(l, "param.weight"), *b = leaf(l, "param.bias");
    output(l, "out0", fv_conv1d_causal(l->ctx, x, w, b, 2));
}

static void conv1d(void) { check("conv1d_causal_dil2", build_conv1d); }

/* ---- attention -------------------------------------------------------------------- */

/* u8 [n, n]: 1 where a query may not look, that is ahead of itself. */
static fv_tensor *ahead(fv_ctx *ctx, int64_t n)
{
    uint8_t mask[16 * 16];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            mask[i * n + j] = j > i;
    return fv_from_host(ctx, FV_U8, 2, (int64_t[]){n, n}, mask);
}

/* softmax(q k^T / sqrt(d) + bias) v; the weights go to *weights if it is not NULL. */
static fv_tensor *attend(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *v, fv_tensor *bias,
                         bool causal, fv_tensor **weights)
{
    const double scale = 1.0 / sqrt((double)fv_tensor_size(q, -1));
    fv_tensor *s = fv_scale(ctx, fv_matmul(ctx, q, fv_transpose(ctx, k, -1, -2)), scale);
    if (bias) s = fv_add(ctx, s, bias);
    if (causal) s = fv_masked_fill(ctx, s, ahead(ctx, fv_tensor_size(q, -2)), -INFINITY);
    fv_tensor *a = fv_softmax(ctx, s, -1);
    if (weights) *weights = a;
    return fv_matmul(ctx, a, v);
}

static void build_sdpa(layer *l)
{
    fv_tensor *q = leaf(l, "in0"), *k = leaf(l, "in1"), *v = leaf(l, "in2");
    output(l, "out0", attend(l->ctx, q, k, v, NULL, false, NULL));
}

static void build_sdpa_causal(layer *l)
{
    fv_tensor *q = leaf(l, "in0"), *k = leaf(l, "in1"), *v = leaf(l, "in2");
    output(l, "out0", attend(l->ctx, q, k, v, NULL, true, NULL));
}

static void build_sdpa_bias(layer *l)
{
    fv_tensor *q = leaf(l, "in0"), *k = leaf(l, "in1"), *v = leaf(l, "in2");
    output(l, "out0", attend(l->ctx, q, k, v, constant(l, "bias"), false, NULL));
}

/* Four query heads share one key head: [1, 8, T, D] viewed as [2, 4, T, D] against [2, 1, T, D]. */
static void build_sdpa_gqa(layer *l)
{
    enum { HEADS = 8, GROUPS = 2, TIME = 9, SIZE = 16 };
    const int64_t grouped[4] = {GROUPS, HEADS / GROUPS, TIME, SIZE};
    const int64_t shared[4] = {GROUPS, 1, TIME, SIZE};
    fv_tensor *q = fv_reshape(l->ctx, leaf(l, "in0"), 4, grouped);
    fv_tensor *k = fv_reshape(l->ctx, leaf(l, "in1"), 4, shared);
    fv_tensor *v = fv_reshape(l->ctx, leaf(l, "in2"), 4, shared);
    output(l, "out0", attend(l->ctx, q, k, v, NULL, true, NULL));
}

/* [B, T, E] -> [B, heads, T, E / heads] */
static fv_tensor *split_heads(fv_ctx *ctx, fv_tensor *x, int64_t heads)
{
    const int64_t shape[4] = {fv_tensor_size(x, 0), fv_tensor_size(x, 1), heads,
                              fv_tensor_size(x, 2) / heads};
    return fv_transpose(ctx, fv_reshape(ctx, x, 4, shape), 1, 2);
}

/* Multi-head attention from projected queries, keys and values, with its two outputs. */
static void mha_outputs(layer *l, fv_tensor *const qkv[3], int64_t heads)
{
    fv_ctx *ctx = l->ctx;
    fv_tensor *out_weight = leaf(l, "param.out_proj.weight");
    fv_tensor *out_bias = leaf(l, "param.out_proj.bias"), *weights = NULL;
    fv_tensor *o = attend(ctx, split_heads(ctx, qkv[0], heads), split_heads(ctx, qkv[1], heads),
                          split_heads(ctx, qkv[2], heads), NULL, false, &weights);
    const int64_t joined[3] = {fv_tensor_size(qkv[0], 0), fv_tensor_size(qkv[0], 1),
                               fv_tensor_size(qkv[0], 2)};
    o = fv_reshape(ctx, fv_transpose(ctx, o, 1, 2), 3, joined);
    output(l, "out0", fv_linear(ctx, o, out_weight, out_bias));
    output(l, "out1", weights);
}

static void build_mha_self(layer *l)
{
    fv_ctx *ctx = l->ctx;
    fv_tensor *x = leaf(l, "in0"), *weight = leaf(l, "param.in_proj_weight");
    fv_tensor *bias = leaf(l, "param.in_proj_bias"), *qkv[3];
    fv_split(ctx, fv_linear(ctx, x, weight, bias), -1, 3, (int64_t[]){24, 24, 24}, qkv);
    mha_outputs(l, qkv, 4);
}

static void build_mha_cross(layer *l)
{
    static const char *const inputs[3] = {"in0", "in1", "in2"};
    static const char *const weights[3] = {"param.q_proj_weight", "param.k_proj_weight",
                                           "param.v_proj_weight"};
    fv_tensor *bias[3], *qkv[3];
    fv_split(l->ctx, leaf(l, "param.in_proj_bias"), 0, 3, (int64_t[]){24, 24, 24}, bias);
    for (int i = 0; i < 3; i++)
        qkv[i] = fv_linear(l->ctx, leaf(l, inputs[i]), leaf(l, weights[i]), bias[i]);
    mha_outputs(l, qkv, 3);
}

static void sdpa(void) { check("sdpa", build_sdpa); }
static void sdpa_causal(void) { check("sdpa_causal", build_sdpa_causal); }
static void sdpa_bias(void) { check("sdpa_bias", build_sdpa_bias); }
static void sdpa_gqa(void) { check("sdpa_gqa", build_sdpa_gqa); }
static void mha_self(void) { check("mha_self", build_mha_self); }
static void mha_cross(void) { check("mha_cross", build_mha_cross); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(layernorm);
    RUN(gelu_erf);
    RUN(gelu_tanh);
    RUN(cross_entropy);
    RUN(lstm_two_layers);
    RUN(bilstm);
    RUN(gru);
    RUN(rnn_tanh);
    RUN(conv1d);
    RUN(sdpa);
    RUN(sdpa_causal);
    RUN(sdpa_bias);
    RUN(sdpa_gqa);
    RUN(mha_self);
    RUN(mha_cross);
    return TEST_END();
}

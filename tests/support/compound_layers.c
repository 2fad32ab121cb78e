/* Layers filled by hand with the cases' inputs, so that their gradients can be checked in double.
 */
#include "fovea/layers.h"
#include "nn/mha.h"
#include "support/compound.h"

static fv_mha heads_of(fv_ctx *ctx, const fv_mha_config *cfg)
{
    fv_mha h;
    memset(&h, 0, sizeof h);
    /* If memory for the inputs ran out there are no sizes. */
    if (fv_mha_complete(ctx, cfg, &h) != FV_OK && fv_ctx_error(ctx) == FV_OK)
        test_failed(__FILE__, __LINE__, "heads: %s", fv_ctx_message(ctx));
    return h;
}

/* ---- multi-head attention ----------------------------------------------------------- */

/* x, w_q, w_k, w_v, w_out, then biases of q and out: free sizes, grouped, rotary. */
static fv_tensor *free_heads(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, fv_tensor_size(in[0], -1), 2);
    cfg.kv_heads = 1;
    cfg.d_k = fv_tensor_size(in[2], 0);
    cfg.d_v = fv_tensor_size(in[3], 0);
    cfg.width_out = fv_tensor_size(in[4], 0);
    cfg.rotary.width = 2;
    cfg.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    cfg.attention.rule.dropout = 0.25;
    fv_mha h = heads_of(ctx, &cfg);
    h.q = (fv_dense){in[1], in[5]};
    h.k.weight = in[2];
    h.v.weight = in[3];
    h.out = (fv_dense){in[4], in[6]};
    return fv_mha_run(
        ctx, &h, &(fv_mha_input){.x = in[0], .position = 2, .key_position = 2, .training = true},
        NULL);
}

/* x, w_qkv, w_out, relative keys and values, residual: narrow, fused QKV, Shaw's vectors. */
static fv_tensor *fused_heads(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, fv_tensor_size(in[0], -1), 2);
    cfg.fused_qkv = true;
    cfg.relative = (fv_relative){.kind = FV_RELATIVE_CLIPPED, .max_distance = 1};
    cfg.relative_vectors = true;
    cfg.attention.temperature = 0.8;
    fv_mha h = heads_of(ctx, &cfg);
    h.qkv.weight = in[1];
    h.out.weight = in[2];
    h.relative_keys = in[3];
    h.relative_values = in[4];
    return fv_mha_run(ctx, &h, &(fv_mha_input){.x = in[0], .residual = in[5]}, NULL);
}

/* x, memory, one matrix for q, k and v, w_out, beta, relative bias: cross, cosine, ALiBi. */
static fv_tensor *cross_heads(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, fv_tensor_size(in[0], -1), 2);
    cfg.attention.score = FV_ATTENTION_COSINE;
    cfg.relative = (fv_relative){.kind = FV_RELATIVE_T5, .buckets = 4, .max_distance = 3};
    cfg.alibi = true;
    fv_mha h = heads_of(ctx, &cfg);
    h.q.weight = h.k.weight = h.v.weight = in[2];
    h.out.weight = in[3];
    h.beta = in[4];
    h.relative_bias = in[5];
    return fv_mha_run(ctx, &h, &(fv_mha_input){.x = in[0], .keys = in[1], .position = 1}, NULL);
}

/* x, one matrix for q, k and v, w_out, norms of q and k, vectors of distances for keys and queries.
 */
static fv_tensor *normed_heads(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, fv_tensor_size(in[0], -1), 2);
    cfg.qk_norm = true;
    cfg.relative = (fv_relative){.kind = FV_RELATIVE_CLIPPED, .max_distance = 1, .reversed = true};
    cfg.relative_vectors = cfg.relative_no_values = cfg.relative_queries = true;
    fv_mha h = heads_of(ctx, &cfg);
    h.q.weight = h.k.weight = h.v.weight = in[1];
    h.out.weight = in[2];
    h.q_norm = (fv_norm_layer){.kind = FV_NORM_RMS, .eps = 0.1, .weight = in[3]};
    h.k_norm = (fv_norm_layer){.kind = FV_NORM_RMS, .eps = 0.1, .weight = in[4]};
    h.relative_keys = in[5];
    return fv_mha_run(ctx, &h, &(fv_mha_input){.x = in[0]}, NULL);
}

static const fv_op_case free_cases[] = {
    {.name = "free sizes, grouped, rotary, causal, dropout",
     .n_in = 7,
     .in = {FV_IN(NORMAL, 2, 3, 5), FV_IN(NORMAL, 6, 5), FV_IN(NORMAL, 3, 5), FV_IN(NORMAL, 2, 5),
            FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 6), FV_IN(NORMAL, 3)}},
};
static const fv_op_case fused_cases[] = {
    {.name = "fused QKV, relative vectors, residual",
     .n_in = 6,
     .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(NORMAL, 12, 4), FV_IN(NORMAL, 4, 4), FV_IN(NORMAL, 3, 2),
            FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 2, 3, 4)}},
};
static const fv_op_case cross_cases[] = {
    {.name = "cross, cosine, buckets, ALiBi",
     .n_in = 6,
     .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(NORMAL, 2, 4, 4), FV_IN(NORMAL, 4, 4),
            FV_IN(NORMAL, 4, 4), FV_IN(POSITIVE, 2), FV_IN(NORMAL, 4, 2)}},
};
static const fv_op_case normed_cases[] = {
    {.name = "norms of q and k, vectors for keys and queries",
     .n_in = 6,
     .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(NORMAL, 4, 4), FV_IN(NORMAL, 4, 4), FV_IN(NORMAL, 2),
            FV_IN(NORMAL, 2), FV_IN(NORMAL, 3, 2)}},
};
const fv_op_desc compound_free_heads =
    COMPOUND(6, "free heads", "multi-head attention", free_heads, free_cases);
const fv_op_desc compound_fused_heads =
    COMPOUND(7, "fused QKV heads", "multi-head attention", fused_heads, fused_cases);
const fv_op_desc compound_cross_heads =
    COMPOUND(8, "cross heads", "multi-head attention", cross_heads, cross_cases);
const fv_op_desc compound_normed_heads =
    COMPOUND(13, "normed heads", "multi-head attention", normed_heads, normed_cases);

/* ---- blocks ------------------------------------------------------------------------- */

typedef struct block_params {
    bool post, gated;
    fv_norm_kind norm;
    double dropout;
} block_params;

/* x, memory, self qkv, one matrix for the rest of the attention, up, down, norm, gate. */
static fv_tensor *block(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in;
    const block_params *p = params;
    const int64_t width = fv_tensor_size(in[0], -1);
    fv_block b;
    memset(&b, 0, sizeof b);
    fv_block_config_init(&b.cfg, sizeof b.cfg, width, 2);
    b.cfg.post_norm = p->post;
    b.cfg.dropout = p->dropout;
    b.cfg.self.fused_qkv = true;
    fv_mha_config_init(&b.cfg.cross, sizeof b.cfg.cross, width, 1);
    b.self = heads_of(ctx, &b.cfg.self);
    b.cross = heads_of(ctx, &b.cfg.cross);
    b.self.qkv.weight = in[2];
    b.self.out.weight = b.cross.q.weight = b.cross.k.weight = in[3];
    b.cross.v.weight = b.cross.out.weight = in[3];
    b.ff.cfg = b.cfg.ff;
    b.ff.cfg.gated = p->gated;
    b.ff.cfg.act = p->gated ? FV_ACT_SILU : FV_ACT_GELU;
    b.ff.cfg.dropout = p->dropout;
    b.ff.up.weight = in[4];
    b.ff.down.weight = in[5];
    b.ff.gate.weight = in[7];
    b.self_norm = (fv_norm_layer){.kind = p->norm, .eps = 1e-5, .weight = in[6]};
    b.cross_norm = b.ff_norm = b.self_norm;
    return fv_block_run(ctx, &b, &(fv_block_input){.x = in[0], .memory = in[1], .training = true},
                        NULL);
}

static const block_params pre = {.norm = FV_NORM_LAYER},
                          post = {.post = true, .norm = FV_NORM_LAYER, .dropout = 0.2},
                          llama = {.gated = true, .norm = FV_NORM_RMS, .dropout = 0.1};

#define BLOCK_INPUTS(gate)                                                                         \
    .n_in = 8, .in = {FV_IN(NORMAL, 1, 3, 4), FV_IN(NORMAL, 1, 2, 4),                              \
                      FV_IN(NORMAL, 12, 4),   FV_IN(NORMAL, 4, 4),                                 \
                      FV_IN(NORMAL, 5, 4),    FV_IN(NORMAL, 4, 5),                                 \
                      FV_IN(NORMAL, 4),       gate}

static const fv_op_case block_cases[] = {
    {.name = "pre-LN", .params = &pre, BLOCK_INPUTS(FV_IN_NONE)},
    {.name = "post-LN, dropout", .params = &post, BLOCK_INPUTS(FV_IN_NONE)},
    {.name = "RMS, SwiGLU, dropout", .params = &llama, BLOCK_INPUTS(FV_IN(NORMAL, 5, 4))},
};
const fv_op_desc compound_block = COMPOUND(9, "block", "a decoder block", block, block_cases);

/* ---- grids, dictionaries ------------------------------------------------------------- */

static fv_tensor *grid(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    fv_nonlocal g = {.channels = fv_tensor_size(in[0], 1),
                     .query = in[1],
                     .key = in[2],
                     .values = in[3],
                     .out = in[4],
                     .gamma = in[5]};
    fv_attention_result r;
    fv_tensor *both[2] = {fv_nonlocal_run(ctx, &g, in[0], true, &r)};
    both[1] = r.weights;
    return fv_ctx_error(ctx) == FV_OK ? compound_join(ctx, 2, both) : both[0];
}

static const fv_op_case grid_cases[] = {
    {.name = "2 pictures",
     .n_in = 6,
     .in = {FV_IN(NORMAL, 2, 3, 2, 2), FV_IN(NORMAL, 2, 3), FV_IN(NORMAL, 2, 3),
            FV_IN(NORMAL, 2, 3), FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 1)}},
};
const fv_op_desc compound_grid = COMPOUND(10, "grid", "non-local attention", grid, grid_cases);

typedef struct conv_params {
    fv_conv1d_options options;
    bool varlen;
} conv_params;

static fv_tensor *conv1d(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    const conv_params *p = params;
    const fv_conv1d_layer layer = {
        .options = p->options, .weight = in[1], .bias = n_in > 2 ? in[2] : NULL};
    return p->varlen ? fv_conv1d_run_varlen(ctx, &layer, in[0], 3, (int64_t[]){0, 2, 2, 7})
                     : fv_conv1d_run(ctx, &layer, in[0]);
}

static const conv_params conv_near = {.varlen = false},
                         conv_far = {.options = {.causal = true, .dilation = 2}},
                         conv_varlen = {.varlen = true},
                         conv_varlen_far = {.options = {.causal = true, .dilation = 2},
                                            .varlen = true};
static const fv_op_case conv1d_cases[] = {
    {.name = "centred",
     .params = &conv_near,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 5), FV_IN(NORMAL, 3, 2, 4), FV_IN(NORMAL, 3)}},
    {.name = "causal",
     .params = &conv_far,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 2, 5), FV_IN(NORMAL, 3, 2, 2)}},
    {.name = "lengths 2, 0, 5",
     .params = &conv_varlen,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 7, 2), FV_IN(NORMAL, 3, 2, 3), FV_IN(NORMAL, 3)}},
    {.name = "lengths 2, 0, 5, causal",
     .params = &conv_varlen_far,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 7, 2), FV_IN(NORMAL, 3, 2, 2)}},
};
const fv_op_desc compound_conv1d =
    COMPOUND(15, "conv1d layer", "a convolution over sequences", conv1d, conv1d_cases);

static fv_tensor *lookup(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)params;
    fv_tensor *both[2] = {NULL, NULL};
    both[0] = n_in == 1 ? fv_attention_basic(ctx, in[0], &both[1])
                        : fv_attention_lookup(ctx, in[0], in[1], in[2], 0.7, &both[1]);
    return fv_ctx_error(ctx) == FV_OK ? compound_join(ctx, 2, both) : both[0];
}

static const fv_op_case lookup_cases[] = {
    {.name = "dictionary",
     .n_in = 3,
     .in = {FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 4, 2), FV_IN(NORMAL, 4, 5)}},
    {.name = "basic", .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 2)}},
};
const fv_op_desc compound_lookup =
    COMPOUND(11, "lookup", "a soft dictionary", lookup, lookup_cases);

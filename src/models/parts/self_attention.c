#include "models/parts/self_attention.h"

#include <stdio.h>

#include "tensor/tensor.h"

/* Distances that relative positions tell apart, to each side. */
enum { FARTHEST = 16 };

static fv_mha_config layer_config(const fv_seq2seq_config *c, int64_t in, int64_t width,
                                  bool causal)
{
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, in, c->self_heads);
    cfg.d_k = c->self_head_width ? c->self_head_width : width / c->self_heads;
    cfg.d_v = c->self_value_width;
    cfg.width_out = width;
    if (causal) cfg.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    if (c->positions == FV_SEQ2SEQ_POSITIONS_ROTARY) cfg.rotary.width = cfg.d_k;
    if (c->positions == FV_SEQ2SEQ_POSITIONS_RELATIVE) {
        cfg.relative = (fv_relative){.kind = FV_RELATIVE_CLIPPED, .max_distance = FARTHEST};
        cfg.relative_vectors = true;
    }
    return cfg;
}

fv_status fv_self_attention_create(fv_params *params, const char *prefix,
                                   const fv_seq2seq_config *c, int64_t width, bool causal,
                                   fv_self_attention *out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_self_attention made = {.layers = c->self_layers};
    FV_RETURN_IF(c->self_layers < 1 || c->self_layers > FV_RNN_LAYERS || c->self_heads < 1 ||
                     c->self_head_width < 0 || c->self_value_width < 0,
                 ctx, FV_ERR_ARGUMENT,
                 "seq2seq: self-attention has 1 to %d layers of 1 or more "
                 "heads",
                 (int)FV_RNN_LAYERS);
    FV_RETURN_IF(c->self_head_width == 0 && width % c->self_heads != 0, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: %lld heads do not divide the width %lld: set self_head_width",
                 (long long)c->self_heads, (long long)width);
    FV_TRY(fv_places_create(params, prefix, c, &made.places));
    for (int i = 0; i < made.layers; i++) {
        char name[64];
        const fv_mha_config cfg = layer_config(c, i ? width : fv_places_width(c), width, causal);
        FV_RETURN_IF(cfg.rotary.width % 2 != 0, ctx, FV_ERR_ARGUMENT,
                     "seq2seq: rotary positions need an even self_head_width, not %lld",
                     (long long)cfg.d_k);
        snprintf(name, sizeof name, "%s.self.%d", prefix, i);
        FV_TRY(fv_mha_create(params, name, &cfg, &made.layer[i]));
    }
    *out = made;
    return FV_OK;
}

fv_tensor *fv_self_attention_place(fv_ctx *ctx, const fv_self_attention *a, fv_tensor *x,
                                   int64_t first)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *rows = fv_places_rows(ctx, &a->places, first, x->shape[1]);
    return rows ? fv_positions_apply(ctx, x, rows, a->places.how) : x;
}

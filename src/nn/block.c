/* A Transformer block: self-attention, cross-attention if there is a memory, feed-forward; each
 * with a residual connection, normalised before or after. */
#include <string.h>

#include "base/config.h"
#include "fovea/layers.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

void fv_block_config_init(fv_block_config *cfg, size_t struct_size, int64_t width, int64_t heads)
{
    fv_block_config defaults = {.struct_size = struct_size, .eps = 1e-5, .bias = true};
    fv_mha_config_init(&defaults.self, sizeof defaults.self, width, heads);
    fv_mha_config_init(&defaults.cross, sizeof defaults.cross, width, 0);
    fv_feed_forward_config_init(&defaults.ff, sizeof defaults.ff, width);
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static fv_status create_norm(fv_params *params, const char *prefix, const char *name, int64_t width,
                             const fv_block_config *cfg, fv_norm_layer *norm)
{
    char full[FV_NN_NAME];
    fv_nn_name(full, prefix, name);
    return fv_norm_layer_create(params, full, width, cfg->norm, cfg->bias, cfg->eps, norm);
}

/* Names from the config follow the block's prefix, default names that of the sublayer. */
static fv_status create_attention(fv_params *params, const char *prefix, const char *sublayer,
                                  const fv_block_config *cfg, const fv_mha_config *of,
                                  const fv_mha_names *names, fv_mha *heads)
{
    char full[FV_NN_NAME];
    fv_mha_config own = *of;
    own.bias = own.bias && cfg->bias;
    own.bias_out = own.bias_out && cfg->bias;
    own.names = names;
    fv_nn_name(full, prefix, sublayer);
    return fv_mha_create(params, names ? prefix : full, &own, heads);
}

static fv_status create_feed_forward(fv_params *params, const char *prefix,
                                     const fv_block_config *cfg, fv_feed_forward *ff)
{
    char full[FV_NN_NAME];
    fv_feed_forward_config own = cfg->ff;
    own.bias = own.bias && cfg->bias;
    own.names = cfg->names ? &cfg->names->ff : NULL;
    fv_nn_name(full, prefix, "ff");
    return fv_feed_forward_create(params, cfg->names ? prefix : full, &own, ff);
}

fv_status fv_block_create(fv_params *params, const char *prefix, const fv_block_config *given,
                          fv_block *block)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_block_config full, *cfg = &full;
    fv_block_config_init(cfg, sizeof *cfg, 0, 0);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given) ||
                     !(cfg->dropout >= 0 && cfg->dropout < 1),
                 ctx, FV_ERR_ARGUMENT, "block: a setting is out of range");
    static const fv_block_names ours = {
        .self_norm = "self_norm", .cross_norm = "cross_norm", .ff_norm = "ff_norm"};
    const fv_block_names *n = cfg->names ? cfg->names : &ours;
    fv_block made = {.cfg = *cfg};
    FV_TRY(create_attention(params, prefix, "self", cfg, &cfg->self, cfg->names ? &n->self : NULL,
                            &made.self));
    FV_TRY(create_norm(params, prefix, n->self_norm, cfg->self.width_q, cfg, &made.self_norm));
    if (cfg->cross.heads > 0) {
        FV_TRY(create_attention(params, prefix, "cross", cfg, &cfg->cross,
                                cfg->names ? &n->cross : NULL, &made.cross));
        FV_TRY(
            create_norm(params, prefix, n->cross_norm, cfg->cross.width_q, cfg, &made.cross_norm));
    }
    FV_TRY(create_feed_forward(params, prefix, cfg, &made.ff));
    FV_TRY(create_norm(params, prefix, n->ff_norm, cfg->ff.width, cfg, &made.ff_norm));
    *block = made;
    return FV_OK;
}

/* ---- running ----------------------------------------------------------------------- */

/* One sublayer. Without dropout its last product adds the residual. */
typedef struct sublayer {
    fv_tensor *input, *residual;
    bool dropped;
} sublayer;

static sublayer begin_sublayer(fv_ctx *ctx, const fv_block *b, const fv_norm_layer *norm,
                               fv_tensor *x, bool training)
{
    return (sublayer){.input = b->cfg.post_norm ? x : fv_norm_layer_run(ctx, norm, x),
                      .residual = x,
                      .dropped = training && b->cfg.dropout > 0};
}

static fv_tensor *end_sublayer(fv_ctx *ctx, const fv_block *b, const fv_norm_layer *norm,
                               const sublayer *s, fv_tensor *y)
{
    if (s->dropped) y = fv_add(ctx, s->residual, fv_dropout(ctx, y, b->cfg.dropout));
    return b->cfg.post_norm ? fv_norm_layer_run(ctx, norm, y) : y;
}

static fv_tensor *run_attention(fv_ctx *ctx, const fv_block *b, const fv_mha *heads,
                                const fv_norm_layer *norm, fv_tensor *x, fv_mha_input *in,
                                fv_attention_result *result)
{
    const sublayer s = begin_sublayer(ctx, b, norm, x, in->training);
    in->x = s.input;
    in->residual = s.dropped ? NULL : s.residual;
    return end_sublayer(ctx, b, norm, &s, fv_mha_run(ctx, heads, in, result));
}

fv_tensor *fv_block_run(fv_ctx *ctx, const fv_block *block, const fv_block_input *in,
                        fv_block_result *result)
{
    fv_block_result own;
    memset(&own, 0, sizeof own);
    fv_mha_input self = {.k = in->self_k,
                         .v = in->self_v,
                         .position = in->position,
                         .key_position = in->key_position,
                         .rotary_table = in->rotary_table,
                         .key_rotary_table = in->key_rotary_table,
                         .bias = in->bias,
                         .visible = in->visible,
                         .blocks = in->blocks,
                         .key_lengths = in->key_lengths,
                         .q_begin = in->q_begin,
                         .k_begin = in->k_begin,
                         .window_visible = in->window_visible,
                         .on_keys_values = in->on_keys_values,
                         .on_keys_values_user = in->on_keys_values_user,
                         .rotary_table_per_sequence = in->rotary_table_per_sequence,
                         .want_weights = in->want_weights,
                         .capture = in->capture_self,
                         .training = in->training};
    fv_tensor *x =
        run_attention(ctx, block, &block->self, &block->self_norm, in->x, &self, &own.self);
    if (block->cfg.cross.heads > 0) {
        fv_mha_input cross = {.keys = in->memory,
                              .k = in->cross_k,
                              .v = in->cross_v,
                              .visible = in->memory_visible,
                              .key_lengths = in->memory_lengths,
                              .q_begin = in->memory_begin ? in->q_begin : NULL,
                              .k_begin = in->memory_begin,
                              .want_weights = in->want_weights,
                              .capture = in->capture_cross,
                              .training = in->training};
        if (ctx->error == FV_OK && !in->memory && !in->cross_k)
            fv_poison(ctx, FV_ERR_ARGUMENT,
                      "block: cross-attention needs memory, or cross_k and cross_v");
        x = run_attention(ctx, block, &block->cross, &block->cross_norm, x, &cross, &own.cross);
    }
    const sublayer s = begin_sublayer(ctx, block, &block->ff_norm, x, in->training);
    fv_tensor *y =
        fv_feed_forward_run(ctx, &block->ff, s.input, s.dropped ? NULL : s.residual, in->training);
    if (result) *result = own;
    return end_sublayer(ctx, block, &block->ff_norm, &s, y);
}

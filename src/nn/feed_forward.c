/* The position-wise network: the same for every vector, each on its own. */
#include <string.h>

#include "base/config.h"
#include "fovea/layers.h"
#include "nn/weights.h"
#include "ops/product.h"
#include "tensor/tensor.h"

void fv_feed_forward_config_init(fv_feed_forward_config *cfg, size_t struct_size, int64_t width)
{
    const fv_feed_forward_config defaults = {.struct_size = struct_size,
                                             .width = width,
                                             .hidden = width <= INT64_MAX / 4 ? 4 * width : 0,
                                             .act = FV_ACT_GELU,
                                             .bias = true};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

fv_status fv_feed_forward_create(fv_params *params, const char *prefix,
                                 const fv_feed_forward_config *given, fv_feed_forward *ff)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_feed_forward_config full, *cfg = &full;
    fv_feed_forward_config_init(cfg, sizeof *cfg, 1);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given) || cfg->width < 1 || cfg->hidden < 1 ||
                     cfg->act < FV_ACT_NONE || cfg->act >= FV_ACT_COUNT ||
                     !(cfg->dropout >= 0 && cfg->dropout < 1),
                 ctx, FV_ERR_ARGUMENT, "feed-forward: %.80s: a setting is out of range", prefix);
    static const fv_feed_forward_names ours = {"up", "gate", "down"};
    const fv_feed_forward_names *names = cfg->names ? cfg->names : &ours;
    fv_feed_forward made = {.cfg = *cfg};
    char name[FV_NN_NAME];
    fv_nn_name(name, prefix, names->up);
    FV_TRY(
        fv_dense_create(params, name, cfg->width, cfg->hidden, cfg->bias, cfg->init_std, &made.up));
    if (cfg->gated) {
        fv_nn_name(name, prefix, names->gate);
        FV_TRY(fv_dense_create(params, name, cfg->width, cfg->hidden, cfg->bias, cfg->init_std,
                               &made.gate));
    }
    fv_nn_name(name, prefix, names->down);
    FV_TRY(fv_dense_create(params, name, cfg->hidden, cfg->width, cfg->bias,
                           cfg->init_std_out > 0 ? cfg->init_std_out : cfg->init_std, &made.down));
    *ff = made;
    return FV_OK;
}

fv_tensor *fv_feed_forward_run(fv_ctx *ctx, const fv_feed_forward *ff, fv_tensor *x,
                               fv_tensor *residual, bool training)
{
    const fv_dense *first = ff->cfg.gated ? &ff->gate : &ff->up;
    const bool drops = training && ff->cfg.dropout > 0;
    if (training && !drops && !ff->cfg.gated && fv_act_needs_argument(ff->cfg.act)) {
        /* Backward keeps u alone, not u and act(u). */
        fv_tensor *u = fv_dense_run(ctx, &ff->up, x);
        return fv_act_linear(ctx, u, ff->cfg.act, ff->down.weight, ff->down.bias, residual);
    }
    fv_tensor *h = fv_linear_act(ctx, x, first->weight, first->bias, ff->cfg.act, NULL);
    if (ff->cfg.gated) h = fv_mul(ctx, h, fv_dense_run(ctx, &ff->up, x));
    if (drops) h = fv_dropout(ctx, h, ff->cfg.dropout);
    return fv_linear_act(ctx, h, ff->down.weight, ff->down.bias, FV_ACT_NONE, residual);
}

/* Dense layers, norms and tables. */
#include "fovea/layers.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

static fv_init init_weights(double init_std, int64_t in, int64_t out)
{
    return init_std > 0 ? fv_init_normal(init_std) : fv_init_xavier(in, out);
}

fv_status fv_dense_create(fv_params *params, const char *prefix, int64_t in, int64_t out, bool bias,
                          double init_std, fv_dense *dense)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(in < 1 || out < 1, ctx, FV_ERR_ARGUMENT, "dense: %.80s: %lld to %lld", prefix,
                 (long long)in, (long long)out);
    const fv_dense made = {
        .weight = fv_nn_weight(params, prefix, "weight", 2, (int64_t[]){out, in},
                               init_weights(init_std, in, out)),
        .bias = bias ? fv_nn_weight(params, prefix, "bias", 1, &out, fv_init_constant(0)) : NULL};
    if (ctx->error == FV_OK) *dense = made;
    return ctx->error;
}

fv_tensor *fv_dense_run(fv_ctx *ctx, const fv_dense *dense, fv_tensor *x)
{
    return fv_linear(ctx, x, dense->weight, dense->bias);
}

fv_status fv_norm_layer_create(fv_params *params, const char *prefix, int64_t width,
                               fv_norm_kind kind, bool bias, double eps, fv_norm_layer *norm)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(width < 1 || !(eps >= 0) || (kind != FV_NORM_LAYER && kind != FV_NORM_RMS), ctx,
                 FV_ERR_ARGUMENT, "norm: %.80s: kind %d, width %lld, eps %g", prefix, (int)kind,
                 (long long)width, eps);
    fv_norm_layer made = {.kind = kind, .eps = eps};
    made.weight = fv_nn_weight(params, prefix, "weight", 1, &width, fv_init_constant(1));
    if (bias && kind == FV_NORM_LAYER)
        made.bias = fv_nn_weight(params, prefix, "bias", 1, &width, fv_init_constant(0));
    if (ctx->error == FV_OK) *norm = made;
    return ctx->error;
}

fv_tensor *fv_norm_layer_run(fv_ctx *ctx, const fv_norm_layer *norm, fv_tensor *x)
{
    return norm->kind == FV_NORM_RMS ? fv_rms_norm(ctx, x, norm->weight, norm->eps)
                                     : fv_layer_norm(ctx, x, norm->weight, norm->bias, norm->eps);
}

fv_status fv_embedding_create(fv_params *params, const char *prefix, int64_t rows, int64_t width,
                              double init_std, fv_tensor **table)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(rows < 1 || width < 1, ctx, FV_ERR_ARGUMENT, "table: %.80s: %lld x %lld", prefix,
                 (long long)rows, (long long)width);
    fv_tensor *made = fv_nn_weight(params, prefix, "weight", 2, (int64_t[]){rows, width},
                                   fv_init_normal(init_std > 0 ? init_std : 1));
    if (ctx->error == FV_OK) *table = made;
    return ctx->error;
}

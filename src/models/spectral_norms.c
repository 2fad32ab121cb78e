#include "models/spectral_norms.h"

#include "fovea/autograd.h"
#include "tensor/tensor.h"

fv_status fv_spectral_norms_add(fv_spectral_norms *norms, fv_params *params, const char *prefix,
                                fv_tensor *weight, int axis, int *index)
{
    const int i = norms->count;
    FV_RETURN_IF(i == FV_SPECTRAL_NORMS, norms->ctx, FV_ERR_LIMIT,
                 "%.80s: more than %d spectral norms", prefix, (int)FV_SPECTRAL_NORMS);
    FV_TRY(fv_spectral_norm_create(params, prefix, weight, axis, 1, 1e-12, &norms->norm[i]));
    norms->weight[i] = weight;
    norms->count++;
    *index = i;
    return FV_OK;
}

fv_tensor *fv_spectral_norms_run(fv_ctx *ctx, const fv_spectral_norms *norms, int index,
                                 bool frozen)
{
    if (frozen) fv_no_grad_begin(ctx);
    fv_tensor *w = fv_spectral_norm_run(ctx, &norms->norm[index], norms->weight[index], false);
    if (frozen) fv_no_grad_end(ctx);
    return w;
}

fv_status fv_spectral_norms_step(const fv_spectral_norms *norms)
{
    fv_ctx *ctx = norms->ctx;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    for (int i = 0; i < norms->count; i++)
        fv_spectral_norm_run(ctx, &norms->norm[i], norms->weight[i], true);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return ctx->error;
}

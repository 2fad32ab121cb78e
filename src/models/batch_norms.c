#include "models/batch_norms.h"

#include <stdio.h>

#include "fovea/autograd.h"
#include "tensor/launch.h"
#include "tensor/params.h"
#include "tensor/tensor.h"

fv_status fv_batch_norms_init(fv_batch_norms *norms, fv_ctx *ctx)
{
    *norms = (fv_batch_norms){.ctx = ctx};
    return fv_params_create(ctx, &norms->last);
}

void fv_batch_norms_free(fv_batch_norms *norms) { fv_params_destroy(&norms->last); }

static fv_tensor *remembered(const fv_batch_norms *norms, const char *prefix, const char *name,
                             int64_t channels)
{
    char full[128];
    snprintf(full, sizeof full, "%.100s.%s", prefix, name);
    return fv_params_add_buffer(norms->last, full, fv_zeros(norms->ctx, FV_F32, 1, &channels));
}

fv_status fv_batch_norms_add(fv_batch_norms *norms, fv_params *params, const char *prefix,
                             int64_t channels, int *index)
{
    const int i = norms->count;
    FV_RETURN_IF(i == FV_BATCH_NORMS, norms->ctx, FV_ERR_LIMIT, "%.80s: more than %d batch norms",
                 prefix, (int)FV_BATCH_NORMS);
    FV_TRY(fv_batch_norm_create(params, prefix, channels, 1e-5, 0.1, &norms->layer[i]));
    norms->mean[i] = remembered(norms, prefix, "mean", channels);
    norms->variance[i] = remembered(norms, prefix, "variance", channels);
    norms->count++;
    *index = i;
    return norms->ctx->error;
}

fv_tensor *fv_batch_norms_run(fv_ctx *ctx, fv_batch_norms *norms, int index, fv_tensor *x,
                              bool training)
{
    const fv_batch_norm_layer *layer = &norms->layer[index];
    if (!training) return fv_batch_norm_run(ctx, layer, x, false);
    if (ctx->error != FV_OK) return ctx->invalid;
    const double count = (double)x->count / (double)(x->shape[1] > 0 ? x->shape[1] : 1);
    if (!(count > 1)) {
        fv_poison(ctx, FV_ERR_SHAPE, "batch norm: one element a channel cannot be trained on");
        return ctx->invalid;
    }
    fv_tensor *mean = NULL, *variance = NULL;
    fv_tensor *y = fv_batch_norm(ctx, x, layer->weight, layer->bias, layer->eps, &mean, &variance);
    fv_no_grad_begin(ctx);
    if (ctx->error == FV_OK) fv_copy_into(ctx, norms->mean[index], fv_detach(ctx, mean));
    if (ctx->error == FV_OK) fv_copy_into(ctx, norms->variance[index], fv_detach(ctx, variance));
    fv_no_grad_end(ctx);
    norms->factor[index] = count / (count - 1);
    return ctx->error == FV_OK ? y : ctx->invalid;
}

/* 0.9 running + 0.1 factor batch where that is finite, else running. */
static fv_tensor *moved(fv_ctx *ctx, double momentum, fv_tensor *running, fv_tensor *batch,
                        double factor)
{
    fv_tensor *next =
        fv_add(ctx, fv_scale(ctx, running, 1 - momentum), fv_scale(ctx, batch, momentum * factor));
    fv_tensor *none = fv_sub(ctx, next, next); /* 0, or NaN where it is not finite */
    return fv_where(ctx, fv_eq(ctx, none, none), next, running);
}

fv_status fv_batch_norms_step(fv_batch_norms *norms)
{
    fv_ctx *ctx = norms->ctx;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    for (int i = 0; i < norms->count; i++) {
        const fv_batch_norm_layer *l = &norms->layer[i];
        if (norms->factor[i] == 0) continue;
        fv_tensor *mean = moved(ctx, l->momentum, l->running_mean, norms->mean[i], 1);
        fv_tensor *variance =
            moved(ctx, l->momentum, l->running_variance, norms->variance[i], norms->factor[i]);
        if (ctx->error == FV_OK) fv_copy_into(ctx, l->running_mean, mean);
        if (ctx->error == FV_OK) fv_copy_into(ctx, l->running_variance, variance);
        norms->factor[i] = 0;
    }
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return ctx->error;
}

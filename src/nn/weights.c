#include "nn/weights.h"

#include <stdio.h>

#include "base/ctx.h"
#include "fovea/ops.h"

fv_tensor *fv_nn_weight(fv_params *params, const char *prefix, const char *name, int rank,
                        const int64_t *shape, fv_init init)
{
    fv_ctx *ctx = fv_params_context(params);
    char full[512];
    snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", name);
    fv_tensor *t;
    switch (init.kind) {
    case FV_INIT_UNIFORM:
        t = fv_rand_uniform(ctx, FV_F32, rank, shape, -init.value, init.value);
        break;
    case FV_INIT_NORMAL:
        t = fv_rand_normal(ctx, FV_F32, rank, shape, 0, init.value);
        break;
    default:
        t = fv_full(ctx, FV_F32, rank, shape, init.value);
    }
    return fv_params_add(params, full, t);
}

#include "nn/weights.h"

#include <stdio.h>

#include "fovea/ops.h"
#include "tensor/params.h"
#include "tensor/tensor.h"

void fv_nn_name(char out[FV_NN_NAME], const char *prefix, const char *name)
{
    snprintf(out, FV_NN_NAME, "%s%s%s", prefix, *prefix ? "." : "", name);
}

static fv_tensor *check_shape(fv_ctx *ctx, const char *name, fv_tensor *t, int rank,
                              const int64_t *shape)
{
    if (fv_shape_equal(rank, shape, t->rank, t->shape)) return t;
    char is[FV_SHAPE_TEXT], wanted[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "params: '%.100s' has shape %s, expected %s", name,
              fv_shape_text(is, t->rank, t->shape), fv_shape_text(wanted, rank, shape));
    return ctx->invalid;
}

fv_tensor *fv_nn_weight(fv_params *params, const char *prefix, const char *name, int rank,
                        const int64_t *shape, fv_init init)
{
    fv_ctx *ctx = fv_params_ctx(params);
    char full[FV_NN_NAME];
    fv_nn_name(full, prefix, name);
    fv_tensor *t = ctx->error == FV_OK ? fv_params_find(params, full) : NULL;
    if (t) return check_shape(ctx, full, t, rank, shape);
    if (fv_params_is_plan(params)) {
        t = fv_broadcast(ctx, fv_zeros(ctx, FV_F32, 0, NULL), rank, shape);
        return fv_params_add(params, full, t);
    }
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

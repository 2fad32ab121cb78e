/* Leaves and their gradients, retained results, detached views, and turning recording on and off.
 */
#include "fovea/autograd.h"
#include "tensor/tensor.h"

static bool mark(fv_ctx *ctx, fv_tensor *t, const char *call, unsigned flag)
{
    if (ctx->error != FV_OK) return false;
    if (!t || (t->flags & (FV_TENSOR_INVALID | FV_TENSOR_RELEASED))) {
        fv_poison(ctx, FV_ERR_STATE, "%s: the tensor is not valid", call);
        return false;
    }
    if (t->ctx != ctx) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "%s: the tensor belongs to another context", call);
        return false;
    }
    t->flags |= flag;
    return true;
}

fv_tensor *fv_leaf(fv_ctx *ctx, fv_tensor *t)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (t && (t->node || (t->dtype != FV_F32 && t->dtype != FV_F64)) &&
        !(t->flags & FV_TENSOR_INVALID)) {
        fv_poison(
            ctx, FV_ERR_ARGUMENT,
            "leaf: expected an f32 or f64 tensor that is not the result of a recorded op, got %s",
            fv_dtype_name(t->dtype));
        return ctx->invalid;
    }
    return mark(ctx, t, "leaf", FV_TENSOR_LEAF) ? t : ctx->invalid;
}

fv_tensor *fv_retain(fv_ctx *ctx, fv_tensor *t)
{
    return mark(ctx, t, "retain", FV_TENSOR_RETAINED) ? t : ctx->invalid;
}

fv_tensor *fv_grad(fv_ctx *ctx, const fv_tensor *t)
{
    (void)ctx;
    return t->grad;
}

void fv_zero_grad(fv_ctx *ctx, fv_tensor *t)
{
    (void)ctx;
    fv_tensor_unref(t->grad);
    t->grad = NULL;
}

fv_tensor *fv_detach(fv_ctx *ctx, fv_tensor *t)
{
    if (!mark(ctx, t, "detach", 0)) return ctx->invalid;
    return fv_tensor_view(ctx, t, t->rank, t->shape, t->stride, 0);
}

void fv_no_grad_begin(fv_ctx *ctx) { ctx->no_grad++; }

void fv_no_grad_end(fv_ctx *ctx)
{
    if (ctx->no_grad > 0) ctx->no_grad--;
}

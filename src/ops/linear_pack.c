/* Weights of linear layers packed for GEMM: in addition to the weight, or replacing it. */
#include "ops/product.h"
#include "ops/rows.h"

static fv_status check(fv_ctx *ctx, const char *call, const fv_tensor *weight)
{
    char text[FV_SHAPE_TEXT];
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(!weight || (weight->flags & (FV_TENSOR_INVALID | FV_TENSOR_RELEASED)), ctx,
                 FV_ERR_STATE, "%s: the weight is not valid", call);
    FV_RETURN_IF(weight->rank != 2, ctx, FV_ERR_SHAPE,
                 "%s: expected a weight of [out, in], got shape %s", call,
                 fv_shape_text(text, weight->rank, weight->shape));
    FV_RETURN_IF(weight->dtype != FV_F32, ctx, FV_ERR_DTYPE,
                 "%s: only f32 weights can be packed, got %s", call, fv_dtype_name(weight->dtype));
    return FV_OK;
}

/* Packs the weight and attaches the panels to it, replacing older ones. */
static fv_status attach(fv_ctx *ctx, fv_tensor *weight, fv_weight_form form)
{
    const fv_matrix stored = {.data = weight->data,
                              .rows = weight->shape[0],
                              .cols = weight->shape[1],
                              .row = weight->stride[0],
                              .col = weight->stride[1]};
    fv_tensor *packed = fv_product_pack(ctx, form, fv_matrix_transpose(stored));
    if (ctx->error != FV_OK) return ctx->error;
    fv_tensor_ref(packed); /* the weight holds it; its scope no longer does */
    fv_tensor_leave_scope(packed);
    fv_tensor_unref(weight->packed);
    weight->packed = packed;
    weight->packed_form = (int)form;
    weight->packed_version = weight->buffer->version;
    return FV_OK;
}

fv_status fv_linear_pack(fv_ctx *ctx, fv_tensor *weight)
{
    FV_TRY(check(ctx, "linear_pack", weight));
    return attach(ctx, weight, FV_WEIGHT_F32);
}

fv_status fv_linear_pack_in_place(fv_ctx *ctx, fv_tensor *weight, fv_weight_form form)
{
    FV_TRY(check(ctx, "linear_freeze", weight));
    FV_RETURN_IF(form < FV_WEIGHT_F32 || form >= FV_WEIGHT_FORM_COUNT, ctx, FV_ERR_ARGUMENT,
                 "linear_freeze: unknown weight form %d", (int)form);
    FV_RETURN_IF(weight->node, ctx, FV_ERR_STATE,
                 "linear_freeze: the weight is the result of a recorded op");
    FV_TRY(attach(ctx, weight, form));
    fv_tensor_unref(weight->grad);
    weight->grad = NULL;
    fv_tensor_drop_memory(weight);
    weight->flags &= ~(unsigned)FV_TENSOR_LEAF;
    weight->flags |= FV_TENSOR_PACKED_ONLY;
    fv_shape_strides(weight->rank, weight->shape, weight->stride);
    return FV_OK;
}

fv_status fv_need_not_frozen(fv_op_run *run, int i)
{
    if (!run->recording || !(run->in[i]->flags & FV_TENSOR_PACKED_ONLY)) return FV_OK;
    return fv_op_error(run, FV_ERR_STATE, "input %d is a packed-only weight, which has no gradient",
                       i);
}

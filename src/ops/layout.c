#include "ops/layout.h"

fv_tensor *fv_layout_slice(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t begin, int64_t size)
{
    int64_t shape[FV_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++)
        shape[i] = t->shape[i];
    shape[axis] = size;
    return fv_tensor_view(ctx, t, t->rank, shape, t->stride, begin * t->stride[axis]);
}

void fv_layout_copy_slice(fv_ctx *ctx, fv_tensor *dst, int axis, int64_t dst_begin,
                          const fv_tensor *src, int64_t src_begin, int64_t size)
{
    if (size == 0) return;
    fv_tensor *to = fv_layout_slice(ctx, dst, axis, dst_begin, size);
    fv_tensor *from = fv_layout_slice(ctx, src, axis, src_begin, size);
    if (ctx->error == FV_OK) fv_copy_into(ctx, to, from);
    fv_tensor_free(ctx, &from);
    fv_tensor_free(ctx, &to);
}

fv_tensor *fv_layout_reshape(fv_ctx *ctx, const fv_tensor *t, int rank, const int64_t *shape)
{
    int64_t stride[FV_MAX_RANK] = {0};
    fv_shape_strides(rank, shape, stride);
    return fv_tensor_view(ctx, t, rank, shape, stride, 0);
}

fv_tensor *fv_layout_select(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t index)
{
    int64_t shape[FV_MAX_RANK] = {0}, stride[FV_MAX_RANK] = {0};
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (i == axis) continue;
        shape[rank] = t->shape[i];
        stride[rank++] = t->stride[i];
    }
    return fv_tensor_view(ctx, t, rank, shape, stride, index * t->stride[axis]);
}

fv_shape_params fv_shape_params_of(int rank, const int64_t *shape)
{
    fv_shape_params params = {.rank = rank};
    if (rank < 0 || rank > FV_MAX_RANK || (rank > 0 && !shape)) params.rank = -1;
    for (int i = 0; i < params.rank; i++)
        params.shape[i] = shape[i];
    return params;
}

fv_status fv_shape_check(fv_op_run *run, const fv_shape_params *params)
{
    if (!run->in[0]) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    if (params->rank < 0)
        return fv_op_error(run, FV_ERR_ARGUMENT, "the shape is NULL or its rank is not in 0..%d",
                           (int)FV_MAX_RANK);
    return FV_OK;
}

#include "ops/rows.h"

static int64_t product(const int64_t *shape, int begin, int end)
{
    int64_t n = 1;
    for (int i = begin; i < end; i++)
        n *= shape[i];
    return n;
}

int64_t fv_row_count(const fv_tensor *t) { return product(t->shape, 0, t->rank - 1); }
int64_t fv_outer_count(const fv_tensor *t, int axis) { return product(t->shape, 0, axis); }
int64_t fv_inner_count(const fv_tensor *t, int axis)
{
    return product(t->shape, axis + 1, t->rank);
}

fv_tensor *fv_axis_last(fv_ctx *ctx, fv_tensor *t, int axis)
{
    if (ctx->error != FV_OK || axis == t->rank - 1) return t;
    int64_t shape[FV_MAX_RANK], stride[FV_MAX_RANK];
    int out = 0;
    for (int i = 0; i < t->rank; i++) {
        if (i == axis) continue;
        shape[out] = t->shape[i];
        stride[out++] = t->stride[i];
    }
    shape[out] = t->shape[axis];
    stride[out] = t->stride[axis];
    return fv_tensor_view(ctx, t, t->rank, shape, stride, 0);
}

fv_tensor *fv_rows_of(fv_ctx *ctx, fv_tensor *t, int axis)
{
    fv_tensor *moved = fv_axis_last(ctx, t, axis);
    fv_tensor *rows = fv_contiguous_raw(ctx, moved);
    if (rows != moved) fv_drop_copy(ctx, moved, t);
    return rows;
}

fv_tensor *fv_rows_buffer(fv_ctx *ctx, fv_tensor *t, int axis)
{
    fv_tensor *moved = fv_axis_last(ctx, t, axis);
    if (ctx->error != FV_OK || fv_tensor_contiguous(moved)) return moved;
    fv_tensor *buffer = fv_tensor_like(ctx, moved);
    fv_drop_copy(ctx, moved, t);
    return buffer;
}

void fv_rows_store(fv_ctx *ctx, fv_tensor *t, int axis, fv_tensor *rows)
{
    if (ctx->error != FV_OK || rows == t) return;
    if (rows->buffer != t->buffer) {
        fv_tensor *moved = fv_axis_last(ctx, t, axis);
        if (ctx->error == FV_OK) fv_copy_into(ctx, moved, rows);
        fv_drop_copy(ctx, moved, t);
    }
    fv_drop_copy(ctx, rows, t);
}

void *fv_optional_data(fv_ctx *ctx, fv_tensor *t, fv_tensor **copy)
{
    *copy = t;
    if (!t || ctx->error != FV_OK) return NULL;
    *copy = fv_contiguous_raw(ctx, t);
    return (*copy)->data;
}

void fv_drop_copy(fv_ctx *ctx, fv_tensor *copy, const fv_tensor *of)
{
    if (copy != of) fv_tensor_free(ctx, &copy);
}

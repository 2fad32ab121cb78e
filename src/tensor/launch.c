#include "tensor/launch.h"

#include <string.h>

void fv_launch(fv_ctx *ctx, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr, const void *args,
               size_t args_bytes)
{
    if (ctx->error != FV_OK) return;
    fv_device *dev = ctx->device;
    if (!dev->ops->supports(dev, kernel, dtype)) {
        fv_poison(ctx, FV_ERR_DTYPE, "%s is not available for %s on device %s",
                  fv_kernel_infos[kernel].name, fv_dtype_name(dtype), dev->ops->name);
        return;
    }
    fv_status status = dev->ops->launch(dev, kernel, dtype, ptr, args, args_bytes);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
}

/* Merges adjacent axes that one stride per operand can cover, and drops axes of size 1. */
static void merge_axes(fv_elementwise_args *args, int n)
{
    int out = -1;
    for (int axis = 0; axis < args->rank; axis++) {
        if (args->shape[axis] == 1) continue;
        bool merges = out >= 0;
        for (int i = 0; i < n && merges; i++)
            merges = args->stride[i][out] == args->stride[i][axis] * args->shape[axis];
        if (merges) {
            args->shape[out] *= args->shape[axis];
            for (int i = 0; i < n; i++)
                args->stride[i][out] = args->stride[i][axis];
            continue;
        }
        out++;
        args->shape[out] = args->shape[axis];
        for (int i = 0; i < n; i++)
            args->stride[i][out] = args->stride[i][axis];
    }
    args->rank = out + 1;
}

static void broadcast_strides(const fv_tensor *t, int rank, const int64_t *shape, int64_t *stride)
{
    int lead = rank - t->rank;
    for (int axis = 0; axis < rank; axis++) {
        bool repeats = axis < lead || (t->shape[axis - lead] == 1 && shape[axis] != 1);
        stride[axis] = repeats ? 0 : t->stride[axis - lead];
    }
}

/* Whether all operands are contiguous and of one shape: then the kernel sees one axis. */
static bool all_contiguous(int n, fv_tensor *const *t)
{
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        if (t[i]->count != t[0]->count || t[i]->rank != t[0]->rank) return false;
        if (t[i]->rank == 1 && t[i]->stride[0] == 1) continue;
        if (!fv_tensor_contiguous(t[i])) return false;
    }
    return true;
}

void fv_launch_elementwise(fv_ctx *ctx, fv_kernel_id kernel, fv_dtype dtype,
                           fv_elementwise_args *args, int n, fv_tensor *const *t)
{
    if (ctx->error != FV_OK || t[0]->count == 0) return;
    void *ptr[4] = {NULL};
    args->bf16 = 0;
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        ptr[i] = t[i]->data;
        if (t[i]->dtype == FV_BF16) args->bf16 |= 1u << i;
    }
    if (args->bf16 && kernel != FV_KERNEL_COPY) dtype = FV_BF16;
    if (all_contiguous(n, t)) {
        args->rank = 1;
        args->shape[0] = t[0]->count;
        for (int i = 0; i < n; i++)
            args->stride[i][0] = 1;
    } else {
        args->rank = t[0]->rank;
        memcpy(args->shape, t[0]->shape, sizeof args->shape);
        for (int i = 0; i < n; i++) {
            if (t[i])
                broadcast_strides(t[i], args->rank, args->shape, args->stride[i]);
            else
                memset(args->stride[i], 0, sizeof args->stride[i]);
        }
        merge_axes(args, n);
    }
    fv_launch(ctx, kernel, dtype, ptr, args, sizeof *args);
}

void fv_copy_into(fv_ctx *ctx, fv_tensor *dst, const fv_tensor *src)
{
    fv_elementwise_args args = {.to = dst->dtype, .from = src->dtype};
    fv_launch_elementwise(ctx, FV_KERNEL_COPY, dst->dtype, &args, 2,
                          (fv_tensor *[]){dst, (fv_tensor *)(uintptr_t)src});
}

void fv_fill(fv_ctx *ctx, fv_tensor *t, double value)
{
    fv_elementwise_args args = {.to = t->dtype, .alpha = value};
    fv_launch_elementwise(ctx, FV_KERNEL_FILL, t->dtype, &args, 1, &t);
}

fv_tensor *fv_contiguous_raw(fv_ctx *ctx, fv_tensor *t)
{
    if (ctx->error != FV_OK || fv_tensor_contiguous(t)) return t;
    fv_tensor *copy = fv_tensor_like(ctx, t);
    fv_copy_into(ctx, copy, t);
    return copy;
}

static fv_tensor *as_f32(fv_ctx *ctx, const fv_tensor *t)
{
    fv_tensor *wide = fv_tensor_new(ctx, FV_F32, t->rank, t->shape);
    if (ctx->error == FV_OK) fv_copy_into(ctx, wide, t);
    return wide;
}

void fv_add_into(fv_ctx *ctx, fv_tensor *dst, const fv_tensor *src)
{
    if (ctx->error != FV_OK) return;
    if (dst->dtype == FV_F16) { /* a storage type: add in f32 */
        fv_tensor *sum = as_f32(ctx, dst), *other = as_f32(ctx, src);
        fv_add_into(ctx, sum, other);
        if (ctx->error == FV_OK) fv_copy_into(ctx, dst, sum);
        fv_tensor_free(ctx, &sum);
        fv_tensor_free(ctx, &other);
        return;
    }
    fv_elementwise_args args = {.op = FV_BINARY_ADD};
    fv_launch_elementwise(ctx, FV_KERNEL_BINARY, dst->dtype, &args, 3,
                          (fv_tensor *[]){dst, dst, (fv_tensor *)(uintptr_t)src});
}

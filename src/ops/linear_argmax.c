/* The argmax of a linear layer, with a candidate pre-filter (kernels/prefilter.h). */
#include "device/device.h"
#include "kernels/prefilter.h"
#include "ops/product.h"

static bool has_prefilter(const fv_ctx *ctx, const fv_tensor *weight, const fv_tensor *bias)
{
    return weight->dtype == FV_F32 && !(weight->flags & FV_TENSOR_PACKED_ONLY) &&
           fv_tensor_contiguous(weight) && (!bias || fv_tensor_contiguous(bias)) &&
           ctx->device->ops->supports(ctx->device, FV_KERNEL_PREFILTER_ARGMAX, FV_F32);
}

static fv_prefilter_args args_of(const fv_tensor *weight)
{
    return (fv_prefilter_args){.n = weight->shape[0], .k = weight->shape[1]};
}

fv_tensor *fv_linear_prefilter(fv_ctx *ctx, fv_tensor *weight, fv_tensor *bias)
{
    if (ctx->error != FV_OK || !has_prefilter(ctx, weight, bias)) return NULL;
    const fv_prefilter_args args = args_of(weight);
    const size_t bytes = fv_prefilter_bytes(args.n, args.k);
    if (bytes > INT64_MAX || weight->count == 0) return NULL;
    fv_tensor *prefilter =
        fv_tensor_new(ctx, FV_F32, 1, (int64_t[]){(int64_t)(bytes / sizeof(float))});
    if (ctx->error == FV_OK)
        fv_launch(ctx, FV_KERNEL_PREFILTER_PACK, FV_F32,
                  (void *[]){prefilter->data, weight->data, bias ? bias->data : NULL}, &args,
                  sizeof args);
    return prefilter;
}

fv_tensor *fv_linear_argmax(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                            fv_tensor *prefilter)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *rows = fv_contiguous_raw(ctx, x);
    fv_prefilter_args args = args_of(weight);
    args.m = x->shape[0];
    args.a_row = args.k;
    fv_tensor *best = fv_tensor_new(ctx, FV_I64, 1, &args.m);
    if (ctx->error == FV_OK)
        fv_launch(ctx, FV_KERNEL_PREFILTER_ARGMAX, FV_F32,
                  (void *[]){best->data, rows->data, prefilter->data, weight->data,
                             bias ? bias->data : NULL},
                  &args, sizeof args);
    return best;
}

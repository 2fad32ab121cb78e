#include "tensor/later.h"

fv_status fv_later_begin(fv_ctx *ctx, const fv_tensor *t, fv_later *out)
{
    FV_RETURN_IF(!fv_tensor_contiguous(t), ctx, FV_ERR_ARGUMENT,
                 "read_later: expected a contiguous tensor");
    fv_later later = {.bytes = (size_t)t->count * fv_dtype_size(t->dtype)};
    FV_TRY(ctx->device->ops->read_later(ctx->device, t->data, later.bytes, &later.ticket));
    *out = later;
    return FV_OK;
}

fv_status fv_later_end(fv_ctx *ctx, fv_later *later, bool wait, void *out, size_t bytes, bool *done)
{
    fv_device *dev = ctx->device;
    FV_RETURN_IF(fv_later_is_none(later) || bytes != later->bytes, ctx, FV_ERR_ARGUMENT,
                 "read_later: expected %zu bytes, got %zu", later->bytes, bytes);
    *done = false;
    const fv_status status = dev->ops->read_done(dev, later->ticket, wait, out, done);
    if (*done) *later = (fv_later){0};
    return status;
}

void fv_later_drop(fv_ctx *ctx, fv_later *later)
{
    bool done;
    if (!fv_later_is_none(later))
        (void)ctx->device->ops->read_done(ctx->device, later->ticket, true, NULL, &done);
    *later = (fv_later){0};
}

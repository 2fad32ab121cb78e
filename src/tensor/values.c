/* Creates tensors from values (zeros, full, scalar, from_host) and copies values between host
 * memory and tensors. */
#include <string.h>

#include "tensor/launch.h"

/* Returns t, or frees it and returns the invalid tensor if filling it failed. */
static fv_tensor *checked_result(fv_ctx *ctx, fv_tensor *t)
{
    if (ctx->error == FV_OK) return t;
    fv_tensor_free(ctx, &t);
    return ctx->invalid;
}

static fv_tensor *new_filled(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                             double value)
{
    fv_tensor *t = fv_tensor_new(ctx, dtype, rank, shape);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_fill(ctx, t, value);
    return checked_result(ctx, t);
}

fv_tensor *fv_zeros(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    return new_filled(ctx, dtype, rank, shape, 0.0);
}

fv_tensor *fv_full(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape, double value)
{
    return new_filled(ctx, dtype, rank, shape, value);
}

fv_tensor *fv_scalar(fv_ctx *ctx, fv_dtype dtype, double value)
{
    return new_filled(ctx, dtype, 0, NULL, value);
}

static size_t bytes_of(const fv_tensor *t) { return (size_t)t->count * fv_dtype_size(t->dtype); }

/* Checked before every access to values. */
static fv_status check_access(fv_ctx *ctx, const fv_tensor *t, const char *op_name)
{
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(!t || (t->flags & FV_TENSOR_INVALID), ctx, FV_ERR_STATE,
                 "%s: the tensor is not valid", op_name);
    FV_RETURN_IF(t->ctx != ctx, ctx, FV_ERR_ARGUMENT, "%s: the tensor belongs to another context",
                 op_name);
    FV_RETURN_IF(t->flags & FV_TENSOR_PACKED_ONLY, ctx, FV_ERR_STATE,
                 "%s: the tensor is a packed-only weight (fv_linear_pack_in_place): only products "
                 "and embeddings read it",
                 op_name);
    FV_RETURN_IF(
        t->flags & FV_TENSOR_RELEASED, ctx, FV_ERR_STATE,
        "%s: backward released the tensor's memory; call fv_retain() on it before backward",
        op_name);
    return FV_OK;
}

static fv_status check_bytes(fv_ctx *ctx, const fv_tensor *t, size_t bytes, const char *op_name)
{
    char text[FV_SHAPE_TEXT];
    FV_RETURN_IF(bytes != bytes_of(t), ctx, FV_ERR_ARGUMENT,
                 "%s: expected %zu bytes for a %s tensor %s, got %zu", op_name, bytes_of(t),
                 fv_dtype_name(t->dtype), fv_shape_text(text, t->rank, t->shape), bytes);
    return FV_OK;
}

/* A contiguous tensor of t's shape, in a scope of its own; end the scope after use. */
static fv_tensor *begin_staging(fv_ctx *ctx, const fv_tensor *t, fv_dtype dtype, bool copy_in)
{
    fv_scope_begin(ctx);
    fv_tensor *staged = fv_tensor_new(ctx, dtype, t->rank, t->shape);
    if (ctx->error == FV_OK && copy_in) fv_copy_into(ctx, staged, t);
    return staged;
}

fv_status fv_tensor_read(fv_ctx *ctx, const fv_tensor *t, void *out, size_t bytes)
{
    FV_TRY(check_access(ctx, t, "read"));
    FV_TRY(check_bytes(ctx, t, bytes, "read"));
    if (bytes == 0) return ctx->device->ops->sync(ctx->device);
    if (fv_tensor_contiguous(t)) return ctx->device->ops->read(ctx->device, out, t->data, bytes);
    fv_tensor *staged = begin_staging(ctx, t, t->dtype, true);
    fv_status status = ctx->error;
    if (status == FV_OK) status = ctx->device->ops->read(ctx->device, out, staged->data, bytes);
    fv_scope_end(ctx);
    return status;
}

fv_status fv_tensor_write(fv_ctx *ctx, fv_tensor *t, const void *in, size_t bytes)
{
    FV_TRY(check_access(ctx, t, "write"));
    FV_TRY(check_bytes(ctx, t, bytes, "write"));
    t->buffer->version++;
    if (bytes == 0) return FV_OK;
    if (fv_tensor_contiguous(t)) return ctx->device->ops->write(ctx->device, t->data, in, bytes);
    fv_tensor *staged = begin_staging(ctx, t, t->dtype, false);
    fv_status status = ctx->error;
    if (status == FV_OK) status = ctx->device->ops->write(ctx->device, staged->data, in, bytes);
    if (status == FV_OK) {
        fv_copy_into(ctx, t, staged);
        status = ctx->error;
    }
    fv_scope_end(ctx);
    return status;
}

fv_status fv_tensor_item(fv_ctx *ctx, const fv_tensor *t, double *out)
{
    FV_TRY(check_access(ctx, t, "item"));
    char text[FV_SHAPE_TEXT];
    FV_RETURN_IF(t->count != 1, ctx, FV_ERR_SHAPE,
                 "item: expected a tensor with one element, got shape %s",
                 fv_shape_text(text, t->rank, t->shape));
    if (t->dtype == FV_F64) return ctx->device->ops->read(ctx->device, out, t->data, sizeof *out);
    fv_tensor *staged = begin_staging(ctx, t, FV_F64, true);
    fv_status status = ctx->error;
    if (status == FV_OK)
        status = ctx->device->ops->read(ctx->device, out, staged->data, sizeof *out);
    fv_scope_end(ctx);
    return status;
}

fv_tensor *fv_from_host(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                        const void *data)
{
    fv_tensor *t = fv_tensor_new(ctx, dtype, rank, shape);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (!data && t->count > 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "from_host: data is NULL");
    } else {
        fv_status status = fv_tensor_write(ctx, t, data, bytes_of(t));
        if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    }
    return checked_result(ctx, t);
}

#include "tensor/bf16_copy.h"

#include "tensor/launch.h"

static size_t copy_bytes(const fv_buffer *buffer) { return buffer->bytes / 2; }

/* Rounds the whole buffer. */
static void round_buffer(fv_ctx *ctx, fv_buffer *buffer)
{
    fv_elementwise_args args = {.to = FV_BF16, .from = FV_F32, .rank = 1};
    args.shape[0] = (int64_t)(buffer->bytes / sizeof(float));
    args.stride[0][0] = args.stride[1][0] = 1;
    if (args.shape[0] > 0)
        fv_launch(ctx, FV_KERNEL_COPY, FV_BF16, (void *[]){buffer->bf16, buffer->data}, &args,
                  sizeof args);
    buffer->bf16_version = buffer->version;
}

static bool is_current(const fv_buffer *buffer)
{
    return buffer->bf16 && buffer->owned && buffer->bf16_version == buffer->version;
}

static void *address_of(const fv_tensor *t)
{
    return (char *)t->buffer->bf16 + (t->data - (char *)t->buffer->data) / 2;
}

void *fv_bf16_copy(fv_ctx *ctx, const fv_tensor *t)
{
    fv_buffer *buffer = t->buffer;
    if (ctx->error != FV_OK) return NULL;
    const bool is_new = !buffer->bf16;
    if (is_new) buffer->bf16 = ctx->device->ops->alloc(ctx->device, copy_bytes(buffer));
    if (!buffer->bf16) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for the bf16 copy of a parameter");
        return NULL;
    }
    if (is_new || !is_current(buffer)) round_buffer(ctx, buffer);
    return address_of(t);
}

void *fv_bf16_copy_of_current(const fv_tensor *t)
{
    return is_current(t->buffer) ? address_of(t) : NULL;
}

void fv_bf16_copy_set_current(const fv_tensor *t) { t->buffer->bf16_version = t->buffer->version; }

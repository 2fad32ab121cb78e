#include "attention/host.h"

#include "base/check.h"
#include "fovea/ops.h"
#include "tensor/tensor.h"

static bool bytes_of(fv_dtype dtype, int rank, const int64_t *shape, size_t *bytes)
{
    int64_t count = 0;
    return fv_shape_count(rank, shape, &count) &&
           fv_mul_size((size_t)count, fv_dtype_size(dtype), bytes);
}

void *fv_host_room(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    size_t bytes = 0;
    if (ctx->error != FV_OK) return NULL;
    if (!bytes_of(dtype, rank, shape, &bytes)) {
        char text[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_ARGUMENT, "no table can have the shape %s",
                  fv_shape_text(text, rank, shape));
        return NULL;
    }
    void *x = fv_mem_alloc(&ctx->mem, bytes);
    if (!x) fv_poison(ctx, FV_ERR_MEMORY, "no memory for a table of %zu bytes", bytes);
    return x;
}

fv_tensor *fv_host_tensor(fv_ctx *ctx, fv_dtype dtype, void *x, int rank, const int64_t *shape,
                          fv_dtype as)
{
    size_t bytes = 0;
    if (!x || !bytes_of(dtype, rank, shape, &bytes)) return ctx->invalid;
    fv_tensor *t = fv_from_host(ctx, dtype, rank, shape, x);
    fv_mem_free(&ctx->mem, x, bytes);
    return as == dtype ? t : fv_cast(ctx, t, as);
}

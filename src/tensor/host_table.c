#include "tensor/host_table.h"

#include "base/checked_math.h"
#include "tensor/launch.h"

static bool bytes_of(fv_dtype dtype, int rank, const int64_t *shape, size_t *bytes)
{
    int64_t count = 0;
    return fv_shape_count(rank, shape, &count) &&
           fv_checked_mul_size((size_t)count, fv_dtype_size(dtype), bytes);
}

void *fv_host_alloc(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    size_t bytes = 0;
    if (ctx->error != FV_OK) return NULL;
    if (!bytes_of(dtype, rank, shape, &bytes)) {
        char text[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_ARGUMENT, "shape %s has a negative size or too many elements",
                  fv_shape_text(text, rank, shape));
        return NULL;
    }
    void *x = fv_mem_alloc(&ctx->mem, bytes);
    if (!x) fv_poison(ctx, FV_ERR_MEMORY, "no memory for a table of %zu bytes", bytes);
    return x;
}

/* A copy with another element type; frees t. */
static fv_tensor *converted(fv_ctx *ctx, fv_tensor *t, fv_dtype as)
{
    fv_tensor *copy = fv_tensor_new(ctx, as, t->rank, t->shape);
    if (ctx->error == FV_OK) fv_copy_into(ctx, copy, t);
    fv_tensor_free(ctx, &t);
    if (ctx->error == FV_OK) return copy;
    fv_tensor_free(ctx, &copy);
    return ctx->invalid;
}

fv_tensor *fv_host_tensor(fv_ctx *ctx, fv_dtype dtype, void *x, int rank, const int64_t *shape,
                          fv_dtype as)
{
    size_t bytes = 0;
    if (!x || !bytes_of(dtype, rank, shape, &bytes)) return ctx->invalid;
    fv_tensor *t = fv_from_host(ctx, dtype, rank, shape, x);
    fv_mem_free(&ctx->mem, x, bytes);
    return as == dtype ? t : converted(ctx, t, as);
}

/* Storing keys and values in a cache: one launch for all tokens of a layer. */
#include "kernels/cache.h"
#include "models/transformer_cache.h"
#include "tensor/host_table.h"
#include "tensor/launch.h"

fv_tensor *fv_cache_places(fv_ctx *ctx, int64_t count, const int64_t *row, const int64_t *first,
                           const int64_t *length, int64_t padded)
{
    int64_t tokens = 0, at = 0;
    if (ctx->error != FV_OK) return ctx->invalid;
    for (int64_t i = 0; i < count; i++)
        tokens += padded ? padded : length ? length[i] : 1;
    const int64_t shape[2] = {2, tokens};
    int64_t *x = fv_host_alloc(ctx, FV_I64, 2, shape);
    for (int64_t i = 0; x && i < count; i++) {
        const int64_t used = length ? length[i] : 1, n = padded ? padded : used;
        for (int64_t t = 0; t < n; t++, at++) {
            x[at] = t >= used ? -1 : row ? row[i] : i;
            x[tokens + at] = (first ? first[i] : 0) + t;
        }
    }
    return fv_host_tensor(ctx, FV_I64, x, 2, shape, FV_I64);
}

void fv_cache_append(fv_ctx *ctx, fv_tensor *const to[2], fv_tensor *k, fv_tensor *v,
                     const fv_tensor *places)
{
    if (ctx->error != FV_OK) return;
    if (places->shape[1] != k->shape[0] * k->shape[2]) {
        fv_poison(ctx, FV_ERR_INTERNAL, "cache: %lld places for %lld tokens",
                  (long long)places->shape[1], (long long)(k->shape[0] * k->shape[2]));
        return;
    }
    fv_tensor *from[2] = {k, v};
    fv_cache_append_args args = {.batch = k->shape[0],
                                 .n = k->shape[2],
                                 .heads = k->shape[1],
                                 .rows = to[0]->shape[0],
                                 .room = to[0]->shape[1],
                                 .to = to[0]->dtype,
                                 .from = k->dtype};
    for (int i = 0; i < 2; i++) {
        if (from[i]->stride[3] != 1) from[i] = fv_contiguous_raw(ctx, from[i]);
        if (ctx->error != FV_OK) return;
        args.width[i] = from[i]->shape[3];
        for (int axis = 0; axis < 3; axis++)
            args.stride[i][axis] = from[i]->stride[axis];
    }
    void *ptr[5] = {to[0]->data, to[1]->data, from[0]->data, from[1]->data, places->data};
    fv_launch(ctx, FV_KERNEL_CACHE_APPEND, args.from, ptr, &args, sizeof args);
}

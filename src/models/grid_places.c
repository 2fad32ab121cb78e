#include "models/grid_places.h"

#include "fovea/ops.h"
#include "tensor/tensor.h"

fv_tensor *fv_grid_add_places(fv_ctx *ctx, fv_tensor *x)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t n = fv_tensor_size(x, 0), h = fv_tensor_size(x, 2), w = fv_tensor_size(x, 3);
    const int64_t one[] = {1, FV_GRID_PLACES, h, w}, all[] = {n, FV_GRID_PLACES, h, w};
    const size_t bytes = (size_t)(FV_GRID_PLACES * h * w) * sizeof(float);
    float *at = fv_mem_alloc(&ctx->mem, bytes);
    if (!at) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for the places of %lld x %lld cells", (long long)h,
                  (long long)w);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            at[i * w + j] = (float)((2 * (double)j + 1) / (double)w - 1);
            at[(h + i) * w + j] = (float)((2 * (double)i + 1) / (double)h - 1);
        }
    fv_tensor *places = fv_from_host(ctx, FV_F32, 4, one, at);
    fv_mem_free(&ctx->mem, at, bytes);
    places = fv_contiguous(ctx, fv_broadcast(ctx, places, 4, all));
    return fv_concat(ctx, 2, (fv_tensor *[]){x, places}, 1);
}

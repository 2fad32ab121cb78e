#include "ops/draw.h"

#include "base/rng.h"

fv_draw_shape fv_draw_shape_of(int rank, const int64_t *shape)
{
    fv_draw_shape s = {.rows = 1, .cols = rank > 1 ? shape[rank - 1] : 1};
    for (int i = 0; i < rank - 1; i++)
        s.rows *= shape[i];
    if (rank == 1) s.rows = shape[0];
    return s;
}

fv_draw fv_draw_next(fv_ctx *ctx, int rank, const int64_t *shape)
{
    uint64_t rows_per_entry = 1; /* of the first axis */
    for (int i = 1; i < rank - 1; i++)
        rows_per_entry *= (uint64_t)shape[i];
    return (fv_draw){.key = fv_rng_key(ctx->seed, ctx->step, ctx->site++),
                     .row_offset = ctx->row_offset * rows_per_entry};
}

#include "ops/draw.h"

#include "base/rng.h"
#include "tensor/host_table.h"

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
    int64_t entry_rows = rank > 2 ? 1 : 0;
    for (int i = 1; i < rank - 1; i++)
        entry_rows *= shape[i];
    return (fv_draw){.key = fv_rng_key(ctx->seed, ctx->step, ctx->site++),
                     .first = ctx->row_offset,
                     .entry_rows = entry_rows};
}

fv_tensor *fv_draw_numbers(const fv_ctx *ctx, int rank, const int64_t *shape)
{
    fv_tensor *numbers = ctx->draw_numbers;
    const bool fits = numbers && numbers->count == fv_draw_shape_of(rank, shape).rows;
    return fits ? numbers : NULL;
}

fv_tensor *fv_draw_numbers_set(fv_ctx *ctx, fv_tensor *numbers)
{
    fv_tensor *before = ctx->draw_numbers;
    ctx->draw_numbers = numbers;
    return before;
}

fv_tensor *fv_draw_numbers_of(fv_ctx *ctx, int64_t count, const int64_t *length)
{
    int64_t total = 0, at = 0;
    for (int64_t i = 0; i < count; i++)
        total += length[i];
    int64_t *x = fv_host_alloc(ctx, FV_I64, 1, &total);
    for (int64_t i = 0; x && i < count; i++)
        for (int64_t t = 0; t < length[i]; t++)
            x[at++] = (int64_t)((ctx->row_offset + (uint64_t)i) << 32) | t;
    return fv_host_tensor(ctx, FV_I64, x, 1, &total, FV_I64);
}

fv_status fv_draw_check_numbers(fv_op_run *run, int i, int64_t rows)
{
    if (run->n_in <= i || !run->in[i]) return FV_OK;
    const fv_tensor *t = run->in[i];
    FV_TRY(fv_need_dtype(run, i, FV_I64));
    if (t->count != rows)
        return fv_op_error(run, FV_ERR_SHAPE, "%lld numbers for %lld rows", (long long)t->count,
                           (long long)rows);
    return FV_OK;
}

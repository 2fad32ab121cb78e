/* Rotary tables for the rows of a pass. */
#include "models/transformer.h"
#include "nn/rotary.h"

/* The positions that the rows name, or 0 .. n - 1 from `first` on. */
static fv_status read_positions(fv_ctx *ctx, const fv_token_rows *rows, int64_t first, int64_t n,
                                int64_t *position)
{
    if (rows->positions)
        return fv_tensor_read(ctx, rows->positions, position, (size_t)n * sizeof *position);
    for (int64_t i = 0; i < n; i++)
        position[i] = first + i;
    return FV_OK;
}

/*
 * The length of each token's sequence. A row of consecutive positions ends with the sequence so
 * far; of one token per row, each is the last of its sequence; documents have their own; other
 * positions belong to one sequence of `longest` tokens.
 */
static fv_status read_lengths(fv_ctx *ctx, const fv_token_rows *rows, const int64_t *position,
                              int64_t n, int64_t following, int64_t *length)
{
    const bool single = rows->ids->shape[1] == 1;
    const int64_t whole = rows->positions ? rows->longest : position[n - 1] + 1;
    for (int64_t i = 0; i < n; i++)
        length[i] = (rows->positions && single ? position[i] + 1 : whole) + following;
    if (!rows->begin) return FV_OK;
    /* Positions of a document start at 0, so its last one tells its length. */
    for (int64_t i = n - 1; i >= 0; i--)
        length[i] =
            i == n - 1 || position[i + 1] == 0 ? position[i] + 1 + following : length[i + 1];
    return ctx->error;
}

static fv_tensor *angles_by_length(fv_ctx *ctx, const fv_rotary_config *rotary, fv_dtype dtype,
                                   const fv_token_rows *rows, int64_t first, int64_t following)
{
    const int64_t n = rows->positions ? rows->positions->count : rows->ids->shape[1];
    const size_t bytes = 2 * (size_t)n * sizeof(int64_t);
    int64_t *position = fv_mem_alloc(&ctx->mem, bytes);
    fv_tensor *table = ctx->invalid;
    if (!position) {
        fv_poison(ctx, FV_ERR_MEMORY, "transformer: no memory for %lld positions", (long long)n);
        return table;
    }
    if (read_positions(ctx, rows, first, n, position) == FV_OK &&
        read_lengths(ctx, rows, position, n, following, position + n) == FV_OK)
        table = fv_rotary_rows(ctx, dtype, rotary, n, position, position + n);
    fv_mem_free(&ctx->mem, position, bytes);
    return table;
}

/*
 * The table that has the angles of all rows, if one has. Scalings that depend on the length agree
 * up to the original context; beyond it longrope has a second table, and dynamic scaling has other
 * angles for every length.
 */
static bool find_table(const fv_rotary_config *rotary, const fv_token_rows *rows, int64_t longest,
                       fv_position_table *which)
{
    const bool fits = !fv_rotary_depends_on_length(rotary) || (double)longest <= rotary->original;
    const bool one_length = !rows->positions;
    *which = fits ? FV_TABLE_ROTARY : FV_TABLE_ROTARY_LONG;
    return fits || (one_length && rotary->scaling == FV_ROTARY_SCALING_LONGROPE);
}

fv_tensor *fv_side_angles(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows,
                          int64_t first, int64_t following)
{
    if (m->cfg.positions != FV_POSITION_ROTARY || ctx->error != FV_OK) return NULL;
    const fv_side *s = m->decoder.layers ? &m->decoder : &m->encoder;
    const fv_rotary_config *rotary = fv_transformer_rotary(m);
    const fv_dtype dtype = s->embedding->dtype;
    const int64_t n = rows->ids->shape[1], end = rows->positions ? rows->longest : first + n;
    fv_position_table which;
    if (!find_table(rotary, rows, end + following, &which))
        return angles_by_length(ctx, rotary, dtype, rows, first, following);
    fv_tensor *table;
    if (rows->positions) {
        fv_tensor *position = fv_reshape(ctx, rows->positions, 1, (int64_t[]){-1});
        table = fv_position_rows(ctx, m, which, dtype, 0, end);
        table = fv_index_select(ctx, table, position, 0);
    } else {
        table = fv_position_rows(ctx, m, which, dtype, first, n);
    }
    return fv_contiguous(ctx, fv_transpose(ctx, table, 0, 1));
}

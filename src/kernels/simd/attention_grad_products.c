/*
 * The backward's products with P and dS on their left:
 *
 *     dV += P^T dO     dK += dS^T Q     dQ += dS K
 *
 * What all rows of a block see is one product. It goes by slices of the right side, as wide as the
 * tile: the first strip copies a slice to where it is contiguous, and the others find it in the
 * first-level cache, which rows at powers of two from each other do not share evenly. Elsewhere
 * strips go one by one.
 */
#include "kernels/simd/attention_grad.h"

/* c = from + a b for some strips and one slice of b, which has room at t.packed. */
static void multiply_slice(fv_tile t, int64_t rows)
{
    fv_gemm_tile_pack(&t);
    t.b = t.packed;
    t.b_row = FV_TILE_COLS;
    for (int64_t r = FV_GEMM_TILE_ROWS; r < rows; r += FV_GEMM_TILE_ROWS) {
        t.a += FV_GEMM_TILE_ROWS * t.a_row;
        t.c += FV_GEMM_TILE_ROWS * t.c_row;
        if (t.from) t.from = t.c;
        fv_gemm_tile(&t, (int)fv_attn_min(FV_GEMM_TILE_ROWS, rows - r), FV_TILE_COLS);
    }
}

/* c = from + a b, where from is c or NULL. careful: as fv_attn_product. */
static void multiply(const fv_tile *t, int64_t rows, int64_t cols, bool careful)
{
    const bool sliced = rows >= 2 * FV_GEMM_TILE_ROWS && !careful;
    const int64_t whole = sliced ? cols / FV_TILE_COLS * FV_TILE_COLS : 0;
    fv_tile rest = *t;
    for (int64_t j = 0; j < whole; j += FV_TILE_COLS) {
        multiply_slice(rest, rows);
        rest.b += FV_TILE_COLS;
        rest.c += FV_TILE_COLS;
        if (t->from) rest.from = rest.c;
    }
    fv_attn_product(&rest, rows, cols - whole, careful);
}

/* The keys that every row sees. */
static fv_attn_span seen_by_all(const key_block *keys, const query_block *block)
{
    fv_attn_span all = {0, keys->count};
    for (int64_t r = 0; r < block->rows; r += FV_ATTN_STRIP) {
        const fv_attn_sight *sight = &block->sight[r / FV_ATTN_STRIP];
        const fv_attn_span span = sight->span;
        if (sight->groups != fv_attn_group_bits(span.begin, span.end)) return (fv_attn_span){0, 0};
        all.begin = fv_attn_max(all.begin, span.begin);
        all.end = fv_attn_min(all.end, span.end);
    }
    return all;
}

void fv_attn_add_to_keys(const backward_job *job, const workspace *w, const key_block *keys,
                         const query_block *block, const float *weights, fv_attn_rows x,
                         int64_t width, bool begins, fv_attn_rows grad)
{
    const int64_t stride = job->plan.score_row;
    const fv_attn_span all = seen_by_all(keys, block);
    for (int64_t c = 0, end; c < keys->count; c = end) {
        end = fv_attn_min(keys->count, c + FV_ATTN_STRIP);
        if (c >= all.begin && end < all.end) end = all.end;
        const fv_attn_rows out = {grad.at + c * grad.row, grad.row};
        bool empty = begins;
        for (fv_attn_span rows = {0, 0}; next_rows_in_sight(block, c, end, &rows);) {
            const fv_tile t = {.k = rows.end - rows.begin,
                               .a = weights + rows.begin * stride + c,
                               .a_row = 1,
                               .a_col = stride,
                               .b = x.at + rows.begin * x.row,
                               .b_row = x.row,
                               .from = empty ? NULL : out.at,
                               .from_row = out.row,
                               .c = out.at,
                               .c_row = out.row,
                               .packed = w->slice};
            multiply(&t, end - c, sum_columns(job, width), !block->finite);
            empty = false;
        }
        if (empty) fv_attn_clear(job->base.a, out, end - c, width);
    }
}

void fv_attn_add_to_queries(const backward_job *job, const workspace *w, const key_block *keys,
                            const query_block *block, bool begins, fv_attn_rows grad)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.score_row;
    for (int64_t r = 0, end; r < block->rows; r = end) {
        const fv_attn_sight *sight = &block->sight[r / FV_ATTN_STRIP];
        end = end_of_rows_alike(block, r, BLOCK_ROWS);
        const fv_attn_rows out = {grad.at + r * grad.row, grad.row};
        bool empty = begins;
        for (fv_attn_span run = {0, 0}; fv_attn_next_run(sight, 0, &run);) {
            const fv_tile t = {.k = run.end - run.begin,
                               .a = w->products + r * stride + run.begin,
                               .a_row = stride,
                               .a_col = 1,
                               .b = keys->k.at + run.begin * keys->k.row,
                               .b_row = keys->k.row,
                               .from = empty ? NULL : out.at,
                               .from_row = out.row,
                               .c = out.at,
                               .c_row = out.row,
                               .packed = w->slice};
            multiply(&t, end - r, sum_columns(job, a->d), !keys->finite);
            empty = false;
        }
        if (empty) fv_attn_clear(a, out, end - r, a->d);
    }
}

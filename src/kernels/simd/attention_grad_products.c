/*
 * The backward's products with P and dS as the left operand:
 *
 *     dV += P^T dO     dK += dS^T Q     dQ += dS K
 *
 * The keys that all rows of a block see are one product. It is divided into slices of the right
 * operand, as wide as the tile: the first row tile packs a slice, and the others find it in L1, in
 * which rows at power-of-two strides would conflict. Elsewhere row tiles are multiplied one by one.
 */
#include "kernels/simd/attention_grad.h"

/* c = from + a b for some row tiles and one slice of b, which is packed to t.packed. */
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

/* c = from + a b, where from is c or NULL. skip_zeros: as in fv_attn_product. */
static void multiply(const fv_tile *t, int64_t rows, int64_t cols, bool skip_zeros)
{
    const bool sliced = rows >= 2 * FV_GEMM_TILE_ROWS && !skip_zeros;
    const int64_t whole = sliced ? cols / FV_TILE_COLS * FV_TILE_COLS : 0;
    fv_tile rest = *t;
    for (int64_t j = 0; j < whole; j += FV_TILE_COLS) {
        multiply_slice(rest, rows);
        rest.b += FV_TILE_COLS;
        rest.c += FV_TILE_COLS;
        if (t->from) rest.from = rest.c;
    }
    fv_attn_product(&rest, rows, cols - whole, skip_zeros);
}

/* The keys that every row sees. */
static fv_attn_interval visible_to_all(const key_block *keys, const query_block *block)
{
    fv_attn_interval all = {0, keys->count};
    for (int64_t r = 0; r < block->rows; r += FV_ATTN_TILE_ROWS) {
        const fv_attn_visible_keys *visible = &block->visible[r / FV_ATTN_TILE_ROWS];
        const fv_attn_interval interval = visible->interval;
        if (visible->groups != fv_attn_group_bits(interval.begin, interval.end))
            return (fv_attn_interval){0, 0};
        all.begin = fv_attn_max(all.begin, interval.begin);
        all.end = fv_attn_min(all.end, interval.end);
    }
    return all;
}

void fv_attn_add_to_keys(const backward_job *job, const workspace *w, const key_block *keys,
                         const query_block *block, const float *weights, fv_attn_rows x,
                         int64_t width, bool overwrite, fv_attn_rows grad)
{
    const int64_t stride = job->plan.score_row;
    const fv_attn_interval all = visible_to_all(keys, block);
    for (int64_t c = 0, end; c < keys->count; c = end) {
        end = fv_attn_min(keys->count, c + FV_ATTN_TILE_ROWS);
        if (c >= all.begin && end < all.end) end = all.end;
        const fv_attn_rows out = {grad.at + c * grad.row, grad.row};
        bool empty = overwrite;
        for (fv_attn_interval rows = {0, 0}; next_rows_seeing(block, c, end, &rows);) {
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
        if (empty) fv_attn_clear_rows(job->base.a, out, end - c, width);
    }
}

void fv_attn_add_to_queries(const backward_job *job, const workspace *w, const key_block *keys,
                            const query_block *block, bool overwrite, fv_attn_rows grad)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.score_row;
    for (int64_t r = 0, end; r < block->rows; r = end) {
        const fv_attn_visible_keys *visible = &block->visible[r / FV_ATTN_TILE_ROWS];
        end = end_of_equal_rows(block, r, BLOCK_ROWS);
        const fv_attn_rows out = {grad.at + r * grad.row, grad.row};
        bool empty = overwrite;
        for (fv_attn_interval range = {0, 0}; fv_attn_next_key_range(visible, 0, &range);) {
            const fv_tile t = {.k = range.end - range.begin,
                               .a = w->products + r * stride + range.begin,
                               .a_row = stride,
                               .a_col = 1,
                               .b = keys->k.at + range.begin * keys->k.row,
                               .b_row = keys->k.row,
                               .from = empty ? NULL : out.at,
                               .from_row = out.row,
                               .c = out.at,
                               .c_row = out.row,
                               .packed = w->slice};
            multiply(&t, end - r, sum_columns(job, a->d), !keys->finite);
            empty = false;
        }
        if (empty) fv_attn_clear_rows(a, out, end - r, a->d);
    }
}

/*
 * The driver of the bf16 product (kernels/gemm_bf16.h): bf16_gemm. The including file defines how
 * pairs are multiplied (bf16_tile.h) and rounded:
 *
 *     v_words bf16_round(vf x)           // sixteen floats as bf16
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_H
#define FV_KERNELS_SIMD_GEMM_BF16_H

#include "kernels/gemm_bf16.h"
#include "kernels/half.h"
#include "kernels/simd/bf16_tile.h"
#include "kernels/simd/half_simd.h"

enum { BF16_AHEAD = 8 /* pairs of rows, prefetched before they are packed */ };

typedef struct bf16_job {
    const fv_gemm *g;
    fv_gemm_bf16_plan plan;
    float *c;
    const float *a, *b, *bias, *residual;
    float *aux; /* what g->aux says, or NULL */
    uint32_t *scratch;
} bf16_job;

/* The part of C that a work item computes, and the current block of k. */
typedef struct bf16_item {
    int64_t row, rows, col, cols;
    int64_t k, depth; /* first k of the block; number of pairs */
    int64_t numbers;  /* elements of k in the block; an odd last one is paired with zero */
    uint32_t *a_block, *b_block;
    float *sums, *lanes;
} bf16_item;

static int64_t bf16_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- packing -------------------------------------------------------------------------- */

/* Packs consecutive elements along k in pairs. */
static void bf16_pack_line(const float *x, int64_t numbers, uint32_t *out)
{
    uint16_t *to = (uint16_t *)(void *)out;
    V_LOOP(numbers, 0, v_store_words(to + i, count, bf16_round(v_load(x + i, count))));
    if (numbers % 2) to[numbers] = 0;
}

/* Packs sixteen columns of two rows, interleaved; `second` NULL: zeros. Writes sixteen words. */
V_INLINE void bf16_interleave(const float *first, const float *second, int count, uint32_t *out)
{
    const v_words even = bf16_round(v_load(first, count));
    const v_words odd = second ? bf16_round(v_load(second, count)) : v_words_zero();
    v_store_interleaved(out, even, odd);
}

/* Rows far apart: the hardware prefetcher does not follow them. */
V_INLINE void bf16_prefetch(const float *line, int64_t floats)
{
    for (int64_t i = 0; i < floats; i += FV_LINE)
        fv_prefetch_l1(line + i);
}

/* Neither stride is 1: one element at a time. */
static uint32_t bf16_word(const float *x, int64_t step, bool both)
{
    const uint32_t low = fv_f32_to_bf16(x[0]);
    return both ? low | (uint32_t)fv_f32_to_bf16(x[step]) << 16 : low;
}

/* Column-major A into row tiles, [rows/6][pairs][6]. */
static void bf16_pack_row_tiles(const float *a, int64_t a_col, int64_t rows, const bf16_item *item,
                                uint32_t *out)
{
    _Alignas(64) uint32_t line[FV_GEMM_BF16_ROWS];
    for (int64_t pair = 0; pair < item->depth; pair++) {
        const float *first = a + 2 * pair * a_col;
        const float *second = 2 * pair + 1 < item->numbers ? first + a_col : NULL;
        if (2 * (pair + BF16_AHEAD) + 1 < item->numbers) {
            bf16_prefetch(first + 2 * BF16_AHEAD * a_col, rows);
            bf16_prefetch(first + (2 * BF16_AHEAD + 1) * a_col, rows);
        }
        V_LOOP(rows, 0, bf16_interleave(first + i, second ? second + i : NULL, count, line + i));
        for (int64_t row = 0; row < rows; row += FV_GEMM_TILE_ROWS)
            memcpy(out + row * item->depth + pair * FV_GEMM_TILE_ROWS, line + row,
                   FV_GEMM_TILE_ROWS * sizeof *line);
    }
}

/* Packs `rows` rows of A starting at row `row` of the work item, and sets the tile's strides of
 * A. */
static void bf16_pack_a(const bf16_job *j, const bf16_item *item, int64_t row, int64_t rows,
                        bf16_tile *t)
{
    const fv_gemm *g = j->g;
    const float *a = j->a + (item->row + row) * g->a_row + item->k * g->a_col;
    t->a_row = item->depth;
    t->a_col = 1;
    if (g->a_row == 1 && g->a_col != 1) {
        bf16_pack_row_tiles(a, g->a_col, rows, item, item->a_block);
        t->a_row = 1;
        t->a_col = FV_GEMM_TILE_ROWS;
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        uint32_t *out = item->a_block + i * item->depth;
        const float *from = a + i * g->a_row;
        if (g->a_col == 1)
            bf16_pack_line(from, item->numbers, out);
        else
            for (int64_t pair = 0; pair < item->depth; pair++)
                out[pair] =
                    bf16_word(from + 2 * pair * g->a_col, g->a_col, 2 * pair + 1 < item->numbers);
    }
}

/* Row-major B. */
static void bf16_pack_rows(const float *b, int64_t b_row, const bf16_item *item)
{
    for (int64_t pair = 0; pair < item->depth; pair++) {
        const float *first = b + 2 * pair * b_row;
        const float *second = 2 * pair + 1 < item->numbers ? first + b_row : NULL;
        if (2 * (pair + BF16_AHEAD) + 1 < item->numbers) {
            bf16_prefetch(first + 2 * BF16_AHEAD * b_row, item->cols);
            bf16_prefetch(first + (2 * BF16_AHEAD + 1) * b_row, item->cols);
        }
        V_LOOP(item->cols, 0,
               bf16_interleave(first + i, second ? second + i : NULL, count,
                               item->b_block + i / FV_TILE_COLS * FV_TILE_COLS * item->depth +
                                   pair * FV_TILE_COLS + i % FV_TILE_COLS));
    }
}

/* Column-major B: packs sixteen pairs of each column of a panel, then transposes them. */
static void bf16_pack_columns(const float *b, int64_t b_col, const bf16_item *item)
{
    _Alignas(64) uint32_t part[FV_TILE_COLS * FV_LANES];
    for (int64_t col = 0; col < item->cols; col += FV_TILE_COLS) {
        const int64_t cols = bf16_min(FV_TILE_COLS, item->cols - col);
        uint32_t *panel = item->b_block + col * item->depth;
        for (int64_t pair = 0; pair < item->depth; pair += FV_LANES) {
            const int64_t numbers = bf16_min(2 * FV_LANES, item->numbers - 2 * pair);
            for (int64_t i = 0; i < cols; i++) {
                const float *from = b + (col + i) * b_col + 2 * pair;
                if (2 * pair + 4 * FV_LANES <= item->numbers)
                    bf16_prefetch(from + 2 * FV_LANES, 2 * FV_LANES);
                bf16_pack_line(from, numbers, part + i * FV_LANES);
            }
            fv_gemm_pack_b((numbers + 1) / 2, cols, (const float *)(const void *)part, 1, FV_LANES,
                           FV_TILE_COLS, (float *)(void *)(panel + pair * FV_TILE_COLS));
        }
    }
}

static void bf16_pack_b(const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    const float *b = j->b + item->k * g->b_row + item->col * g->b_col;
    const int64_t whole = item->cols / FV_TILE_COLS * FV_TILE_COLS;
    if (whole < item->cols) /* zeros past the last column of a panel */
        memset(item->b_block + whole * item->depth, 0,
               (size_t)(item->depth * FV_TILE_COLS) * sizeof *item->b_block);
    if (g->b_col == 1) {
        bf16_pack_rows(b, g->b_row, item);
    } else if (g->b_row == 1) {
        bf16_pack_columns(b, g->b_col, item);
    } else {
        for (int64_t col = 0; col < item->cols; col++)
            for (int64_t pair = 0; pair < item->depth; pair++)
                item->b_block[col / FV_TILE_COLS * FV_TILE_COLS * item->depth +
                              pair * FV_TILE_COLS + col % FV_TILE_COLS] =
                    bf16_word(b + 2 * pair * g->b_row + col * g->b_col, g->b_row,
                              2 * pair + 1 < item->numbers);
    }
}

/* ---- row tiles ------------------------------------------------------------------------- */

static bool bf16_sums_rows(const bf16_job *j) { return j->g->aux == FV_GEMM_AUX_ROW_SUMS; }

static bool bf16_has_epilogue(const bf16_job *j)
{
    return j->bias || j->residual || j->g->act || (j->aux && !bf16_sums_rows(j));
}

/* The epilogue for sums starting at row `row` and column `col` of a work item. */
static fv_epilogue bf16_epilogue_at(const bf16_job *j, const bf16_item *item, int64_t row,
                                    int64_t col)
{
    const fv_gemm *g = j->g;
    fv_epilogue f = {.act = g->act, .residual_row = g->residual_row};
    const int64_t r = item->row + row, c = item->col + col;
    if (j->bias) f.bias = j->bias + c;
    if (j->residual) f.residual = j->residual + r * g->residual_row + c;
    if (j->aux) fv_epilogue_set_aux(&f, g, j->aux, r, c);
    return f;
}

/* Adds a block of k to the sums of `rows` rows of A, before they are rounded and packed. */
static void bf16_add_row_sums(const bf16_job *j, const bf16_item *item, int64_t row, int64_t rows)
{
    const fv_gemm *g = j->g;
    if (!bf16_sums_rows(j) || item->col > 0) return;
    const fv_row_sums s = {.rows = rows,
                           .a = j->a + (item->row + row) * g->a_row,
                           .a_row = g->a_row,
                           .a_col = g->a_col,
                           .lanes = item->lanes + (item->numbers < g->k ? FV_LANES * row : 0),
                           .out = j->aux + item->row + row};
    fv_gemm_add_row_sums(&s, item->k, item->numbers);
    if (item->k + item->numbers == g->k) fv_gemm_join_row_sums(&s);
}

/* Where partial sums are kept between blocks of k: in C, unless C holds a residual still needed. */
typedef struct bf16_sums {
    float *base;
    int64_t row;
} bf16_sums;

static bf16_sums bf16_partial_sums(const bf16_job *j, const bf16_item *item)
{
    if (j->residual && j->plan.depth < j->plan.pairs)
        return (bf16_sums){item->sums, j->plan.panels * FV_GEMM_PANEL};
    return (bf16_sums){j->c + item->row * j->g->c_row + item->col, j->g->c_row};
}

/* Copies the columns of an incomplete tile between C and a buffer. */
static void bf16_copy(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                      int64_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + i * to_row, from + i * from_row, (size_t)cols * sizeof *to);
}

/* Multiplies rows [row, row + rows) of the work item by every panel of the block; t holds A. */
static void bf16_row_tile(const bf16_job *j, const bf16_item *item, int64_t row, int rows,
                          bf16_tile *t)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float buffer[FV_GEMM_TILE_ROWS * FV_TILE_COLS];
    const bf16_sums sums = bf16_partial_sums(j, item);
    float *partial = sums.base + row * sums.row;
    float *c = j->c + (item->row + row) * g->c_row + item->col;
    const bool first = item->k == 0, last = item->k + item->numbers == g->k;
    const bool finish = last && bf16_has_epilogue(j);
    for (int64_t col = 0; col < item->cols; col += FV_TILE_COLS) {
        const int64_t cols = bf16_min(FV_TILE_COLS, item->cols - col);
        const bool part = cols < FV_TILE_COLS, start = first && !g->accumulate;
        t->b = item->b_block + col * item->depth;
        t->from = start ? NULL : partial + col;
        t->from_row = sums.row;
        if (part && !start) {
            bf16_copy(partial + col, sums.row, buffer, FV_TILE_COLS, rows, cols);
            t->from = buffer;
            t->from_row = FV_TILE_COLS;
        }
        t->c = part || finish ? buffer : partial + col;
        t->c_row = part || finish ? FV_TILE_COLS : sums.row;
        bf16_tile_run(t, rows);
        if (finish) {
            const fv_epilogue f = bf16_epilogue_at(j, item, row, col);
            fv_gemm_apply_epilogue(&f, buffer, FV_TILE_COLS, c + col, g->c_row, rows, cols);
        } else if (part) {
            bf16_copy(buffer, FV_TILE_COLS, partial + col, sums.row, rows, cols);
        }
    }
}

/* One block of k. */
static void bf16_block(const bf16_job *j, const bf16_item *item)
{
    bf16_tile t = {.pairs = item->depth};
    bf16_pack_b(j, item);
    for (int64_t begin = 0; begin < item->rows; begin += FV_GEMM_BF16_ROWS) {
        const int64_t end = bf16_min(item->rows, begin + FV_GEMM_BF16_ROWS);
        bf16_add_row_sums(j, item, begin, end - begin);
        bf16_pack_a(j, item, begin, end - begin, &t);
        for (int64_t row = begin; row < end; row += FV_GEMM_TILE_ROWS) {
            t.a = item->a_block + (row - begin) * item->depth;
            bf16_row_tile(j, item, row, (int)bf16_min(FV_GEMM_TILE_ROWS, end - row), &t);
        }
    }
}

static void bf16_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const bf16_job *j = arg;
    const fv_gemm_bf16_plan *p = &j->plan;
    const fv_gemm *g = j->g;
    for (int64_t i = begin; i < end; i++) {
        bf16_item item = {.row = i % p->row_items * p->rows,
                          .col = i / p->row_items * p->panels * FV_GEMM_PANEL};
        item.rows = bf16_min(p->rows, g->m - item.row);
        item.cols = bf16_min(p->panels * FV_GEMM_PANEL, g->n - item.col);
        item.a_block =
            j->scratch + thread * (p->a_words + p->b_words + p->sum_floats + p->lane_floats);
        item.b_block = item.a_block + p->a_words;
        item.sums = (float *)(void *)(item.b_block + p->b_words);
        item.lanes = item.sums + p->sum_floats;
        do {
            item.numbers = bf16_min(2 * p->depth, g->k - item.k);
            item.depth = (item.numbers + 1) / 2;
            bf16_block(j, &item);
            item.k += item.numbers;
        } while (item.k < g->k);
    }
}

static void bf16_gemm(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_job j = {.g = args,
                  .c = ptr[0],
                  .a = ptr[1],
                  .b = ptr[2],
                  .bias = ptr[3],
                  .residual = ptr[4],
                  .aux = ptr[5],
                  .scratch = exec->scratch};
    if (j.g->k == 0)
        j.a = j.b = j.c; /* never read, and may be NULL, to which no offset may be added */
    fv_gemm_bf16_make_plan(j.g, exec->threads, &j.plan);
    const int64_t items = j.plan.row_items * j.plan.column_items;
    if (items <= 0) return;
    if (j.plan.serial)
        bf16_items(&j, 0, items, 0);
    else
        exec->parallel(exec->user, items, 1, bf16_items, &j);
}

#endif

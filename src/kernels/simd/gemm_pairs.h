/*
 * The product of kernels/pairs.h from the top, pairs_gemm. Whoever includes this file has defined
 * how pairs are multiplied (pair_tile.h) and made:
 *
 *     __m256i pair_round(vf x)           // sixteen floats as bf16
 */
#ifndef FV_KERNELS_SIMD_GEMM_PAIRS_H
#define FV_KERNELS_SIMD_GEMM_PAIRS_H

#include "kernels/half.h"
#include "kernels/pairs.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/pair_tile.h"

enum { PAIRS_AHEAD = 8 /* pairs of rows, asked for before they are packed */ };

typedef struct pairs_job {
    const fv_gemm *g;
    fv_pairs_plan plan;
    float *c;
    const float *a, *b, *bias, *residual;
    uint32_t *scratch;
} pairs_job;

/* A unit's part of C, and one block of k on its way. */
typedef struct pairs_unit {
    int64_t row, rows, col, cols;
    int64_t k, depth; /* first number of the block; its pairs */
    int64_t numbers;  /* of k in the block: an odd one at the end has a zero beside it */
    uint32_t *a_block, *b_block;
    float *sums;
} pairs_unit;

static int64_t pairs_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- packing -------------------------------------------------------------------------- */

/* Two neighbours of a line of k in each word. */
static void pairs_along(const float *x, int64_t numbers, uint32_t *out)
{
    uint16_t *to = (uint16_t *)(void *)out;
    V_LOOP(numbers, 0, v_store_words(to + i, count, pair_round(v_load(x + i, count))));
    if (numbers % 2) to[numbers] = 0;
}

/* Sixteen columns of two lines, side by side; `second` NULL: zeros. `out` has room for sixteen. */
V_INLINE void pairs_across(const float *first, const float *second, int count, uint32_t *out)
{
    const __m256i even = pair_round(v_load(first, count));
    const __m256i odd = second ? pair_round(v_load(second, count)) : _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Lines that lie far apart: no hardware prefetcher follows. */
V_INLINE void pairs_ask(const float *line, int64_t floats)
{
    for (int64_t i = 0; i < floats; i += FV_LINE)
        _mm_prefetch((const void *)(line + i), _MM_HINT_T0);
}

/* Neither step is 1: one number at a time. */
static uint32_t pairs_at(const float *x, int64_t step, bool both)
{
    const uint32_t low = fv_f32_to_bf16(x[0]);
    return both ? low | (uint32_t)fv_f32_to_bf16(x[step]) << 16 : low;
}

/* A with contiguous columns into strips, [rows/6][pairs][6]. */
static void pairs_pack_strips(const float *a, int64_t a_col, int64_t rows, const pairs_unit *u,
                              uint32_t *out)
{
    _Alignas(64) uint32_t line[FV_PAIRS_ROWS];
    for (int64_t pair = 0; pair < u->depth; pair++) {
        const float *first = a + 2 * pair * a_col;
        const float *second = 2 * pair + 1 < u->numbers ? first + a_col : NULL;
        if (2 * (pair + PAIRS_AHEAD) + 1 < u->numbers) {
            pairs_ask(first + 2 * PAIRS_AHEAD * a_col, rows);
            pairs_ask(first + (2 * PAIRS_AHEAD + 1) * a_col, rows);
        }
        V_LOOP(rows, 0, pairs_across(first + i, second ? second + i : NULL, count, line + i));
        for (int64_t row = 0; row < rows; row += FV_GEMM_STRIP)
            memcpy(out + row * u->depth + pair * FV_GEMM_STRIP, line + row,
                   FV_GEMM_STRIP * sizeof *line);
    }
}

/* `rows` rows of A from row `row` of the unit on; the tile's steps between rows and pairs. */
static void pairs_pack_a(const pairs_job *j, const pairs_unit *u, int64_t row, int64_t rows,
                         pair_tile *t)
{
    const fv_gemm *g = j->g;
    const float *a = j->a + (u->row + row) * g->a_row + u->k * g->a_col;
    t->a_row = u->depth;
    t->a_col = 1;
    if (g->a_row == 1 && g->a_col != 1) {
        pairs_pack_strips(a, g->a_col, rows, u, u->a_block);
        t->a_row = 1;
        t->a_col = FV_GEMM_STRIP;
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        uint32_t *out = u->a_block + i * u->depth;
        const float *from = a + i * g->a_row;
        if (g->a_col == 1)
            pairs_along(from, u->numbers, out);
        else
            for (int64_t pair = 0; pair < u->depth; pair++)
                out[pair] =
                    pairs_at(from + 2 * pair * g->a_col, g->a_col, 2 * pair + 1 < u->numbers);
    }
}

/* B with contiguous rows. */
static void pairs_pack_rows(const float *b, int64_t b_row, const pairs_unit *u)
{
    for (int64_t pair = 0; pair < u->depth; pair++) {
        const float *first = b + 2 * pair * b_row;
        const float *second = 2 * pair + 1 < u->numbers ? first + b_row : NULL;
        if (2 * (pair + PAIRS_AHEAD) + 1 < u->numbers) {
            pairs_ask(first + 2 * PAIRS_AHEAD * b_row, u->cols);
            pairs_ask(first + (2 * PAIRS_AHEAD + 1) * b_row, u->cols);
        }
        V_LOOP(u->cols, 0,
               pairs_across(first + i, second ? second + i : NULL, count,
                            u->b_block + i / FV_TILE_COLS * FV_TILE_COLS * u->depth +
                                pair * FV_TILE_COLS + i % FV_TILE_COLS));
    }
}

/* B with contiguous columns: sixteen pairs of each column of a panel, then turned. */
static void pairs_pack_columns(const float *b, int64_t b_col, const pairs_unit *u)
{
    _Alignas(64) uint32_t part[FV_TILE_COLS * FV_LANES];
    for (int64_t col = 0; col < u->cols; col += FV_TILE_COLS) {
        const int64_t cols = pairs_smaller(FV_TILE_COLS, u->cols - col);
        uint32_t *panel = u->b_block + col * u->depth;
        for (int64_t pair = 0; pair < u->depth; pair += FV_LANES) {
            const int64_t numbers = pairs_smaller(2 * FV_LANES, u->numbers - 2 * pair);
            for (int64_t i = 0; i < cols; i++) {
                const float *from = b + (col + i) * b_col + 2 * pair;
                if (2 * pair + 4 * FV_LANES <= u->numbers)
                    pairs_ask(from + 2 * FV_LANES, 2 * FV_LANES);
                pairs_along(from, numbers, part + i * FV_LANES);
            }
            fv_gemm_pack_b((numbers + 1) / 2, cols, (const float *)(const void *)part, 1, FV_LANES,
                           FV_TILE_COLS, (float *)(void *)(panel + pair * FV_TILE_COLS));
        }
    }
}

static void pairs_pack_b(const pairs_job *j, const pairs_unit *u)
{
    const fv_gemm *g = j->g;
    const float *b = j->b + u->k * g->b_row + u->col * g->b_col;
    const int64_t whole = u->cols / FV_TILE_COLS * FV_TILE_COLS;
    if (whole < u->cols) /* zeros past the last column of a panel */
        memset(u->b_block + whole * u->depth, 0,
               (size_t)(u->depth * FV_TILE_COLS) * sizeof *u->b_block);
    if (g->b_col == 1) {
        pairs_pack_rows(b, g->b_row, u);
    } else if (g->b_row == 1) {
        pairs_pack_columns(b, g->b_col, u);
    } else {
        for (int64_t col = 0; col < u->cols; col++)
            for (int64_t pair = 0; pair < u->depth; pair++)
                u->b_block[col / FV_TILE_COLS * FV_TILE_COLS * u->depth + pair * FV_TILE_COLS +
                           col % FV_TILE_COLS] = pairs_at(b + 2 * pair * g->b_row + col * g->b_col,
                                                          g->b_row, 2 * pair + 1 < u->numbers);
    }
}

/* ---- strips --------------------------------------------------------------------------- */

static bool pairs_has_epilogue(const pairs_job *j) { return j->bias || j->residual || j->g->act; }

/* Where sums wait between blocks of k: in C, unless C holds the residual that is still needed. */
typedef struct pairs_sums {
    float *base;
    int64_t row;
} pairs_sums;

static pairs_sums pairs_waiting(const pairs_job *j, const pairs_unit *u)
{
    if (j->residual && j->plan.depth < j->plan.pairs)
        return (pairs_sums){u->sums, j->plan.panels * FV_GEMM_PANEL};
    return (pairs_sums){j->c + u->row * j->g->c_row + u->col, j->g->c_row};
}

/* A few columns that are not a whole tile's, between C and a tile. */
static void pairs_move(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                       int64_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + i * to_row, from + i * from_row, (size_t)cols * sizeof *to);
}

/* Rows [row, row + rows) of the unit against every panel of the block; t holds A. */
static void pairs_strip(const pairs_job *j, const pairs_unit *u, int64_t row, int rows,
                        pair_tile *t)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float buffer[FV_GEMM_STRIP * FV_TILE_COLS];
    const pairs_sums sums = pairs_waiting(j, u);
    float *waiting = sums.base + row * sums.row;
    float *c = j->c + (u->row + row) * g->c_row + u->col;
    const bool first = u->k == 0, last = u->k + u->numbers == g->k;
    const bool finish = last && pairs_has_epilogue(j);
    for (int64_t col = 0; col < u->cols; col += FV_TILE_COLS) {
        const int64_t cols = pairs_smaller(FV_TILE_COLS, u->cols - col);
        const bool part = cols < FV_TILE_COLS, start = first && !g->accumulate;
        t->b = u->b_block + col * u->depth;
        t->from = start ? NULL : waiting + col;
        t->from_row = sums.row;
        if (part && !start) {
            pairs_move(waiting + col, sums.row, buffer, FV_TILE_COLS, rows, cols);
            t->from = buffer;
            t->from_row = FV_TILE_COLS;
        }
        t->c = part || finish ? buffer : waiting + col;
        t->c_row = part || finish ? FV_TILE_COLS : sums.row;
        pair_tile_run(t, rows);
        if (finish) {
            const fv_finish f = {.act = g->act,
                                 .bias = j->bias ? j->bias + u->col + col : NULL,
                                 .residual = j->residual ? j->residual + u->col + col +
                                                               (u->row + row) * g->residual_row
                                                         : NULL,
                                 .residual_row = g->residual_row};
            fv_gemm_finish(&f, buffer, FV_TILE_COLS, c + col, g->c_row, rows, cols);
        } else if (part) {
            pairs_move(buffer, FV_TILE_COLS, waiting + col, sums.row, rows, cols);
        }
    }
}

/* One block of k. */
static void pairs_block(const pairs_job *j, const pairs_unit *u)
{
    pair_tile t = {.pairs = u->depth};
    pairs_pack_b(j, u);
    for (int64_t begin = 0; begin < u->rows; begin += FV_PAIRS_ROWS) {
        const int64_t end = pairs_smaller(u->rows, begin + FV_PAIRS_ROWS);
        pairs_pack_a(j, u, begin, end - begin, &t);
        for (int64_t row = begin; row < end; row += FV_GEMM_STRIP) {
            t.a = u->a_block + (row - begin) * u->depth;
            pairs_strip(j, u, row, (int)pairs_smaller(FV_GEMM_STRIP, end - row), &t);
        }
    }
}

static void pairs_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const pairs_job *j = arg;
    const fv_pairs_plan *p = &j->plan;
    const fv_gemm *g = j->g;
    for (int64_t i = begin; i < end; i++) {
        pairs_unit u = {.row = i % p->row_units * p->rows,
                        .col = i / p->row_units * p->panels * FV_GEMM_PANEL};
        u.rows = pairs_smaller(p->rows, g->m - u.row);
        u.cols = pairs_smaller(p->panels * FV_GEMM_PANEL, g->n - u.col);
        u.a_block = j->scratch + thread * (p->a_words + p->b_words + p->sum_floats);
        u.b_block = u.a_block + p->a_words;
        u.sums = (float *)(void *)(u.b_block + p->b_words);
        do {
            u.numbers = pairs_smaller(2 * p->depth, g->k - u.k);
            u.depth = (u.numbers + 1) / 2;
            pairs_block(j, &u);
            u.k += u.numbers;
        } while (u.k < g->k);
    }
}

static void pairs_gemm(const fv_exec *exec, void *const *ptr, const void *args)
{
    pairs_job j = {.g = args,
                   .c = ptr[0],
                   .a = ptr[1],
                   .b = ptr[2],
                   .bias = ptr[3],
                   .residual = ptr[4],
                   .scratch = exec->scratch};
    if (j.g->k == 0) j.a = j.b = j.c; /* never read, and may be NULL, which has no neighbours */
    fv_pairs_make_plan(j.g, exec->threads, &j.plan);
    const int64_t units = j.plan.row_units * j.plan.col_units;
    if (units <= 0) return;
    if (j.plan.serial)
        pairs_units(&j, 0, units, 0);
    else
        exec->parallel(exec->user, units, 1, pairs_units, &j);
}

#endif

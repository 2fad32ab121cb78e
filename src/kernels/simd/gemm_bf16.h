/*
 * The driver of the bf16 product (kernels/gemm_bf16.h): bf16_gemm. The including file defines how
 * pairs are multiplied, with vectors (bf16_tile.h) or AMX tiles (gemm_bf16_tiles.h), and rounded:
 *
 *     enum { BF16_TILE_ROWS, BF16_TILE_COLS };            // the part of C in registers
 *     enum { BF16_STEP };                                 // pairs that are multiplied at once
 *     enum { BF16_WORDS };       // words of a packed pair: 1, or 2 for floats, the second first
 *     bf16_tile, bf16_tile_run(t, rows)
 *     bf16_state, bf16_state_begin(s), bf16_state_end(s)  // of a thread at work
 *     bf16_place_lines(..), bf16_placed_strides(..)       // column-major A
 *     v_words bf16_round(vf x)                            // sixteen floats as bf16
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_H
#define FV_KERNELS_SIMD_GEMM_BF16_H

#include "kernels/gemm_bf16.h"
#include "kernels/half.h"
#include "kernels/simd/gemm_bf16_weights.h"
#include "kernels/simd/half_simd.h"

enum { BF16_AHEAD = 8 /* pairs of rows, prefetched before they are packed */ };

/* Functions with buffers, which would add up in one stack frame. */
#define BF16_APART __attribute__((noinline))

typedef struct bf16_job {
    const fv_gemm *g;
    fv_gemm_bf16_plan plan;
    void *c;
    const void *a, *b, *residual; /* like C and aux: floats, or bf16 as the flags say */
    const float *bias;
    void *aux; /* what g->aux says, or NULL; sums of rows are floats */
    bool a_half, b_half, c_half;
    uint32_t *scratch;
} bf16_job;

/* The part of C that a work item computes, and the current block of k. */
typedef struct bf16_item {
    int64_t row, rows, col, cols;
    int64_t k, pairs; /* first k of the block; number of pairs */
    int64_t depth;    /* pairs, with zeros up to a whole BF16_STEP */
    int64_t numbers;  /* elements of k in the block; an odd last one is paired with zero */
    uint32_t *a_block, *b_block;
    float *sums, *lanes;
    bf16_state *state;
} bf16_item;

static int64_t bf16_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- packing -------------------------------------------------------------------------- */

/* Operands are floats, rounded on their way, or bf16 (`half`); `half` is a compile-time constant of
 * each instance. Elements are counted from the operand's address. */
V_INLINE const char *bf16_at(const void *x, const bool half, int64_t element)
{
    return (const char *)x + element * (half ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}
V_INLINE v_words bf16_load(const void *x, const bool half, int64_t element, int count)
{
    const void *at = bf16_at(x, half, element);
    return half ? v_load_words(at, count) : bf16_round(v_load(at, count));
}

/* Packs consecutive elements along k in pairs. */
V_INLINE void bf16_pack_line(const void *x, const bool half, int64_t numbers, uint32_t *out)
{
    uint16_t *to = (uint16_t *)(void *)out;
    V_LOOP(numbers, 0, v_store_words(to + i, count, bf16_load(x, half, i, count)));
    if (numbers % 2) to[numbers] = 0;
}

/* Packs sixteen columns of two rows, interleaved; `second` NULL: zeros. Writes sixteen words. */
V_INLINE void bf16_interleave(const void *first, const void *second, const bool half, int64_t at,
                              int count, uint32_t *out)
{
    const v_words even = bf16_load(first, half, at, count);
    const v_words odd = second ? bf16_load(second, half, at, count) : v_words_zero();
    v_store_interleaved(out, even, odd);
}

/* Rows far apart: the hardware prefetcher does not follow them. */
V_INLINE void bf16_prefetch(const void *line, const bool half, int64_t elements)
{
    for (int64_t i = 0; i < elements; i += half ? 2 * FV_LINE : FV_LINE)
        fv_prefetch_l1((const void *)bf16_at(line, half, i));
}

/* Neither stride is 1: one element at a time. */
static uint16_t bf16_element(const void *x, bool half, int64_t at)
{
    return half ? ((const uint16_t *)x)[at] : fv_f32_to_bf16(((const float *)x)[at]);
}
static uint32_t bf16_word(const void *x, bool half, int64_t at, int64_t step, bool both)
{
    const uint32_t low = bf16_element(x, half, at);
    return both ? low | (uint32_t)bf16_element(x, half, at + step) << 16 : low;
}

/* Column-major A: packs sixteen pairs of all rows, then lets the tile place them. */
V_INLINE void bf16_pack_column_major(const void *a, const bool half, int64_t a_col, int64_t rows,
                                     const bf16_item *item, uint32_t *out)
{
    _Alignas(64) uint32_t lines[FV_LANES][FV_GEMM_BF16_ROWS];
    for (int64_t pair = 0; pair < item->pairs; pair++) {
        const void *first = bf16_at(a, half, 2 * pair * a_col);
        const void *second =
            2 * pair + 1 < item->numbers ? bf16_at(a, half, (2 * pair + 1) * a_col) : NULL;
        if (2 * (pair + BF16_AHEAD) + 1 < item->numbers) {
            bf16_prefetch(bf16_at(first, half, 2 * BF16_AHEAD * a_col), half, rows);
            bf16_prefetch(bf16_at(first, half, (2 * BF16_AHEAD + 1) * a_col), half, rows);
        }
        const int64_t line = pair % FV_LANES;
        V_LOOP(rows, 0, bf16_interleave(first, second, half, i, count, lines[line] + i));
        if (line + 1 == FV_LANES || pair + 1 == item->pairs)
            bf16_place_lines(lines[0], pair - line, line + 1, rows, item->depth, out);
    }
}

/* Packed panels of B become floats in place, twice as long: from the last line to the first, so
 * that none is overwritten before it is read. */
static void bf16_widen_panels(uint32_t *words, int64_t lines)
{
    uint32_t pairs[BF16_TILE_COLS];
    for (int64_t line = lines - 1; line >= 0; line--) {
        memcpy(pairs, words + line * BF16_TILE_COLS, sizeof pairs);
        fv_gemm_bf16_widen(BF16_TILE_COLS, pairs, words + line * 2 * BF16_TILE_COLS);
    }
}

/* The pairs of a row of A as floats, the second of each first. `pairs` may be the second half of
 * `out`: a part is copied before its place is written. */
static void bf16_widen_row(const uint32_t *pairs, int64_t n, uint32_t *out)
{
    enum { PART = 64 };
    uint32_t part[PART];
    for (int64_t begin = 0; begin < n; begin += PART) {
        const int64_t count = bf16_min(PART, n - begin);
        memcpy(part, pairs + begin, (size_t)count * sizeof *part);
        for (int64_t i = 0; i < count; i++) {
            out[2 * (begin + i)] = part[i] & 0xffff0000u;
            out[2 * (begin + i) + 1] = part[i] << 16;
        }
    }
}

/* Rows of A as the tiles read them: row i starts at base + i * step. */
typedef struct bf16_rows {
    const uint32_t *base;
    int64_t step;
} bf16_rows;

/* Whether the pairs of a row-major bf16 A can be read as aligned words. */
static bool bf16_is_aligned(const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    return j->a_half && g->a_col == 1 && g->a_row % 2 == 0 &&
           item->numbers % (2 * BF16_STEP) == 0 && (uintptr_t)j->a % sizeof(uint32_t) == 0;
}

/* A row of A, packed. */
V_INLINE void bf16_pack_row(const void *a, const bool half, int64_t a_col, const bf16_item *item,
                            uint32_t *out)
{
    if (a_col == 1)
        bf16_pack_line(a, half, item->numbers, out);
    else
        for (int64_t pair = 0; pair < item->pairs; pair++)
            out[pair] = bf16_word(a, half, 2 * pair * a_col, a_col, 2 * pair + 1 < item->numbers);
    memset(out + item->pairs, 0, (size_t)(item->depth - item->pairs) * sizeof *out);
}

/* Packs `rows` rows of A starting at row `row` of the work item, unless they are read in place, and
 * sets the tile's strides of A. */
static BF16_APART bf16_rows bf16_pack_a(const bf16_job *j, const bf16_item *item, int64_t row,
                                        int64_t rows, bf16_tile *t)
{
    const fv_gemm *g = j->g;
    const bool half = j->a_half;
    const void *a = bf16_at(j->a, half, (item->row + row) * g->a_row + item->k * g->a_col);
    t->a_col = 1;
    const bool is_aligned = bf16_is_aligned(j, item);
    if (is_aligned && BF16_WORDS == 1) {
        t->a_row = g->a_row / 2;
        return (bf16_rows){a, t->a_row};
    }
    t->a_row = item->depth * BF16_WORDS;
    if (g->a_row == 1 && g->a_col != 1) {
        if (half)
            bf16_pack_column_major(a, true, g->a_col, rows, item, item->a_block);
        else
            bf16_pack_column_major(a, false, g->a_col, rows, item, item->a_block);
        return (bf16_rows){item->a_block, bf16_placed_strides(t, rows, item->depth)};
    }
    for (int64_t i = 0; i < rows; i++) {
        /* Floats: packed into the second half of their place, unless they need no packing. */
        uint32_t *out = item->a_block + i * t->a_row, *words = out + t->a_row - item->depth;
        const void *from = bf16_at(a, half, i * g->a_row);
        if (!is_aligned && half)
            bf16_pack_row(from, true, g->a_col, item, words);
        else if (!is_aligned)
            bf16_pack_row(from, false, g->a_col, item, words);
        if (BF16_WORDS == 2) bf16_widen_row(is_aligned ? from : words, item->depth, out);
    }
    return (bf16_rows){item->a_block, t->a_row};
}

/* Row-major B. */
V_INLINE void bf16_pack_rows(const void *b, const bool half, int64_t b_row, const bf16_item *item)
{
    for (int64_t pair = 0; pair < item->pairs; pair++) {
        const void *first = bf16_at(b, half, 2 * pair * b_row);
        const void *second =
            2 * pair + 1 < item->numbers ? bf16_at(b, half, (2 * pair + 1) * b_row) : NULL;
        if (2 * (pair + BF16_AHEAD) + 1 < item->numbers) {
            bf16_prefetch(bf16_at(first, half, 2 * BF16_AHEAD * b_row), half, item->cols);
            bf16_prefetch(bf16_at(first, half, (2 * BF16_AHEAD + 1) * b_row), half, item->cols);
        }
        V_LOOP(item->cols, 0,
               bf16_interleave(first, second, half, i, count,
                               item->b_block + i / BF16_TILE_COLS * BF16_TILE_COLS * item->depth +
                                   pair * BF16_TILE_COLS + i % BF16_TILE_COLS));
    }
}

/* Column-major bf16 B whose pairs are aligned words: transposes them from where they are. */
static void bf16_pack_aligned_columns(const uint32_t *b, int64_t b_col, const bf16_item *item)
{
    for (int64_t col = 0; col < item->cols; col += BF16_TILE_COLS) {
        const int64_t cols = bf16_min(BF16_TILE_COLS, item->cols - col);
        uint32_t *panel = item->b_block + col * item->depth;
        for (int64_t pair = 0; pair < item->pairs; pair += FV_LANES) {
            const uint32_t *from = b + col * b_col + pair;
            const int64_t pairs = bf16_min(FV_LANES, item->pairs - pair);
            if (pair + FV_LANES < item->pairs)
                for (int64_t i = 0; i < cols; i++)
                    fv_prefetch_l1(from + i * b_col + FV_LANES);
            fv_gemm_pack_b(pairs, cols, (const float *)(const void *)from, 1, b_col, BF16_TILE_COLS,
                           (float *)(void *)(panel + pair * BF16_TILE_COLS));
        }
    }
}

/* Column-major B: packs sixteen pairs of each column of a panel, then transposes them. */
V_INLINE void bf16_pack_columns(const void *b, const bool half, int64_t b_col,
                                const bf16_item *item)
{
    _Alignas(64) uint32_t part[BF16_TILE_COLS * FV_LANES];
    for (int64_t col = 0; col < item->cols; col += BF16_TILE_COLS) {
        const int64_t cols = bf16_min(BF16_TILE_COLS, item->cols - col);
        uint32_t *panel = item->b_block + col * item->depth;
        for (int64_t pair = 0; pair < item->pairs; pair += FV_LANES) {
            const int64_t numbers = bf16_min(2 * FV_LANES, item->numbers - 2 * pair);
            for (int64_t i = 0; i < cols; i++) {
                const void *from = bf16_at(b, half, (col + i) * b_col + 2 * pair);
                if (2 * pair + 4 * FV_LANES <= item->numbers)
                    bf16_prefetch(bf16_at(from, half, 2 * FV_LANES), half, 2 * FV_LANES);
                bf16_pack_line(from, half, numbers, part + i * FV_LANES);
            }
            fv_gemm_pack_b((numbers + 1) / 2, cols, (const float *)(const void *)part, 1, FV_LANES,
                           BF16_TILE_COLS, (float *)(void *)(panel + pair * BF16_TILE_COLS));
        }
    }
}

/* B with neither stride 1. */
static void bf16_pack_elements(const void *b, const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    for (int64_t col = 0; col < item->cols; col++)
        for (int64_t pair = 0; pair < item->pairs; pair++)
            item->b_block[col / BF16_TILE_COLS * BF16_TILE_COLS * item->depth +
                          pair * BF16_TILE_COLS + col % BF16_TILE_COLS] =
                bf16_word(b, j->b_half, 2 * pair * g->b_row + col * g->b_col, g->b_row,
                          2 * pair + 1 < item->numbers);
}

/* Packed weights, whose last panel is a whole one. */
static void bf16_pack_weights(const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    for (int64_t col = 0; col < item->cols; col += FV_GEMM_PANEL)
        fv_weights_as_pairs(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, item->col + col),
                            item->k, item->numbers, BF16_TILE_COLS, item->depth,
                            item->b_block + col * item->depth);
}

static void bf16_pack_matrix(const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    const void *b = bf16_at(j->b, j->b_half, item->k * g->b_row + item->col * g->b_col);
    const int64_t whole = item->cols / BF16_TILE_COLS * BF16_TILE_COLS;
    if (whole < item->cols) /* zeros past the last column of a panel */
        memset(item->b_block + whole * item->depth, 0,
               (size_t)(item->depth * BF16_TILE_COLS) * sizeof *item->b_block);
    for (int64_t col = 0; col < whole; col += BF16_TILE_COLS) /* and past its last pair */
        memset(item->b_block + col * item->depth + item->pairs * BF16_TILE_COLS, 0,
               (size_t)((item->depth - item->pairs) * BF16_TILE_COLS) * sizeof *item->b_block);
    if (g->b_col == 1 && j->b_half)
        bf16_pack_rows(b, true, g->b_row, item);
    else if (g->b_col == 1)
        bf16_pack_rows(b, false, g->b_row, item);
    else if (g->b_row == 1 && j->b_half && g->b_col % 2 == 0 && item->numbers % 2 == 0 &&
             (uintptr_t)b % sizeof(uint32_t) == 0)
        bf16_pack_aligned_columns(b, g->b_col / 2, item);
    else if (g->b_row == 1 && j->b_half)
        bf16_pack_columns(b, true, g->b_col, item);
    else if (g->b_row == 1)
        bf16_pack_columns(b, false, g->b_col, item);
    else
        bf16_pack_elements(b, j, item);
}

static void bf16_pack_b(const bf16_job *j, const bf16_item *item)
{
    (j->g->b_packed ? bf16_pack_weights : bf16_pack_matrix)(j, item);
    const int64_t panels = (item->cols + BF16_TILE_COLS - 1) / BF16_TILE_COLS;
    if (BF16_WORDS == 2) bf16_widen_panels(item->b_block, panels * item->depth);
}

/* ---- row tiles ------------------------------------------------------------------------- */

static bool bf16_sums_rows(const bf16_job *j) { return j->g->aux == FV_GEMM_AUX_ROW_SUMS; }

static bool bf16_has_epilogue(const bf16_job *j)
{
    return j->bias || j->residual || j->g->act || j->g->b_form == FV_WEIGHT_I8 || j->c_half ||
           (j->aux && !bf16_sums_rows(j));
}

/* Factors for the sums from column `col` of C on; NULL: none. */
static const float *bf16_scales(const bf16_job *j, int64_t col)
{
    const fv_gemm *g = j->g;
    if (g->b_form != FV_WEIGHT_I8) return NULL;
    return fv_weight_scales(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, col)) +
           col % FV_GEMM_PANEL;
}

/* The epilogue for sums starting at row `row` and column `col` of a work item. */
static fv_epilogue bf16_epilogue_at(const bf16_job *j, const bf16_item *item, int64_t row,
                                    int64_t col)
{
    const fv_gemm *g = j->g;
    const int64_t r = item->row + row, c = item->col + col;
    fv_epilogue f = {.act = g->act, .scale = bf16_scales(j, c), .residual_row = g->residual_row};
    if (j->bias) f.bias = j->bias + c;
    if (j->residual) f.residual = (const float *)j->residual + r * g->residual_row + c;
    if (j->aux) fv_epilogue_set_aux(&f, g, j->aux, r, c);
    return f;
}

/* Adds a block of k to the sums of `rows` rows of A, before they are rounded and packed. */
static void bf16_add_row_sums(const bf16_job *j, const bf16_item *item, int64_t row, int64_t rows)
{
    const fv_gemm *g = j->g;
    if (!bf16_sums_rows(j) || item->col > 0) return;
    const fv_row_sums s = {.rows = rows,
                           .a = bf16_at(j->a, j->a_half, (item->row + row) * g->a_row),
                           .bf16 = j->a_half,
                           .a_row = g->a_row,
                           .a_col = g->a_col,
                           .lanes = item->lanes + (item->numbers < g->k ? FV_LANES * row : 0),
                           .out = (float *)j->aux + item->row + row};
    fv_gemm_add_row_sums(&s, item->k, item->numbers);
    if (item->k + item->numbers == g->k) fv_gemm_join_row_sums(&s);
}

/* Where partial sums are kept between blocks of k: in C, unless C is bf16 or holds a residual still
 * needed. Without blocks there are none. */
typedef struct bf16_sums {
    float *base;
    int64_t row;
} bf16_sums;

static bf16_sums bf16_partial_sums(const bf16_job *j, const bf16_item *item)
{
    if ((j->residual || j->c_half) && j->plan.depth < j->plan.pairs)
        return (bf16_sums){item->sums, j->plan.panels * FV_GEMM_PANEL};
    if (j->c_half) return (bf16_sums){NULL, 0};
    return (bf16_sums){(float *)j->c + item->row * j->g->c_row + item->col, j->g->c_row};
}

/* Copies the columns of an incomplete tile between C and a buffer. */
static void bf16_copy(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                      int64_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + i * to_row, from + i * from_row, (size_t)cols * sizeof *to);
}

/* Elements of a row of C, and back. */
static void bf16_widen_rows(const uint16_t *from, int64_t from_row, float *to, int rows,
                            int64_t cols)
{
    for (int row = 0; row < rows; row++)
        V_LOOP(cols, 0,
               v_store(to + row * BF16_TILE_COLS + i, count,
                       v_load_half(FV_BF16, from + row * from_row + i, count)));
}

static void bf16_narrow_rows(const float *from, uint16_t *to, int64_t to_row, int rows,
                             int64_t cols)
{
    for (int row = 0; row < rows; row++)
        V_LOOP(cols, 0,
               v_store_half(FV_BF16, to + row * to_row + i, count,
                            v_load(from + row * BF16_TILE_COLS + i, count)));
}

/* The epilogue of a tile of a bf16 C, at row `row` and column `col` of C. */
static void bf16_store_half(const bf16_job *j, int64_t row, int64_t col, float *sums, int rows,
                            int64_t cols)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float more[BF16_TILE_ROWS * BF16_TILE_COLS];
    _Alignas(64) float aux[BF16_TILE_ROWS * BF16_TILE_COLS];
    const bool has_aux = j->aux && !bf16_sums_rows(j);
    fv_epilogue f = {.act = g->act,
                     .scale = bf16_scales(j, col),
                     .bias = j->bias ? j->bias + col : NULL,
                     .residual_row = BF16_TILE_COLS,
                     .aux = has_aux ? aux : NULL,
                     .aux_row = BF16_TILE_COLS,
                     .aux_after_act = g->aux == FV_GEMM_AUX_ACT};
    if (j->residual) {
        bf16_widen_rows((const uint16_t *)j->residual + row * g->residual_row + col,
                        g->residual_row, more, rows, cols);
        f.residual = more;
    }
    if (f.act || f.scale || f.bias || f.residual || f.aux)
        fv_gemm_apply_epilogue(&f, sums, BF16_TILE_COLS, sums, BF16_TILE_COLS, rows, cols);
    const int64_t at = row * g->c_row + col;
    bf16_narrow_rows(sums, (uint16_t *)j->c + at, g->c_row, rows, cols);
    if (has_aux) bf16_narrow_rows(aux, (uint16_t *)j->aux + at, g->c_row, rows, cols);
}

/* Ends a tile whose sums are in `buffer`. */
static void bf16_finish_tile(const bf16_job *j, const bf16_item *item, int64_t row, int64_t col,
                             float *buffer, int rows, int64_t cols)
{
    const fv_gemm *g = j->g;
    const int64_t r = item->row + row, c = item->col + col;
    if (j->c_half) {
        bf16_store_half(j, r, c, buffer, rows, cols);
        return;
    }
    const fv_epilogue f = bf16_epilogue_at(j, item, row, col);
    fv_gemm_apply_epilogue(&f, buffer, BF16_TILE_COLS, (float *)j->c + r * g->c_row + c, g->c_row,
                           rows, cols);
}

/* Multiplies rows [row, row + rows) of the work item by every panel of the block; t holds A. */
static BF16_APART void bf16_row_tile(const bf16_job *j, const bf16_item *item, int64_t row,
                                     int rows, bf16_tile *t)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float buffer[BF16_TILE_ROWS * BF16_TILE_COLS];
    const bf16_sums sums = bf16_partial_sums(j, item);
    const bool first = item->k == 0, last = item->k + item->numbers == g->k;
    const bool finish = last && bf16_has_epilogue(j), adds_half = first && j->c_half;
    for (int64_t col = 0; col < item->cols; col += BF16_TILE_COLS) {
        const int64_t cols = bf16_min(BF16_TILE_COLS, item->cols - col);
        const bool part = cols < BF16_TILE_COLS, start = first && !g->accumulate;
        float *partial = sums.base ? sums.base + row * sums.row + col : NULL;
        t->b = item->b_block + col * item->depth * BF16_WORDS;
        t->from = start ? NULL : partial;
        t->from_row = sums.row;
        if (!start && (part || adds_half)) {
            if (adds_half)
                bf16_widen_rows((const uint16_t *)j->c + (item->row + row) * g->c_row + item->col +
                                    col,
                                g->c_row, buffer, rows, cols);
            else
                bf16_copy(partial, sums.row, buffer, BF16_TILE_COLS, rows, cols);
            t->from = buffer;
            t->from_row = BF16_TILE_COLS;
        }
        t->c = part || finish ? buffer : partial;
        t->c_row = part || finish ? BF16_TILE_COLS : sums.row;
        bf16_tile_run(t, rows);
        if (finish)
            bf16_finish_tile(j, item, row, col, buffer, rows, cols);
        else if (part)
            bf16_copy(buffer, BF16_TILE_COLS, partial, sums.row, rows, cols);
    }
}

/* One block of k. */
static void bf16_block(const bf16_job *j, const bf16_item *item)
{
    bf16_tile t = {.state = item->state, .words = item->depth * BF16_WORDS};
    bf16_pack_b(j, item);
    for (int64_t begin = 0; begin < item->rows; begin += FV_GEMM_BF16_ROWS) {
        const int64_t end = bf16_min(item->rows, begin + FV_GEMM_BF16_ROWS);
        bf16_add_row_sums(j, item, begin, end - begin);
        const bf16_rows a = bf16_pack_a(j, item, begin, end - begin, &t);
        for (int64_t row = begin; row < end; row += BF16_TILE_ROWS) {
            t.a = a.base + (row - begin) * a.step;
            bf16_row_tile(j, item, row, (int)bf16_min(BF16_TILE_ROWS, end - row), &t);
        }
    }
}

static void bf16_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const bf16_job *j = arg;
    const fv_gemm_bf16_plan *p = &j->plan;
    const fv_gemm *g = j->g;
    bf16_state state;
    bf16_state_begin(&state);
    for (int64_t i = begin; i < end; i++) {
        bf16_item item = {.state = &state,
                          .row = i % p->row_items * p->rows,
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
            item.pairs = (item.numbers + 1) / 2;
            item.depth = (item.pairs + BF16_STEP - 1) / BF16_STEP * BF16_STEP;
            bf16_block(j, &item);
            item.k += item.numbers;
        } while (item.k < g->k);
    }
    bf16_state_end(&state);
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
                  .a_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_A,
                  .b_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_B,
                  .c_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_C,
                  .scratch = exec->scratch};
    /* Never read, and may be NULL, to which no offset may be added. */
    if (j.g->k == 0) j.a = j.c;
    if (j.g->k == 0 && j.g->b_form == FV_WEIGHT_F32) j.b = j.c;
    fv_gemm_bf16_make_plan(j.g, exec->threads, BF16_WORDS, &j.plan);
    const int64_t items = j.plan.row_items * j.plan.column_items;
    if (items <= 0) return;
    if (j.plan.serial)
        bf16_items(&j, 0, items, 0);
    else
        exec->parallel(exec->user, items, 1, bf16_items, &j);
}

#endif

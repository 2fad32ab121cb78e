/*
 * The operands of a bf16 product as words of two bf16 (kernels/gemm_bf16.h), for the driver
 * (simd/gemm_bf16.h): the job, its work items, and the packing of A and B.
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_PACK_H
#define FV_KERNELS_SIMD_GEMM_BF16_PACK_H

#include "kernels/gemm_bf16.h"
#include "kernels/half.h"
#include "kernels/simd/gemm_bf16_weights.h"
#include "kernels/simd/half_simd.h"

/* Functions with buffers or many registers, which would add up in one frame. */
#define BF16_APART __attribute__((noinline))

enum { BF16_AHEAD = 8 /* pairs of rows, prefetched before they are packed */ };

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

#endif

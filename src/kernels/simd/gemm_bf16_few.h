/*
 * bf16 products of at most FV_GEMM_TILE_ROWS rows with packed weights: reading the weights bounds
 * them, so panels are read in place and widened in registers, as in gemm_low_precision.c. Sums have
 * the order of the file's tiles. The including file defines
 *
 *     enum { BF16_FEW_WORDS };    // of a packed pair of A: 1, or 2 for floats, the second first
 *     enum { BF16_FEW_SUMS };     // parts that fit into registers
 *     bf16_pair, bf16_pair_of(first, second)     // two rows of B: floats that are bf16 numbers,
 *     bf16_pair_of_words(words)                  // or words of two bf16
 *     bf16_part bf16_part_begin(sum), bf16_part_add(part, a, pair), bf16_part_end(part, sum)
 *                                                // BF16_STEP pairs of a sum
 *     bf16_mode bf16_mode_begin(), bf16_mode_end(mode)       // of the float unit
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_FEW_H
#define FV_KERNELS_SIMD_GEMM_BF16_FEW_H

#include "kernels/gemm_bf16.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

/* All k of a panel. A: rows of words, with zeros up to a whole BF16_STEP. */
typedef struct bf16_few {
    int64_t k;
    const uint32_t *a;
    int64_t a_row;
    const char *panel;
    float *sum; /* [panel/BF16_TILE_COLS][FV_GEMM_TILE_ROWS][BF16_TILE_COLS], written */
} bf16_few;

FV_INLINE bf16_pair bf16_few_load(const void *first, const void *second, fv_weight_form form,
                                  int col)
{
    if (form == FV_WEIGHT_I8)
        return bf16_pair_of(fv_vec_load_i8((const signed char *)first + col),
                            fv_vec_load_i8((const signed char *)second + col));
    return bf16_pair_of_words(fv_words_load((const uint32_t *)first + col));
}

/* `form`, `rows` and `vecs` are compile-time constants, chosen so that the sums stay in registers.
 */
FV_INSTANCE void bf16_few_sums(const bf16_few *t, fv_weight_form form, const int rows,
                               const int vecs, int begin)
{
    static const uint32_t none[FV_GEMM_PANEL]; /* past the last row */
    const bool i8 = form == FV_WEIGHT_I8;
    const int64_t lines = i8 ? t->k : (t->k + 1) / 2;
    const int64_t step = i8 ? FV_GEMM_PANEL : FV_GEMM_PANEL * (int64_t)sizeof(uint32_t);
    const char *b = t->panel + (i8 ? FV_I8_SCALE_BYTES : 0);
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_GEMM_PANEL / FV_VEC];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_zero();
    }
    const uint32_t *a = t->a;
    for (int64_t line = 0; line < lines;) {
        bf16_part part[FV_GEMM_TILE_ROWS][FV_GEMM_PANEL / FV_VEC];
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                part[i][v] = bf16_part_begin(sum[i][v]);
        }
        for (int pair = 0; pair < BF16_STEP; pair++, a += BF16_FEW_WORDS) {
            const void *first = line < lines ? b + line * step : (const char *)none;
            const void *second = line + 1 < lines ? b + (line + 1) * step : (const char *)none;
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                const bf16_pair w = bf16_few_load(first, second, form, begin + v * FV_VEC);
                FV_UNROLL
                for (int i = 0; i < rows; i++)
                    part[i][v] = bf16_part_add(part[i][v], a + i * t->a_row, w);
            }
            line += i8 ? 2 : 1;
        }
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                sum[i][v] = bf16_part_end(part[i][v], sum[i][v]);
        }
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const int col = begin + v * FV_VEC;
            fv_vec_store(t->sum + (col / BF16_TILE_COLS * FV_GEMM_TILE_ROWS + i) * BF16_TILE_COLS +
                             col % BF16_TILE_COLS,
                         sum[i][v]);
        }
    }
}

/* Vectors of columns processed together. */
enum { BF16_FEW_MOST = FV_GEMM_PANEL / FV_VEC < 8 ? FV_GEMM_PANEL / FV_VEC : 8 };
#define BF16_FEW_FIT(rows)                                                                         \
    (BF16_FEW_SUMS / (rows) >= 8   ? 8                                                             \
     : BF16_FEW_SUMS / (rows) >= 4 ? 4                                                             \
     : BF16_FEW_SUMS / (rows) >= 2 ? 2                                                             \
                                   : 1)
#define BF16_FEW_VECS(rows)                                                                        \
    (BF16_FEW_FIT(rows) < (int)BF16_FEW_MOST ? BF16_FEW_FIT(rows) : (int)BF16_FEW_MOST)

#define BF16_FEW_ROWS(rows)                                                                        \
    static BF16_APART void bf16_few_##rows(const bf16_few *t, fv_weight_form form)                 \
    {                                                                                              \
        for (int col = 0; col < FV_GEMM_PANEL; col += BF16_FEW_VECS(rows) * FV_VEC) {              \
            if (form == FV_WEIGHT_I8)                                                              \
                bf16_few_sums(t, FV_WEIGHT_I8, rows, BF16_FEW_VECS(rows), col);                    \
            else                                                                                   \
                bf16_few_sums(t, FV_WEIGHT_BF16, rows, BF16_FEW_VECS(rows), col);                  \
        }                                                                                          \
    }
BF16_FEW_ROWS(1)
BF16_FEW_ROWS(2)
BF16_FEW_ROWS(3)
BF16_FEW_ROWS(4)
BF16_FEW_ROWS(5)
BF16_FEW_ROWS(6)

/* rows 1..FV_GEMM_TILE_ROWS. */
static void bf16_few_run(const bf16_few *t, fv_weight_form form, int rows)
{
    static void (*const by_rows[FV_GEMM_TILE_ROWS])(const bf16_few *, fv_weight_form) = {
        bf16_few_1, bf16_few_2, bf16_few_3, bf16_few_4, bf16_few_5, bf16_few_6};
    const bf16_mode mode = bf16_mode_begin();
    by_rows[rows - 1](t, form);
    bf16_mode_end(mode);
}

#endif

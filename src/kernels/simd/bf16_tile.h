/*
 * Six rows by a few vectors of C in registers, over pairs of bf16 (kernels/gemm_bf16.h). The
 * including file defines how pairs are multiplied:
 *
 *     enum { BF16_PASSES };                                // passes over a pair, 1 or 2
 *     bf16_vec bf16_operand(fv_words words, int pass)      // the part of each pair for a pass
 *     fv_vec bf16_add(fv_vec sum, bf16_vec x, bf16_vec y)
 */
#ifndef FV_KERNELS_SIMD_BF16_TILE_H
#define FV_KERNELS_SIMD_BF16_TILE_H

#include "kernels/gemm_bf16.h"

enum { BF16_TILE_ROWS = FV_GEMM_TILE_ROWS, BF16_TILE_COLS = FV_TILE_COLS, BF16_STEP = 1 };

/* Vector registers need no preparation. */
typedef struct bf16_state {
    char unused;
} bf16_state;
static void bf16_state_begin(bf16_state *s) { s->unused = 0; }
static void bf16_state_end(bf16_state *s) { (void)s; }

/* c(i,j) = from(i,j) + sum over pairs of a(i,p) . b(p,j), for all FV_TILE_COLS columns. */
typedef struct bf16_tile {
    bf16_state *state;
    int64_t pairs;
    const uint32_t *a;
    int64_t a_row, a_col;
    const uint32_t *b; /* [pairs][FV_TILE_COLS] */
    const float *from; /* NULL: the sums start at 0; may be c */
    int64_t from_row;
    float *c;
    int64_t c_row;
} bf16_tile;

/* `rows` is a compile-time constant of each instance. */
FV_INSTANCE void bf16_tile_of(const bf16_tile *t, const int rows)
{
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_TILE_VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            sum[i][v] =
                t->from ? fv_vec_load(t->from + i * t->from_row + v * FV_VEC) : fv_vec_zero();
    }
    /* Two pointers reach six rows with scaled-index addressing. */
    const uint32_t *a = t->a, *a3 = t->a + 3 * a_row, *b = t->b;
    for (int64_t pair = t->pairs; pair > 0; pair--) {
        FV_UNROLL
        for (int pass = 0; pass < BF16_PASSES; pass++) {
            bf16_vec row[FV_TILE_VECS];
            FV_UNROLL
            for (int v = 0; v < FV_TILE_VECS; v++)
                row[v] = bf16_operand(fv_words_load(b + v * FV_VEC), pass);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                const uint32_t *at = i < 3 ? a + i * a_row : a3 + (i - 3) * a_row;
                const bf16_vec x = bf16_operand(fv_words_set(*at), pass);
                FV_UNROLL
                for (int v = 0; v < FV_TILE_VECS; v++)
                    sum[i][v] = bf16_add(sum[i][v], x, row[v]);
            }
        }
        a += a_col;
        a3 += a_col;
        b += FV_TILE_COLS;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

#define BF16_TILE(rows)                                                                            \
    static void pair_tile_##rows(const bf16_tile *t) { bf16_tile_of(t, rows); }
BF16_TILE(1)
BF16_TILE(2)
BF16_TILE(3)
BF16_TILE(4)
BF16_TILE(5)
BF16_TILE(6)

/* rows 1..FV_GEMM_TILE_ROWS. */
static void bf16_tile_run(const bf16_tile *t, int rows)
{
    static void (*const by_rows[FV_GEMM_TILE_ROWS])(const bf16_tile *) = {
        pair_tile_1, pair_tile_2, pair_tile_3, pair_tile_4, pair_tile_5, pair_tile_6};
    by_rows[rows - 1](t);
}

/* Column-major A in row tiles, [rows/6][pairs][6]: pairs [pair, pair + pairs) of `rows` rows, from
 * lines of FV_GEMM_BF16_ROWS words. */
static void bf16_place_lines(const uint32_t *lines, int64_t pair, int64_t pairs, int64_t rows,
                             int64_t depth, uint32_t *out)
{
    for (int64_t p = 0; p < pairs; p++)
        for (int64_t row = 0; row < rows; row += FV_GEMM_TILE_ROWS)
            memcpy(out + row * depth + (pair + p) * FV_GEMM_TILE_ROWS,
                   lines + p * FV_GEMM_BF16_ROWS + row, FV_GEMM_TILE_ROWS * sizeof *out);
}
/* The strides of such an A; returns the distance of two rows. */
static int64_t bf16_placed_strides(bf16_tile *t, int64_t rows, int64_t depth)
{
    (void)rows;
    t->a_row = 1;
    t->a_col = FV_GEMM_TILE_ROWS;
    return depth;
}

#endif

/*
 * Tiles in vector registers: six rows by a few vectors of C, over words of two bf16 or of one float
 * (kernels/gemm_bf16.h). The including file defines
 *
 *     enum { BF16_WORDS };      // words of a packed pair: 1, or 2 for floats, the second first
 *     bf16_tile_run(t, rows)    // rows 1..FV_GEMM_TILE_ROWS
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

/* c(i,j) = from(i,j) + sum over words of a(i,w) . b(w,j), for all FV_TILE_COLS columns. */
typedef struct bf16_tile {
    bf16_state *state;
    int64_t words; /* of a row of A */
    const uint32_t *a;
    int64_t a_row, a_col;
    const uint32_t *b; /* [words][FV_TILE_COLS] */
    const float *from; /* NULL: the sums start at 0; may be c */
    int64_t from_row;
    float *c;
    int64_t c_row;
} bf16_tile;

/* Column-major A in row tiles, [rows/6][words][6]: pairs [pair, pair + pairs) of `rows` rows, from
 * lines of FV_GEMM_BF16_ROWS words. */
static void bf16_place_lines(const uint32_t *lines, int64_t pair, int64_t pairs, int64_t rows,
                             int64_t depth, uint32_t *out)
{
    for (int64_t p = 0; p < pairs; p++)
        for (int64_t row = 0; row < rows; row += FV_GEMM_TILE_ROWS) {
            const uint32_t *from = lines + p * FV_GEMM_BF16_ROWS + row;
            uint32_t *to = out + (row * depth + (pair + p) * FV_GEMM_TILE_ROWS) * BF16_WORDS;
            if (BF16_WORDS == 1)
                memcpy(to, from, FV_GEMM_TILE_ROWS * sizeof *to);
            else
                fv_gemm_bf16_widen(FV_GEMM_TILE_ROWS, from, to);
        }
}
/* The strides of such an A; returns the distance of two rows. */
static int64_t bf16_placed_strides(bf16_tile *t, int64_t rows, int64_t depth)
{
    (void)rows;
    t->a_row = 1;
    t->a_col = FV_GEMM_TILE_ROWS;
    return depth * BF16_WORDS;
}

/* Few rows times packed weights (gemm_bf16_few.h): a pair is added to the sum itself, and the float
 * unit works as ever. */
typedef fv_vec bf16_part;
FV_INLINE bf16_part bf16_part_begin(fv_vec sum) { return sum; }
FV_INLINE fv_vec bf16_part_end(bf16_part part, fv_vec sum)
{
    (void)sum;
    return part;
}
typedef struct bf16_mode {
    char unused;
} bf16_mode;
static bf16_mode bf16_mode_begin(void) { return (bf16_mode){0}; }
static void bf16_mode_end(bf16_mode mode) { (void)mode; }

#endif

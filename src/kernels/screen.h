/*
 * The first largest of W a + b for each row a, without making all of it: products of 8-bit numbers
 * with bounds on their errors leave a few columns of which it must be one, and those few are made
 * in float, as the product of fovea/gemm.h makes them. So the answer is that of the float product,
 * to the bit, for a quarter of the work.
 *
 * With a = â + da and w = ŵ + dw, both in steps of their own scale (127 to either side of 0),
 *
 *     |a w - â ŵ|  <=  |da| |w| + |â| |dw|          (Cauchy-Schwarz)
 *
 * plus what rounding adds to the float product and to the bounds themselves.
 *
 * SCREEN_PACK ptr: screen (fv_screen_bytes), w [n][k], bias [n] or NULL. args: fv_screen_args; m
 *   and a_row are not used. Every level has it.
 * SCREEN ptr: best (i64 [m]), a, screen, w, bias. args: fv_screen_args. Row i of a is a_row floats
 *   behind row i - 1. best[i] is -1 where the bounds leave too many columns; a NaN among the
 *   products counts as the largest. Only where the CPU multiplies bytes (AVX512_VNNI).
 */
#ifndef FV_KERNELS_SCREEN_H
#define FV_KERNELS_SCREEN_H

#include "kernels/gemm.h"

typedef struct fv_screen_args {
    int64_t m, n, k, a_row;
} fv_screen_args;

enum {
    FV_SCREEN_PANEL = FV_GEMM_PANEL,
    FV_SCREEN_STEP = 4,
    FV_SCREEN_ZERO = 128,
    FV_SCREEN_MOST_K = 1 << 15, /* sums stay within 32 bits */
};

/*
 * A screen, every part in whole panels of columns:
 *   bytes  [panels][ceil(k / 4)][64 columns][4]: ŵ / scale + 128
 *   scale, bias, norm (of w), error (|dw|): [panels][64] floats each. Columns past the last have a
 *   bias of -FLT_MAX; one with a w that is not finite has an endless norm.
 */
typedef struct fv_screen {
    const unsigned char *bytes;
    const float *scale, *bias, *norm, *error;
    int64_t panels, groups; /* groups of four k */
} fv_screen;

/* SIZE_MAX: too wide, or beyond counting. */
size_t fv_screen_bytes(int64_t n, int64_t k);
fv_screen fv_screen_of(const void *screen, int64_t n, int64_t k);

#endif

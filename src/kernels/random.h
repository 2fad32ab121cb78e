/*
 * Random kernels. Element (row, col) depends only on the key, on the row's number and on col: it is
 * word col % 4 of Philox block col / 4 (base/rng.h), the same on every level and device.
 */
#ifndef FV_KERNELS_RANDOM_H
#define FV_KERNELS_RANDOM_H

#include "kernels/draw.h"
#include "kernels/kernel.h"

/* DROPOUT ptr: y, x, numbers (i64 [rows] or NULL); rows x cols contiguous. keep = unit(word) >= p;
 * y = keep ? x/(1-p) : 0. Its backward is the same kernel on g with the same key. */
typedef struct fv_dropout_args {
    int64_t rows, cols;
    fv_draw draw;
    double p;
} fv_dropout_args;

/* RANDOM ptr: out, numbers (i64 [rows] or NULL). uniform: lo + (hi - lo) u. normal: mean lo,
 * deviation hi, Box-Muller on the word pairs (0,1) and (2,3): cos for the even column, sin for the
 * odd one, in double. */
typedef struct fv_random_args {
    int64_t rows, cols;
    fv_draw draw;
    bool normal;
    double lo, hi;
} fv_random_args;

#endif

/*
 * Causal dilated 1-D convolution as a matrix product: windows are first copied to rows.
 */
#ifndef FV_KERNELS_CONV_H
#define FV_KERNELS_CONV_H

#include "kernels/kernel.h"

/*
 * x (batch, channels, length) contiguous; column (c, j) of row (b, t) is x[b, c, t - (k-1-j) d],
 * 0 left of the start.
 * UNFOLD1D ptr: rows (batch, length, channels x k), x
 * FOLD1D ptr: x, rows: x = the sum of what unfold copied from it, j ascending.
 */
typedef struct fv_unfold_args {
    int64_t batch, channels, length, k, dilation;
} fv_unfold_args;

#endif

/*
 * Reductions over any set of axes. Output axes and reduced axes are given separately; out is
 * contiguous over the output axes. The reduced elements are numbered r = 0.. in row-major order of
 * the reduced axes; this order and FV_LANES determine the bits of every sum for any strides. An
 * empty reduction gives sum 0, logsumexp -inf, norm 0, max/min -inf/+inf (the op layer rejects
 * those); arg* are rejected.
 */
#ifndef FV_KERNELS_REDUCE_H
#define FV_KERNELS_REDUCE_H

#include "kernels/kernel.h"

typedef enum fv_reduce {
    FV_REDUCE_SUM, /* alpha x sum: mean is sum with alpha = 1/n */
    FV_REDUCE_MAX, /* NaN wins; ptr[1], if not NULL, receives its first index */
    FV_REDUCE_MIN,
    FV_REDUCE_ARGMAX, /* ptr[0] may be NULL; index of the first maximum (NaN counts as maximum) */
    FV_REDUCE_ARGMIN,
    FV_REDUCE_LOGSUMEXP, /* max-shifted; all -inf gives -inf, any +inf gives +inf, NaN wins */
    FV_REDUCE_NORM,      /* sqrt of the sum of squares (lanes), no rescaling */
    FV_REDUCE_KINDS
} fv_reduce;

typedef struct fv_reduce_args {
    int op;
    int out_rank, red_rank;
    int64_t out_shape[FV_MAX_RANK], out_stride[FV_MAX_RANK]; /* strides of the input */
    int64_t red_shape[FV_MAX_RANK], red_stride[FV_MAX_RANK];
    double alpha; /* factor of SUM: 1/n for a mean */
} fv_reduce_args;

/* Positions in ptr, see below. */
enum { FV_REDUCE_OUT, FV_REDUCE_INDEX, FV_REDUCE_IN };
enum { FV_REDUCE_GRAD_DX, FV_REDUCE_GRAD_G, FV_REDUCE_GRAD_X, FV_REDUCE_GRAD_Y /* or index */ };

/*
 * REDUCE ptr: out (real, contiguous), index (i64 or NULL), in.
 *
 * REDUCE_GRAD ptr: dx (out_stride and red_stride address dx, as for a contiguous x), g (contiguous
 *   over the output axes), x (NULL for SUM, MAX, MIN; same strides as dx), y or index:
 *   SUM: dx = alpha g.  MAX/MIN: ptr[3] = index; dx = g at the index, 0 elsewhere.
 *   LOGSUMEXP: dx = g exp(x - y).  NORM: dx = g x / y, 0 where y is 0.
 *
 * CUMSUM ptr: out, in: contiguous rows (fv_cumsum_args). Running sum in ascending order; with
 *   `reverse` from the end (which is its backward).
 */
typedef struct fv_cumsum_args {
    int64_t rows, cols;
    bool reverse;
} fv_cumsum_args;

#endif

/*
 * Reductions over any set of axes. The output's axes and the reduced axes are
 * given apart; out is contiguous over the output axes. The reduced elements are
 * numbered r = 0.. in row-major order of the reduced axes: that order and
 * FV_LANES fix the bits of every sum, whatever the strides.
 * An empty reduction: sum 0, logsumexp -inf, norm 0, max/min -inf/+inf (the op
 * layer refuses those), arg* refused.
 */
#ifndef FV_KERNELS_REDUCE_H
#define FV_KERNELS_REDUCE_H

#include "kernels/kernel.h"

typedef enum fv_reduce {
    FV_REDUCE_SUM, /* alpha x sum: mean is sum with alpha = 1/n */
    FV_REDUCE_MAX, /* NaN wins; ptr[1], if not NULL, gets the first index of it */
    FV_REDUCE_MIN,
    FV_REDUCE_ARGMAX, /* ptr[0] NULL allowed; index of the first maximum (NaN counts as it) */
    FV_REDUCE_ARGMIN,
    FV_REDUCE_LOGSUMEXP, /* max-shifted; all -inf gives -inf, any +inf gives +inf, NaN wins */
    FV_REDUCE_NORM,      /* sqrt of the sum of squares (lanes), no rescaling */
    FV_REDUCE_COUNT
} fv_reduce;

typedef struct fv_reduce_args {
    int op;
    int out_rank, red_rank;
    int64_t out_shape[FV_MAX_RANK], out_stride[FV_MAX_RANK]; /* strides of the input */
    int64_t red_shape[FV_MAX_RANK], red_stride[FV_MAX_RANK];
    double alpha;
} fv_reduce_args;

/*
 * REDUCE ptr: out (real, contiguous), index (i64 or NULL), in.
 *
 * REDUCE_GRAD ptr: dx (contiguous over the input's own axes, described by the same strides as a
 *   contiguous x would have: out_stride and red_stride address dx), g (contiguous over out axes),
 *   x (NULL for SUM, MAX, MIN; same strides as dx), y-or-index:
 *   SUM: dx = alpha g.  MAX/MIN: ptr[3] = index; dx = g at the index, 0 elsewhere.
 *   LOGSUMEXP: dx = g exp(x - y).  NORM: dx = g x / y, 0 where y is 0.
 *
 * CUMSUM ptr: out, in: contiguous rows (fv_cumsum_args). Plain running sum, ascending; reverse
 *   runs from the end (its own backward).
 */
typedef struct fv_cumsum_args {
    int64_t rows, cols;
    bool reverse;
} fv_cumsum_args;

#endif

/*
 * Kernels over contiguous rows [rows, cols]: softmax, norms, losses, top-k and sampling.
 */
#ifndef FV_KERNELS_ROWS_H
#define FV_KERNELS_ROWS_H

#include "kernels/draw.h"
#include "kernels/kernel.h"

/*
 * SOFTMAX ptr: y, x.  y = exp(x - max) (1 / sum), or with `log`: x - max - ln(sum).
 *   A row of all -inf gives zeros (log: -inf everywhere). A +inf or NaN in the row gives NaN
 *   where IEEE does. In place is allowed.
 * SOFTMAX_GRAD ptr: dx, y, g.
 *   softmax:     dx = y (g - sum(y g))          terms: 0 y g, 1 -y sum
 *   log-softmax: dx = g - exp(y) sum(g)         terms: 0 g, 1 -exp(y) sum
 */
typedef struct fv_softmax_args {
    int64_t rows, cols;
    bool log;
} fv_softmax_args;

/*
 * LAYER_NORM ptr: y, mean (rows), rstd (rows), x, gamma (cols or NULL), beta (cols or NULL)
 *   mean = sum(x)/D; var = sum((x-mean)^2)/D, two passes; rstd = 1/sqrt(var + eps);
 *   y = (x - mean) rstd gamma + beta.     mean and rstd may be NULL.
 * LAYER_NORM_GRAD ptr: dx, g, x, mean, rstd, gamma (or NULL)
 *   with h = (x - mean) rstd and u = g gamma:
 *   dx = rstd (u - mean(u) - h mean(u h))       terms: 0 u, 1 mean(u), 2 h mean(u h)
 * RMS_NORM ptr: y, rrms (rows or NULL), x, gamma (or NULL)
 *   rrms = 1/sqrt(mean(x^2) + eps); y = x rrms gamma
 * RMS_NORM_GRAD ptr: dx, g, x, rrms, gamma (or NULL)
 *   h = x rrms, u = g gamma: dx = rrms (u - h mean(u h))     terms: 0 u, 1 h mean(u h)
 * NORM_PARAM_GRAD ptr: dgamma (or NULL), dbeta (or NULL), g, x, mean (NULL for RMS), rstd
 *   dgamma_j = sum over rows of g h, dbeta_j = sum over rows of g. Rows are the reduced index r
 *   (FV_LANES). `accumulate` adds to what is there.
 */
typedef struct fv_norm_args {
    int64_t rows, cols;
    double eps;
    bool accumulate;
} fv_norm_args;

/*
 * UNIT ptr: y, rnorm (rows), x.     rnorm = 1/sqrt(sum(x^2)), 0 for a row of zeros; y = x rnorm
 * UNIT_GRAD ptr: dx, g, y, rnorm.   dx = rnorm (g - y sum(y g))         terms: 0 g, 1 y sum(y g)
 *   A row of zeros in g gives zeros, whatever y holds.
 */
typedef struct fv_unit_args {
    int64_t rows, cols;
} fv_unit_args;

/*
 * ROTARY ptr: y, x (outer, n, inner, width), table (2, n, rotated / 2): cosines, then sines.
 *   Pair m of row p, (x1, x2) -> (x1 c - x2 s, x2 c + x1 s); with `inverse`, s is negated.
 *   Pairs are columns (m, m + rotated/2), or (2m, 2m+1) if interleaved. Columns from `rotated` on
 *   are copied. In place is allowed.
 */
typedef struct fv_rotary_args {
    int64_t outer, n, inner, width, rotated;
    bool interleaved, inverse;
} fv_rotary_args;

/*
 * CROSS_ENTROPY ptr: loss (rows), lse (rows), logits, target (i64, rows)
 *   loss = (1-s) (lse - x_t) + s (lse - mean(x)), s = smoothing; a row whose target equals
 *   `ignore` gets 0; a target outside [0, cols) is a fault.
 * CROSS_ENTROPY_GRAD ptr: dx, logits, lse, target, scale (1 element: upstream gradient)
 *   dx = scale alpha (softmax - (1-s) onehot - s/cols), 0 for ignored rows; alpha is 1/(rows kept)
 *   for a mean (from ptr[4][1], written by the op) so scale holds two elements: g, 1/kept.
 *   terms: 0 softmax, 1 one-hot, 2 smoothing. In place is allowed.
 */
typedef struct fv_cross_entropy_args {
    int64_t rows, cols;
    int64_t ignore;
    double smoothing;
} fv_cross_entropy_args;

/* TOPK ptr: values (rows, k), indices (i64; rows, k), x. Descending (or ascending); equal values
 * in index order; NaN counts as largest. */
typedef struct fv_topk_args {
    int64_t rows, cols, k;
    bool smallest;
} fv_topk_args;

/* MULTINOMIAL ptr: index (i64; rows, samples), weights (rows, cols), numbers (i64 [rows] or NULL),
 * with replacement: the first j whose running sum exceeds u x total, u from (key, number of the
 * row, sample). A row with no positive finite total is a fault (index = row, bound = 0). */
typedef struct fv_multinomial_args {
    int64_t rows, cols, samples;
    fv_draw draw;
} fv_multinomial_args;

#endif

/*
 * Sums and maxima over a contiguous row in the lane order of every level: element r goes to lane r
 * % 16, and the lanes are reduced by the tree of real_reduce_sum. LANE_SUM takes any expression of
 * `i`.
 *
 *     real sum;
 *     LANE_SUM(sum, cols, y[i] * g[i]);
 */
#ifndef FV_KERNELS_REF_LANES_H
#define FV_KERNELS_REF_LANES_H

#include "kernels/ref/composite.h"

#define LANE_SUM(result, count, term)                                                              \
    do {                                                                                           \
        real acc_[FV_LANES] = {0};                                                                 \
        for (int64_t i = 0; i < (count); i++)                                                      \
            acc_[i % FV_LANES] += (term);                                                          \
        (result) = real_reduce_sum(acc_);                                                          \
    } while (0)

/* -inf for an empty row; NaN if it contains one. */
static inline real row_max(const real *x, int64_t n)
{
    real max = (real)-INFINITY;
    for (int64_t i = 0; i < n; i++)
        max = real_max(max, x[i]);
    return max;
}

/* max + ln(sum of e^(x - max)). All -inf gives -inf, a +inf gives +inf, NaN wins. */
static inline real row_log_sum_exp(const real *x, int64_t n)
{
    const real max = row_max(x, n);
    if (isinf(max)) return max;
    real sum;
    LANE_SUM(sum, n, real_exp(x[i] - max));
    return max + real_log(sum);
}

#endif

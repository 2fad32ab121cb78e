/*
 * Row reductions in the lane order of the reference (ref/lanes.h). Every function takes a
 * contiguous row of n floats, n >= 0.
 */
#ifndef FV_KERNELS_SIMD_ROW_REDUCE_H
#define FV_KERNELS_SIMD_ROW_REDUCE_H

#include "kernels/simd/vmath.h"

/* Lane sum of an expression of `i` and `count`. */
#define V_SUM(result, n, ...)                                                                      \
    do {                                                                                           \
        vf sum_ = v_zero();                                                                        \
        V_LOOP(n, 0, sum_ = v_add(sum_, v_keep(count, (__VA_ARGS__), v_zero())));                  \
        (result) = v_reduce_sum(sum_);                                                             \
    } while (0)

/* -inf for an empty row; NaN if it contains one. The sign of a zero result is unspecified. */
V_INLINE float v_row_max(const float *x, int64_t n)
{
    const vf low = v_set(-INFINITY);
    vf max = low;
    vm nan = vm_none();
    V_LOOP(n, 0, const vf v = v_keep(count, v_load(x + i, count), low); nan = vm_or(nan, v_nan(v));
           max = v_max(v, max));
    return vm_bits(nan) ? NAN : v_reduce_max(max);
}

/* Adds e^(x - shift) to the lanes of `sum` and stores the terms in e, if not NULL (may be x).
 * `prefetch`: prefetches the next row meanwhile. */
V_INLINE vf v_add_exps(vf sum, const float *x, int64_t n, vf shift, float *e, bool prefetch)
{
    enum { STEP = V_GROUP * FV_LANES };
    int64_t done = 0;
    for (; done + STEP <= n; done += STEP) {
        vf v[V_GROUP];
        for (int k = 0; k < V_GROUP; k++) {
            v[k] = v_sub(v_load(x + done + k * FV_LANES, FV_LANES), shift);
            if (prefetch) v_prefetch(x + done + k * FV_LANES, v_row_ahead(n));
        }
        v_exp_many(v, V_GROUP);
        for (int k = 0; k < V_GROUP; k++) {
            if (e) v_store(e + done + k * FV_LANES, FV_LANES, v[k]);
            sum = v_add(sum, v[k]);
        }
    }
    x += done;
    if (e) e += done;
    V_LOOP(n - done, 0, const vf v = v_exp(v_sub(v_load(x + i, count), shift));
           if (e) v_store(e + i, count, v); sum = v_add(sum, v_keep(count, v, v_zero())));
    return sum;
}

/* The sum of e^(x - max); e and prefetch as above. */
V_INLINE float v_row_exps(const float *x, int64_t n, float max, float *e, bool prefetch)
{
    return v_reduce_sum(v_add_exps(v_zero(), x, n, v_set(max), e, prefetch));
}

/* ln of the sum of e^x: all -inf gives -inf, a +inf gives +inf, NaN wins. */
V_INLINE float v_row_log_sum_exp(const float *x, int64_t n)
{
    const float max = v_row_max(x, n);
    return isinf(max) ? max : max + fv_logf_ref(v_row_exps(x, n, max, NULL, false));
}

#endif

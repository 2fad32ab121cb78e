/*
 * Row reductions in the lane order of the reference (ref/lanes.h). Every function takes a
 * contiguous row of n floats, n >= 0; those that end in _of take bf16 if `bf16` is true, which is a
 * compile-time constant of each instance.
 */
#ifndef FV_KERNELS_SIMD_ROW_REDUCE_H
#define FV_KERNELS_SIMD_ROW_REDUCE_H

#include "kernels/simd/half_simd.h"
#include "kernels/simd/vmath.h"

/* Elements [i, i + count) of a row as floats. */
V_INLINE vf v_load_of(const void *x, const bool bf16, int64_t i, int count)
{
    return bf16 ? v_load_half(FV_BF16, (const uint16_t *)x + i, count)
                : v_load((const float *)x + i, count);
}

/* Lane sum of an expression of `i` and `count`. */
#define V_SUM(result, n, ...)                                                                      \
    do {                                                                                           \
        vf sum_ = v_zero();                                                                        \
        V_LOOP(n, 0, sum_ = v_add(sum_, v_keep(count, (__VA_ARGS__), v_zero())));                  \
        (result) = v_reduce_sum(sum_);                                                             \
    } while (0)

/* -inf for an empty row; NaN if it contains one. The sign of a zero result is unspecified. */
V_INLINE float v_row_max_of(const void *x, const bool bf16, int64_t n)
{
    const vf low = v_set(-INFINITY);
    vf max = low;
    vm nan = vm_none();
    V_LOOP(n, 0, const vf v = v_keep(count, v_load_of(x, bf16, i, count), low);
           nan = vm_or(nan, v_nan(v)); max = v_max(v, max));
    return vm_bits(nan) ? NAN : v_reduce_max(max);
}
V_INLINE float v_row_max(const float *x, int64_t n) { return v_row_max_of(x, false, n); }

/* Adds e^(x - shift) to the lanes of `sum` and stores the terms in e, if not NULL (may be x).
 * `prefetch`: prefetches the next row of floats meanwhile. */
V_INLINE vf v_add_exps_of(vf sum, const void *x, const bool bf16, int64_t n, vf shift, float *e,
                          bool prefetch)
{
    enum { STEP = V_GROUP * FV_LANES };
    int64_t done = 0;
    for (; done + STEP <= n; done += STEP) {
        vf v[V_GROUP];
        for (int k = 0; k < V_GROUP; k++) {
            v[k] = v_sub(v_load_of(x, bf16, done + k * FV_LANES, FV_LANES), shift);
            if (prefetch) v_prefetch((const float *)x + done + k * FV_LANES, v_row_ahead(n));
        }
        v_exp_many(v, V_GROUP);
        for (int k = 0; k < V_GROUP; k++) {
            if (e) v_store(e + done + k * FV_LANES, FV_LANES, v[k]);
            sum = v_add(sum, v[k]);
        }
    }
    V_LOOP(n - done, 0, const vf v = v_exp(v_sub(v_load_of(x, bf16, done + i, count), shift));
           if (e) v_store(e + done + i, count, v); sum = v_add(sum, v_keep(count, v, v_zero())));
    return sum;
}
V_INLINE vf v_add_exps(vf sum, const float *x, int64_t n, vf shift, float *e, bool prefetch)
{
    return v_add_exps_of(sum, x, false, n, shift, e, prefetch);
}

/* The sum of e^(x - max); e and prefetch as above. */
V_INLINE float v_row_exps(const float *x, int64_t n, float max, float *e, bool prefetch)
{
    return v_reduce_sum(v_add_exps(v_zero(), x, n, v_set(max), e, prefetch));
}

/* ln of the sum of e^x: all -inf gives -inf, a +inf gives +inf, NaN wins. */
V_INLINE float v_row_log_sum_exp_of(const void *x, const bool bf16, int64_t n)
{
    const float max = v_row_max_of(x, bf16, n);
    if (isinf(max)) return max;
    const vf sum = v_add_exps_of(v_zero(), x, bf16, n, v_set(max), NULL, false);
    return max + fv_logf_ref(v_reduce_sum(sum));
}
V_INLINE float v_row_log_sum_exp(const float *x, int64_t n)
{
    return v_row_log_sum_exp_of(x, false, n);
}

#endif

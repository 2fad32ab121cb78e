/*
 * What rows are reduced to, in the reference's lane order (ref/lanes.h). Every function takes a
 * contiguous row of n floats, n >= 0.
 */
#ifndef FV_KERNELS_SIMD_ROWSUM_H
#define FV_KERNELS_SIMD_ROWSUM_H

#include "kernels/simd/vmath.h"

/* Lane sum of an expression of `i` and `count`. */
#define V_SUM(result, n, ...)                                                                      \
    do {                                                                                           \
        vf sum_ = v_zero();                                                                        \
        V_LOOP(n, 0, sum_ = v_add(sum_, v_keep(count, (__VA_ARGS__), v_zero())));                  \
        (result) = v_join(sum_);                                                                   \
    } while (0)

/* -inf for an empty row; NaN if there is one. The sign of a zero is any one found. */
V_INLINE float v_row_max(const float *x, int64_t n)
{
    const vf low = v_set(-INFINITY);
    vf most = low;
    vm nan = vm_none();
    V_LOOP(n, 0, const vf v = v_keep(count, v_load(x + i, count), low); nan = vm_or(nan, v_nan(v));
           most = v_max(v, most));
    return vm_bits(nan) ? NAN : v_join_max(most);
}

/* Adds e^(x - shift) to the lanes of `sum`; the terms themselves go to e, if not NULL (x itself is
 * allowed). `ahead`: the row after this one is asked for meanwhile. */
V_INLINE vf v_add_exps(vf sum, const float *x, int64_t n, vf shift, float *e, bool ahead)
{
    enum { STEP = V_GROUP * FV_LANES };
    int64_t done = 0;
    for (; done + STEP <= n; done += STEP) {
        vf v[V_GROUP];
        for (int k = 0; k < V_GROUP; k++) {
            v[k] = v_sub(v_load(x + done + k * FV_LANES, FV_LANES), shift);
            if (ahead) v_prefetch(x + done + k * FV_LANES, v_row_ahead(n));
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

/* The sum of e^(x - most); e and ahead as above. */
V_INLINE float v_row_exps(const float *x, int64_t n, float most, float *e, bool ahead)
{
    return v_join(v_add_exps(v_zero(), x, n, v_set(most), e, ahead));
}

/* ln of the sum of e^x: all -inf gives -inf, a +inf gives +inf, NaN wins. */
V_INLINE float v_row_log_sum_exp(const float *x, int64_t n)
{
    const float most = v_row_max(x, n);
    return isinf(most) ? most : most + fv_logf_ref(v_row_exps(x, n, most, NULL, false));
}

#endif

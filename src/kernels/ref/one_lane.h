/*
 * The vectors of simd/simd.h with one lane, for sources that compile as reference and as SIMD
 * kernels: a vector is one number, V_LOOP takes one element at a time, and sums keep the lane order
 * of ref/lanes.h. LANES declares a sum over V_LOOP, LANES_ADD adds to it inside the loop, LANES_SUM
 * ends it.
 */
#ifndef FV_KERNELS_REF_ONE_LANE_H
#define FV_KERNELS_REF_ONE_LANE_H

#include "kernels/ref/lanes.h"

typedef real vf;

#define V_LOOP(n, head, ...)                                                                       \
    do {                                                                                           \
        enum { count = 1 };                                                                        \
        for (int64_t i = 0; i < (n); i++) {                                                        \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

#define LANES(sum)          real sum[FV_LANES] = {0}
#define LANES_ADD(sum, ...) (sum)[i % FV_LANES] += (__VA_ARGS__)
#define LANES_SUM(sum)      real_reduce_sum(sum)
#define V_ROW_MAX(x, n)     row_max(x, n)

static inline vf v_set(real x) { return x; }
static inline vf v_zero(void) { return 0; }
static inline vf v_load(const real *p, int count) { return count ? *p : 0; }
static inline void v_store(real *p, int count, vf v)
{
    if (count) *p = v;
}
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_fma(vf a, vf b, vf c) { return real_fma(a, b, c); }
static inline vf v_sqrt(vf a) { return real_sqrt(a); }
static inline vf v_exp(vf a) { return real_exp(a); }
static inline vf v_log(vf a) { return real_log(a); }
static inline vf v_tanh(vf a) { return real_tanh(a); }
static inline vf v_sigmoid(vf a) { return real_sigmoid(a); }
static inline bool v_gt(vf a, vf b) { return a > b; }
static inline bool v_ge(vf a, vf b) { return a >= b; }
static inline bool v_lt(vf a, vf b) { return a < b; }
static inline bool vm_and(bool a, bool b) { return a && b; }
static inline vf v_select(bool m, vf yes, vf no) { return m ? yes : no; }

#endif

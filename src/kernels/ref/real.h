/*
 * The element type of the reference kernels. Every file of this folder compiles twice: for float,
 * and with FV_REAL_DOUBLE for double. Code uses `real` and real_exp(), exported names use
 * FV_NAME():
 *
 *     void FV_NAME(fv_ref_reduce_register)(fv_kernel_table *t)    // ..._f32 or ..._f64
 *     {
 *         t->fn[FV_KERNEL_REDUCE][FV_REAL_DTYPE] = reduce;
 *     }
 *
 * Double uses libm. Float uses ref/math.h, whose scalar functions do what the vector versions do,
 * so that all levels agree bit for bit; sin, cos and pow are libm's on every level.
 */
#ifndef FV_KERNELS_REF_REAL_H
#define FV_KERNELS_REF_REAL_H

#include <math.h>

#include "kernels/register.h"

#ifdef FV_REAL_DOUBLE

typedef double real;
#define FV_NAME(x)    x##_f64
#define FV_REAL_DTYPE FV_F64

static inline real real_fma(real a, real b, real c) { return fma(a, b, c); }
static inline real real_sqrt(real x) { return sqrt(x); }
static inline real real_abs(real x) { return fabs(x); }
static inline real real_exp(real x) { return exp(x); }
static inline real real_log(real x) { return log(x); }
static inline real real_log1p(real x) { return log1p(x); }
static inline real real_tanh(real x) { return tanh(x); }
static inline real real_erf(real x) { return erf(x); }
static inline real real_phi(real x) { return 0.5 * erfc(-0.70710678118654752440 * x); }
static inline real real_sin(real x) { return sin(x); }
static inline real real_cos(real x) { return cos(x); }
static inline real real_pow(real x, real y) { return pow(x, y); }

#else

#include "kernels/ref/math.h"

typedef float real;
#define FV_NAME(x)    x##_f32
#define FV_REAL_DTYPE FV_F32

static inline real real_fma(real a, real b, real c) { return fmaf(a, b, c); }
static inline real real_sqrt(real x) { return sqrtf(x); }
static inline real real_abs(real x) { return fabsf(x); }
static inline real real_exp(real x) { return fv_expf_ref(x); }
static inline real real_log(real x) { return fv_logf_ref(x); }
static inline real real_log1p(real x) { return fv_log1pf_ref(x); }
static inline real real_tanh(real x) { return fv_tanhf_ref(x); }
static inline real real_erf(real x) { return fv_erff_ref(x); }
static inline real real_phi(real x) { return fv_phif_ref(x); }
static inline real real_sin(real x) { return sinf(x); }
static inline real real_cos(real x) { return cosf(x); }
static inline real real_pow(real x, real y) { return powf(x, y); }

#endif

/* Sums the 16 lanes in the one fixed tree. Overwrites acc. */
static inline real real_reduce_sum(real acc[FV_LANES])
{
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            acc[i] += acc[i + w];
    return acc[0];
}

#endif

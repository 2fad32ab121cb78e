/*
 * Functions made of real_exp and its siblings, and their derivatives. The order of operations
 * below is part of the contract: vector versions follow it exactly (a * b + c is two roundings;
 * only real_fma is one), so that every level gives the same bits.
 *
 * f(x) and, for the activations, f'(x) are both functions of x; tanh and sigmoid also have their
 * derivatives from y in elementwise.c. The two additive terms of a derivative are FV_TERMs 0 and 1.
 */
#ifndef FV_KERNELS_REF_COMPOSITE_H
#define FV_KERNELS_REF_COMPOSITE_H

#include "kernels/ref/real.h"

#define FV_INV_SQRT_2PI     0.39894228040143267794 /* 1/sqrt(2 pi) */
#define FV_TWO_OVER_SQRT_PI 1.12837916709551257390 /* 2/sqrt(pi) */
#define FV_GELU_C0          0.79788456080286535588 /* sqrt(2/pi) */
#define FV_GELU_C1          0.03567740813630012550 /* 0.044715 sqrt(2/pi) */
#define FV_QUICK_GELU       1.702
#define FV_GELU_C1_X3       0.10703222440890037650 /* 3 x the above */

/* NaN stays NaN and -0 stays -0: the maximum of (0, x) that returns x unless 0 is greater. */
static inline real real_relu(real x) { return 0 > x ? 0 : x; }

/* 1 / (1 + e^-x); e^-x = inf gives 0. */
static inline real real_sigmoid(real x) { return 1 / (1 + real_exp(-x)); }

/* x / (1 + e^-x) */
static inline real real_silu(real x) { return x / (1 + real_exp(-x)); }

/* s (1 + x (1 - s)) */
static inline real real_silu_grad(const fv_exec *exec, real x)
{
    (void)exec;
    const real s = real_sigmoid(x);
    return s * (FV_TERM(exec, 0, (real)1, 0) + FV_TERM(exec, 1, x * (1 - s), 0));
}

/* x / (1 + e^(-1.702 x)) */
static inline real real_quick_gelu(real x)
{
    return x / (1 + real_exp(-((real)FV_QUICK_GELU * x)));
}

/* s (1 + 1.702 x (1 - s)), s = sigmoid(1.702 x) */
static inline real real_quick_gelu_grad(const fv_exec *exec, real x)
{
    return real_silu_grad(exec, (real)FV_QUICK_GELU * x);
}

/* max(x, 0) + log1p(e^-|x|) */
static inline real real_softplus(real x)
{
    return real_relu(x) + real_log1p(real_exp(-real_abs(x)));
}

/* x phi(x), phi being the normal distribution */
static inline real real_gelu(real x) { return x * real_phi(x); }

/* phi(x) + x phi'(x) = phi(x) + x (e^((-x/2) x) / sqrt(2 pi)) */
static inline real real_gelu_grad(const fv_exec *exec, real x)
{
    (void)exec;
    const real density = (real)FV_INV_SQRT_2PI * real_exp(((real)-0.5 * x) * x);
    return FV_TERM(exec, 0, real_phi(x), 0) + FV_TERM(exec, 1, x * density, 0);
}

/* tanh(x (C0 + C1 x^2)), the polynomial by one fma: what both functions below share. */
static inline real real_gelu_tanh_inner(real x)
{
    return real_tanh(x * real_fma((real)FV_GELU_C1, x * x, (real)FV_GELU_C0));
}

/* (x/2) (1 + t) */
static inline real real_gelu_tanh(real x)
{
    return ((real)0.5 * x) * (1 + real_gelu_tanh_inner(x));
}

/* (1 + t)/2 + ((x/2) (1 - t^2)) (C0 + 3 C1 x^2). Where tanh is saturated the second term is 0,
 * not 0 x inf. */
static inline real real_gelu_tanh_grad(const fv_exec *exec, real x)
{
    (void)exec;
    const real t = real_gelu_tanh_inner(x);
    const real slope = 1 - t * t;
    const real inner = real_fma((real)FV_GELU_C1_X3, x * x, (real)FV_GELU_C0);
    const real bend = slope == 0 ? 0 : (((real)0.5 * x) * slope) * inner;
    return FV_TERM(exec, 0, (real)0.5 * (1 + t), 0) + FV_TERM(exec, 1, bend, 0);
}

/* (2/sqrt(pi)) e^(-x x) */
static inline real real_erf_grad(real x) { return (real)FV_TWO_OVER_SQRT_PI * real_exp(-(x * x)); }

/* NaN if either is NaN; of equals (and of +0 and -0) the first. */
static inline real real_max(real a, real b) { return a >= b || a != a ? a : b; }
static inline real real_min(real a, real b) { return a <= b || a != a ? a : b; }

#endif

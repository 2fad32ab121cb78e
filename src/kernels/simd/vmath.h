/*
 * Vector exp, log, log1p, tanh, erf, phi and functions made of them. Each does, lane by lane,
 * exactly what its scalar counterpart in ref/math.h or ref/composite.h does; see there for the
 * mathematics and the error bounds. A change to one must be made to the other.
 */
#ifndef FV_KERNELS_SIMD_VMATH_H
#define FV_KERNELS_SIMD_VMATH_H

#include "kernels/ref/composite.h"
#include "kernels/ref/math.h"
#include "kernels/simd/simd.h"

/*
 * The chains of operations below are long, and the CPU looks only a few vectors ahead: functions
 * named _many do each step for several independent vectors before the next step. V_GROUP is as many
 * as the registers hold; V_EXP_GROUP is that number for exp, whose vectors share one test: six of
 * them cost a tenth less than four. V_TABLE_GROUP is for functions with tables of coefficients.
 * With NEON one vector is four registers, which are independent already.
 */
#if FV_SIMD_LEVEL == 1
enum { V_GROUP = 1, V_EXP_GROUP = 1, V_TABLE_GROUP = 1 };
#else
enum {
    V_GROUP = FV_SIMD_LEVEL == 3 ? 4 : 2,
    V_EXP_GROUP = FV_SIMD_LEVEL == 3 ? 6 : 2,
    V_TABLE_GROUP = 2
};
#endif

/* ---- exp --------------------------------------------------------------------------- */

/* n in eighths, in the low bits. */
V_INLINE vf v_exp_round(vf x) { return v_fma(x, v_set(FV_EXP_LOG2E), v_set(FV_EXP_MAGIC)); }

/* Bits outside FV_EXP_LOW are set in lanes that need the long path for t, or for u. */
V_INLINE vi v_exp_excess(vf t, vf u)
{
    const vi in_range = vi_set(FV_EXP_SHORT);
#if FV_SIMD_LEVEL == 3
    return _mm512_ternarylogic_epi32(vi_of(t), in_range, vi_of(u), 0x7e);
#else
    return vi_or(vi_xor(vi_of(t), in_range), vi_xor(vi_of(u), in_range));
#endif
}

V_INLINE vm v_exp_is_long(vf t) { return vi_test(v_exp_excess(t, t), vi_set(~FV_EXP_LOW)); }

V_INLINE vf v_exp_cubic(vf r)
{
    const vf u = v_add(r, v_set(FV_EXP_B));
    return v_fma(v_fma(u, u, v_set(FV_EXP_C)), r, v_set(FV_EXP_K));
}

/* y 2^floor(n), rounded once. */
V_INLINE vf v_exp_scale(vf y, vf t, vf n)
{
#if FV_SIMD_LEVEL == 3
    (void)t;
    return _mm512_scalef_ps(y, n);
#else
    (void)n;
    const vi k = vi_sub(vi_of(t), vi_set(fv_float_bits(FV_EXP_MAGIC)));
    const vi whole = vi_sar(k, 3), half = vi_sar(k, 4), bias = vi_set(127);
    const vi rest = vi_sub(whole, half);
    y = v_mul(y, vf_of(vi_shl(vi_add(half, bias), 23)));
    return v_mul(y, vf_of(vi_shl(vi_add(rest, bias), 23)));
#endif
}

/* The short path: |n| < 16 in every lane. No result is subnormal, so scaling is exact before the
 * last product as well as after it. */
V_INLINE vf v_exp_short(vf x, vf t)
{
    const vf n = v_sub(t, v_set(FV_EXP_MAGIC));
    const vf w = v_exp_cubic(v_fma(n, v_set(-FV_EXP_LN2), x));
#if FV_SIMD_LEVEL == 3
    return v_exp_scale(v_mul(v_lookup8(fv_exp_table, vi_of(t)), w), t, n);
#else
    /* Bits of fv_exp_table[j], less j << 20 and 16 << 23: the excess that shifting the low bits of
     * t to the exponent adds. */
    static const uint32_t table[8] = {0x362a7618u, 0x3629e3aeu, 0x362ab6bcu, 0x362d0f9bu,
                                      0x36311196u, 0x36337192u, 0x362f571eu, 0x362c504fu};
    const vi scale = vi_of(v_lookup8((const float *)(const void *)table, vi_of(t)));
    return v_mul(vf_of(vi_add(scale, vi_shl(vi_of(t), 20))), w);
#endif
}

/* Any x; lanes of `is_long` use both parts of ln 2. */
V_INLINE vf v_exp_any(vf x, vm is_long)
{
    x = v_min(v_set(FV_EXP_MAX), v_max(v_set(FV_EXP_MIN), x));
    const vf t = v_exp_round(x);
    const vf n = v_sub(t, v_set(FV_EXP_MAGIC));
    const vf near = v_fma(n, v_set(-FV_EXP_LN2), x);
    const vf r = v_select(is_long, v_fma(n, v_set(FV_EXP_LN2_LOW), near), near);
    const vf scale = v_lookup8(fv_exp_table, vi_of(t));
    return v_exp_scale(v_mul(scale, v_exp_cubic(r)), t, n);
}

V_INLINE vf v_exp(vf x)
{
    const vf t = v_exp_round(x);
    if (__builtin_expect(vi_any(v_exp_excess(t, t), vi_set(~FV_EXP_LOW)), 0))
        return v_exp_any(x, v_exp_is_long(t));
    return v_exp_short(x, t);
}

/* Several vectors together (an even number; NEON: one), with one test for all. */
V_INLINE void v_exp_many(vf *x, int many)
{
    vf t[V_EXP_GROUP];
    for (int k = 0; k < many; k++)
        t[k] = v_exp_round(x[k]);
    vi excess = v_exp_excess(t[0], t[V_EXP_GROUP > 1]);
    for (int k = 2; k < many; k += 2)
        excess = vi_or(excess, v_exp_excess(t[k], t[k + 1]));
    if (__builtin_expect(vi_any(excess, vi_set(~FV_EXP_LOW)), 0)) {
        for (int k = 0; k < many; k++)
            x[k] = v_exp_any(x[k], v_exp_is_long(t[k]));
    } else {
        for (int k = 0; k < many; k++)
            x[k] = v_exp_short(x[k], t[k]);
    }
}

/* ---- log --------------------------------------------------------------------------- */

V_INLINE vf v_log_core(vf x, vf tail)
{
    const vm tiny = v_lt(x, v_set(0x1p-126f));
    x = v_select(tiny, v_mul(x, v_set(0x1p23f)), x);
    const vf shift = v_select(tiny, v_set(-23.0f), v_zero());
    const vi u = vi_sub(vi_of(x), vi_set(FV_LOG_SPLIT));
    const vf e = v_add(vi_to_float(vi_sar(u, 23)), shift);
    const vi mantissa = vi_add(vi_and(u, vi_set(0x7fffffu)), vi_set(FV_LOG_SPLIT));
    const vf f = v_sub(vf_of(mantissa), v_set(1.0f));
    vf q = v_set(fv_log_coef[9]);
    for (int k = 8; k >= 0; k--)
        q = v_fma(q, f, v_set(fv_log_coef[k]));
    const vf high = v_set(FV_LOG_LN2_HIGH);
    const vf a = v_fma(e, high, f);
    const vf b = v_add(v_fma(e, high, v_neg(a)), f);
    vf small = v_fma(e, v_set(FV_LOG_LN2_LOW), tail);
    small = v_fma(v_mul(f, f), q, small);
    return v_add(a, v_add(b, small));
}

/* y where x is positive and finite; else the value log(x) has there. */
V_INLINE vf v_log_special(vf x, vf y)
{
    const vf inf = v_set(INFINITY), zero = v_zero();
    y = v_select(v_eq(x, inf), inf, y);
    y = v_select(v_gt(x, zero), y, v_set(NAN));
    return v_select(v_eq(x, zero), v_neg(inf), y);
}

V_INLINE vf v_log(vf x) { return v_log_special(x, v_log_core(x, v_zero())); }

V_INLINE vf v_log1p(vf x)
{
    const vf one = v_set(1.0f), u = v_add(one, x);
    const vm over = v_gt(x, one);
    const vf big = v_select(over, x, one), less = v_select(over, one, x);
    const vf c = v_sub(less, v_sub(u, big));
    const vf y = v_log_special(u, v_log_core(u, v_div(c, u)));
    return v_select(v_eq(u, one), x, y);
}

/* ---- tanh, erf --------------------------------------------------------------------- */

/* For x86 gcc unrolls the polynomial by itself. */
#if FV_SIMD_LEVEL == 1 && !defined(__clang__)
#define V_UNROLL _Pragma("GCC unroll 16")
#else
#define V_UNROLL
#endif

V_INLINE void v_piece_many(vf *x, const vf *h, const vi *j, const float (*coef)[16], int degree,
                           int many)
{
    vf p[V_GROUP];
    for (int k = 0; k < many; k++)
        p[k] = v_lookup(coef[degree], j[k]);
    V_UNROLL
    for (int c = degree - 1; c >= 0; c--)
        for (int k = 0; k < many; k++)
            p[k] = v_fma(p[k], h[k], v_lookup(coef[c], j[k]));
    for (int k = 0; k < many; k++)
        x[k] = v_min(v_set(1.0f), v_mul(p[k], x[k]));
}

V_INLINE void v_tanh_many(vf *x, int many)
{
    vf a[V_GROUP], h[V_GROUP];
    vi j[V_GROUP];
    for (int k = 0; k < many; k++) {
        a[k] = v_min(v_set(FV_TANH_MAX), v_abs(x[k]));
        j[k] = vi_shr(vi_of(v_max(v_set(FV_TANH_MIN), a[k])), 22);
        h[k] = v_sub(a[k], v_lookup(fv_tanh_table[0], j[k]));
    }
    v_piece_many(a, h, j, fv_tanh_table + 1, FV_TANH_DEGREE, many);
    for (int k = 0; k < many; k++)
        x[k] = v_or(a[k], v_sign(x[k]));
}

V_INLINE void v_erf_many(vf *x, int many)
{
    const vf magic = v_set(FV_ERF_MAGIC);
    vf a[V_GROUP], h[V_GROUP];
    vi j[V_GROUP];
    for (int k = 0; k < many; k++) {
        a[k] = v_min(v_set(FV_ERF_MAX), v_abs(x[k]));
        const vf t = v_add(v_sub(a[k], v_set(0.125f)), magic);
        j[k] = vi_of(t);
        h[k] = v_sub(v_sub(a[k], v_sub(t, magic)), v_set(FV_ERF_CENTRE));
    }
    v_piece_many(a, h, j, fv_erf_table, FV_ERF_DEGREE, many);
    for (int k = 0; k < many; k++)
        x[k] = v_or(a[k], v_sign(x[k]));
}

V_INLINE vf v_tanh(vf x)
{
    v_tanh_many(&x, 1);
    return x;
}

V_INLINE vf v_erf(vf x)
{
    v_erf_many(&x, 1);
    return x;
}

/* ---- the normal distribution ------------------------------------------------------- */

V_INLINE void v_phi_many(vf *x, int many)
{
    const vf scale = v_set(FV_PHI_SCALE), magic = v_set(FV_PHI_MAGIC);
    vf h[V_GROUP], p[V_GROUP];
    vi j[V_GROUP];
    for (int k = 0; k < many; k++) {
        const vf a = v_min_abs(x[k], FV_PHI_MAX), t = v_fma(a, scale, magic);
        j[k] = vi_of(t);
        h[k] = v_fma(a, scale, v_sub(magic, t));
        p[k] = v_lookup8(fv_phi_table[FV_PHI_DEGREE], j[k]);
    }
    for (int c = FV_PHI_DEGREE - 1; c >= 0; c--)
        for (int k = 0; k < many; k++)
            p[k] = v_fma(p[k], h[k], v_lookup8(fv_phi_table[c], j[k]));
    for (int k = 0; k < many; k++)
        x[k] = v_add(v_set(0.5f), v_or(p[k], v_sign(x[k])));
}

V_INLINE vf v_phi(vf x)
{
    v_phi_many(&x, 1);
    return x;
}

/* ---- composites (ref/composite.h) -------------------------------------------------- */

V_INLINE vf v_relu(vf x) { return v_max(v_zero(), x); }

V_INLINE vf v_sigmoid(vf x)
{
    const vf one = v_set(1.0f);
    return v_div(one, v_add(one, v_exp(v_neg(x))));
}

V_INLINE vf v_silu(vf x) { return v_div(x, v_add(v_set(1.0f), v_exp(v_neg(x)))); }

V_INLINE vf v_silu_grad(const fv_exec *exec, vf x)
{
    (void)exec;
    const vf one = v_set(1.0f), s = v_sigmoid(x);
    return v_mul(s, v_add(FV_TERM(exec, 0, one, v_zero()),
                          FV_TERM(exec, 1, v_mul(x, v_sub(one, s)), v_zero())));
}

V_INLINE vf v_quick_gelu(vf x)
{
    const vf u = v_mul(v_set((float)FV_QUICK_GELU), x);
    return v_div(x, v_add(v_set(1.0f), v_exp(v_neg(u))));
}

V_INLINE vf v_quick_gelu_grad(const fv_exec *exec, vf x)
{
    return v_silu_grad(exec, v_mul(v_set((float)FV_QUICK_GELU), x));
}

V_INLINE vf v_softplus(vf x) { return v_add(v_relu(x), v_log1p(v_exp(v_neg(v_abs(x))))); }

V_INLINE void v_gelu_many(vf *x, int many)
{
    vf phi[V_GROUP];
    for (int k = 0; k < many; k++)
        phi[k] = x[k];
    v_phi_many(phi, many);
    for (int k = 0; k < many; k++)
        x[k] = v_mul(x[k], phi[k]);
}

V_INLINE vf v_gelu(vf x)
{
    v_gelu_many(&x, 1);
    return x;
}

V_INLINE vf v_gelu_grad(const fv_exec *exec, vf x)
{
    (void)exec;
    const vf bell = v_exp(v_mul(v_mul(v_set(-0.5f), x), x));
    const vf density = v_mul(v_set((float)FV_INV_SQRT_2PI), bell);
    return v_add(FV_TERM(exec, 0, v_phi(x), v_zero()),
                 FV_TERM(exec, 1, v_mul(x, density), v_zero()));
}

V_INLINE vf v_gelu_tanh_poly(vf x)
{
    return v_mul(x, v_fma(v_set((float)FV_GELU_C1), v_mul(x, x), v_set((float)FV_GELU_C0)));
}

V_INLINE vf v_gelu_tanh_inner(vf x) { return v_tanh(v_gelu_tanh_poly(x)); }

V_INLINE void v_gelu_tanh_many(vf *x, int many)
{
    vf t[V_GROUP];
    for (int k = 0; k < many; k++)
        t[k] = v_gelu_tanh_poly(x[k]);
    v_tanh_many(t, many);
    for (int k = 0; k < many; k++)
        x[k] = v_mul(v_mul(v_set(0.5f), x[k]), v_add(v_set(1.0f), t[k]));
}

V_INLINE vf v_gelu_tanh(vf x)
{
    v_gelu_tanh_many(&x, 1);
    return x;
}

V_INLINE vf v_gelu_tanh_grad(const fv_exec *exec, vf x)
{
    (void)exec;
    const vf one = v_set(1.0f), half = v_set(0.5f), t = v_gelu_tanh_inner(x);
    const vf slope = v_sub(one, v_mul(t, t));
    const vf inner = v_fma(v_set((float)FV_GELU_C1_X3), v_mul(x, x), v_set((float)FV_GELU_C0));
    const vf bend = v_mul(v_mul(v_mul(half, x), slope), inner);
    const vm flat = v_eq(slope, v_zero());
    return v_add(FV_TERM(exec, 0, v_mul(half, v_add(one, t)), v_zero()),
                 FV_TERM(exec, 1, v_select(flat, v_zero(), bend), v_zero()));
}

V_INLINE vf v_erf_grad(vf x)
{
    return v_mul(v_set((float)FV_TWO_OVER_SQRT_PI), v_exp(v_neg(v_mul(x, x))));
}

/* NaN if either is NaN; of equals the first. */
V_INLINE vm v_first_is_max(vf a, vf b) { return vm_or(v_ge(a, b), v_nan(a)); }
V_INLINE vm v_first_is_min(vf a, vf b) { return vm_or(v_le(a, b), v_nan(a)); }

/* ---- over arrays ------------------------------------------------------------------- */

/* y[i] = f(x[i]); `many`, for `group` vectors, and `one` are the same function. y may be x. */
V_INLINE void v_apply(float *y, const float *x, int64_t n, bool stream, void (*many)(vf *, int),
                      int group, vf (*one)(vf))
{
    const int64_t step = (int64_t)group * FV_LANES;
    int64_t done = v_head(y, n, stream);
    V_LOOP(done, 0, v_store(y + i, count, one(v_load(x + i, count))));
    for (; done + step <= n; done += step) {
        vf v[V_EXP_GROUP];
        for (int k = 0; k < group; k++)
            v[k] = v_load_ahead(x + done + k * FV_LANES, FV_LANES, stream);
        many(v, group);
        for (int k = 0; k < group; k++)
            v_put(y + done + k * FV_LANES, FV_LANES, v[k], stream);
    }
    x += done;
    y += done;
    V_LOOP(n - done, 0, v_store(y + i, count, one(v_load(x + i, count))));
}

#endif

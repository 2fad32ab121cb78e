/*
 * Scalar float exp, log, log1p, tanh, erf and the normal distribution: the definition of the bits.
 *
 * The vector versions (kernels/simd/vmath.h) do the same operations in the same order, so that
 * reference, AVX2 and AVX-512 agree bit for bit. Every multiply-add below is written fmaf; the
 * build forbids the compiler to fuse others (-ffp-contract=off).
 *
 *     function  largest error, all 2^32 floats (tests/test_vmath exhaustive)
 *     exp   1.95 ULP    log   0.82 ULP    log1p  0.83 ULP
 *     tanh  1.61 ULP    erf   1.73 ULP
 *     phi   1.01 ULP for x >= 0, else 3.7e-8
 *
 * Special values are those of C99 Annex F: exp(-inf) = 0, exp underflows gradually, log(+-0) =
 * -inf, log(x < 0) = NaN, tanh and erf are odd, keep -0 and reach +-1; NaN gives NaN.
 *
 * How the coefficients were found: least squares on Chebyshev nodes in 160-bit arithmetic, weighted
 * for relative error; coefficients are rounded to float one by one, lowest order first, and the
 * rest refitted after each.
 */
#ifndef FV_KERNELS_REF_MATH_H
#define FV_KERNELS_REF_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t fv_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float fv_float_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- exp --------------------------------------------------------------------------
 * x = n ln 2 + r with n = N + j/8: e^x = 2^N 2^(j/8) e^r and |r| <= ln 2 / 16. Adding the magic
 * number rounds n to eighths and leaves 8 n in the low bits of t.
 *
 * e^r is a cubic K + r ((r + B)^2 + C), K times too large, which the table of 2^(j/8) / K corrects:
 * in this form it costs two fused operations and one addition, which is free beside them. Of all
 * floats near 6, K (with matching B and C) has the smallest maximum error; its eight quotients
 * happen to be close to floats.
 *
 * ln 2 as a float is 1.9e-9 too large. While |n| < 16 (|x| < 11.09) that costs less than half an
 * ULP and is ignored, and nothing can overflow: one comparison on the bits of t selects this short
 * path. Otherwise the second part of ln 2 is added and the scale is applied in two steps, of which
 * only the last rounds, so that subnormal results are right. */
#define FV_EXP_MAGIC   0x1.8001p+20f /* ulp 1/8; its 16 makes the short path one range of bits */
#define FV_EXP_SHORT   0x49c00000u   /* bits of t above FV_EXP_LOW in the short path */
#define FV_EXP_LOW     0xffu
#define FV_EXP_LOG2E   0x1.715476p+0f
#define FV_EXP_LN2     0x1.62e43p-1f
#define FV_EXP_LN2_LOW 0x1.05c61p-29f /* FV_EXP_LN2 - ln 2 */
#define FV_EXP_K       0x1.80766ep+2f
#define FV_EXP_B       0x1.8084d4p+0f
#define FV_EXP_C       0x1.e0258cp+1f
#define FV_EXP_MAX     89.0f   /* above: inf, as 89 itself */
#define FV_EXP_MIN     -104.0f /* below: 0, as -104 itself */

/* 2^(j/8) / K */
static const float fv_exp_table[8] = {
    0x1.54ec3p-3f,  0x1.73c75cp-3f, 0x1.956d78p-3f, 0x1.ba1f36p-3f,
    0x1.e2232cp-3f, 0x1.06e324p-2f, 0x1.1eae3cp-2f, 0x1.38a09ep-2f,
};

/* 2^n, n in [-126, 127]. */
static inline float fv_pow2i(int32_t n) { return fv_float_from_bits((uint32_t)(n + 127) << 23); }

static inline float fv_expf_ref(float x)
{
    float t = fmaf(x, FV_EXP_LOG2E, FV_EXP_MAGIC);
    int shortcut = ((fv_float_bits(t) ^ FV_EXP_SHORT) & ~FV_EXP_LOW) == 0;
    if (!shortcut) {
        if (x != x) return x;
        x = x < FV_EXP_MAX ? x : FV_EXP_MAX;
        x = x > FV_EXP_MIN ? x : FV_EXP_MIN;
        t = fmaf(x, FV_EXP_LOG2E, FV_EXP_MAGIC);
    }
    float n = t - FV_EXP_MAGIC;
    float r = fmaf(n, -FV_EXP_LN2, x);
    if (!shortcut) r = fmaf(n, FV_EXP_LN2_LOW, r);
    float u = r + FV_EXP_B;
    float w = fmaf(fmaf(u, u, FV_EXP_C), r, FV_EXP_K);
    int32_t k = (int32_t)(fv_float_bits(t) - fv_float_bits(FV_EXP_MAGIC));
    float y = fv_exp_table[k & 7] * w;
    int32_t whole = k >> 3, half = whole >> 1;
    return y * fv_pow2i(half) * fv_pow2i(whole - half);
}

/* ---- log --------------------------------------------------------------------------
 * x = 2^e (1 + f) with 1 + f in [2/3, 4/3); log(1 + f) = f + f^2 q(f). The sum e ln 2 + f is kept
 * as a + b (a rounded, b the exact rest); everything small is added to b, and one rounding ends it.
 */
#define FV_LOG_SPLIT    0x3f2aaaabu  /* bits of 2/3 */
#define FV_LOG_LN2_HIGH 0x1.62e4p-1f /* 16 bits: times an exponent is exact */
#define FV_LOG_LN2_LOW  0x1.7f7d1cp-20f

static const float fv_log_coef[10] = {
    -0x1p-1f,       0x1.555556p-2f,  -0x1.ffff0ap-3f, 0x1.99985cp-3f,  -0x1.5599cp-3f,
    0x1.24d99ap-3f, -0x1.f37848p-4f, 0x1.baedf4p-4f,  -0x1.0733f8p-3f, 0x1.e25992p-4f,
};

/* log(x) + tail for a finite x > 0. */
static inline float fv_log_core_ref(float x, float tail)
{
    float shift = 0.0f;
    if (x < 0x1p-126f) { /* subnormal: make it normal */
        x = x * 0x1p23f;
        shift = -23.0f;
    }
    uint32_t u = fv_float_bits(x) - FV_LOG_SPLIT;
    int32_t whole = (int32_t)u >> 23;
    float e = (float)whole + shift;
    float f = fv_float_from_bits((u & 0x7fffffu) + FV_LOG_SPLIT) - 1.0f;
    float q = fv_log_coef[9];
    for (int i = 8; i >= 0; --i)
        q = fmaf(q, f, fv_log_coef[i]);
    float a = fmaf(e, FV_LOG_LN2_HIGH, f);
    float b = fmaf(e, FV_LOG_LN2_HIGH, -a) + f;
    float small = fmaf(e, FV_LOG_LN2_LOW, tail);
    small = fmaf(f * f, q, small);
    return a + (b + small);
}

static inline float fv_logf_ref(float x)
{
    if (!(x > 0.0f)) return x == 0.0f ? -INFINITY : NAN;
    if (x == INFINITY) return x;
    return fv_log_core_ref(x, 0.0f);
}

/* log(1 + x): u = 1 + x loses c = x - (u - 1), which is added back as c / u. */
static inline float fv_log1pf_ref(float x)
{
    float u = 1.0f + x;
    if (u == 1.0f) return x; /* tiny x, and -0 */
    if (!(u > 0.0f) || u == INFINITY) return fv_logf_ref(u);
    float big = x > 1.0f ? x : 1.0f, less = x > 1.0f ? 1.0f : x;
    float c = less - (u - big);
    return fv_log_core_ref(u, c / u);
}

/* ---- tanh and erf -----------------------------------------------------------------
 * Both are odd and saturate, and f(x)/x is smooth and never small: sixteen intervals of |x|, in
 * each a polynomial in h = |x| - centre. A centre is a float near the middle at which f(x)/x comes
 * close to a float, so that c0 has (almost) no rounding error of its own.
 */
#define FV_TANH_DEGREE 7
#define FV_TANH_MAX    0x1.20596cp+3f /* from here on tanh rounds to 1, and so does this */
#define FV_TANH_MIN    0x1p-4f        /* the first interval reaches down to 0 */
#define FV_ERF_DEGREE  5
#define FV_ERF_MAX     0x1.f5a88cp+1f /* from here on erf rounds to 1 */
#define FV_ERF_MAGIC   0x1.8p+21f     /* ulp 1/4 */
#define FV_ERF_CENTRE  0x1.eece8p-4f

/* Two intervals per octave from 2^-4 on, addressed by the top bits of |x|: bits >> 22 mod 16. The
 * first row holds the centres. */
static const float fv_tanh_table[FV_TANH_DEGREE + 2][16] = {
    /* centre */
    {0x1.3e79ap+1f, 0x1.bea22p+1f, 0x1.4016ap+2f, 0x1.c0f4ap+2f, 0x1.116ecep+3f, 0x1.116ecep+3f,
     0x1.823e8p-5f, 0x1.bf2dcp-4f, 0x1.40facp-3f, 0x1.c0a24p-3f, 0x1.3e8eap-2f, 0x1.c016cp-2f,
     0x1.40834p-1f, 0x1.c171cp-1f, 0x1.410e2p+0f, 0x1.c13d8p+0f},
    /* c0 */
    {0x1.95eb96p-2f, 0x1.24eba2p-2f, 0x1.997328p-3f, 0x1.23f2cp-3f, 0x1.df5b7p-4f, 0x1.df5b7p-4f,
     0x1.ff9ef6p-1f, 0x1.fdf9b8p-1f, 0x1.fbd93cp-1f, 0x1.f7f6e4p-1f, 0x1.f0193cp-1f, 0x1.e1a4b4p-1f,
     0x1.c62b0ap-1f, 0x1.9b63e2p-1f, 0x1.5ac906p-1f, 0x1.12d1c2p-1f},
    /* c1 */
    {-0x1.2fe1cp-3f, -0x1.4b6cb4p-4f, -0x1.472c3ep-5f, -0x1.4ceffcp-6f, -0x1.c0cb84p-7f,
     -0x1.c0cb84p-7f, -0x1.0109eep-5f, -0x1.274c04p-4f, -0x1.a3afb4p-4f, -0x1.1feeeep-3f,
     -0x1.89b1bcp-3f, -0x1.01c8a6p-2f, -0x1.3fa062p-2f, -0x1.5f1a2p-2f, -0x1.45ab24p-2f,
     -0x1.eece48p-3f},
    /* c2 */
    {0x1.90210ep-5f, 0x1.6a7f94p-6f, 0x1.047b0ep-7f, 0x1.7ba15ap-9f, 0x1.a42d5cp-10f,
     0x1.a42d5cp-10f, -0x1.53842cp-2f, -0x1.4baf9ep-2f, -0x1.41b3a4p-2f, -0x1.2fdd32p-2f,
     -0x1.0d4856p-2f, -0x1.a5e922p-3f, -0x1.d6aa6ep-4f, -0x1.afab3p-7f, 0x1.0a3084p-4f,
     0x1.3bfb5p-4f},
    /* c3 */
    {-0x1.9e052p-7f, -0x1.713cd6p-8f, -0x1.9a5346p-10f, -0x1.b09dfep-12f, -0x1.895882p-13f,
     -0x1.895882p-13f, 0x1.9a36a8p-6f, 0x1.d18dfp-5f, 0x1.45c7f6p-4f, 0x1.b26da8p-4f,
     0x1.17f54ap-3f, 0x1.47268cp-3f, 0x1.3f65b4p-3f, 0x1.be5db8p-4f, 0x1.199b16p-5f,
     -0x1.1212e6p-7f},
    /* c4 */
    {0x1.d26d8ep-10f, 0x1.4b6f34p-10f, 0x1.3b5418p-12f, 0x1.ebdfd2p-15f, 0x1.7031eap-16f,
     0x1.7031eap-16f, 0x1.0d56b6p-3f, 0x1.fda5b4p-4f, 0x1.d441f6p-4f, 0x1.90d572p-4f,
     0x1.15ab48p-4f, 0x1.80467ep-6f, -0x1.dfea12p-6f, -0x1.c9638cp-5f, -0x1.3569e8p-5f,
     -0x1.1957cp-7f},
    /* c5 */
    {0x1.e1db56p-12f, -0x1.d6b916p-13f, -0x1.d050f6p-15f, -0x1.167016p-17f, -0x1.5ef75cp-19f,
     -0x1.5ef75cp-19f, -0x1.2dd30ap-6f, 0x1.2ab7d8p-5f, -0x1.d76c42p-6f, -0x1.e6a8p-6f,
     -0x1.0c66f8p-4f, -0x1.247702p-4f, -0x1.539792p-5f, -0x1.972188p-9f, 0x1.efc09ep-7f,
     0x1.cd2428p-8f},
    /* c6 */
    {-0x1.0aead6p-11f, 0x1.234796p-16f, 0x1.4852fp-17f, 0x1.436d7p-20f, 0x1.416db6p-22f,
     0x1.416db6p-22f, -0x1.6bb3ccp-5f, -0x1.4e2eb4p+0f, -0x1.d2bdp-6f, -0x1.09d942p-4f,
     -0x1.36d92cp-7f, 0x1.9f36bp-7f, 0x1.cd1846p-6f, 0x1.3635bap-6f, 0x1.f2f254p-13f,
     -0x1.7b4b54p-9f},
    /* c7 */
    {0x1.c74b4p-13f, 0x1.fefb92p-18f, -0x1.828f94p-20f, -0x1.63ba1p-23f, 0x1.a525p-25f,
     0x1.a525p-25f, 0x1.928a9ap-1f, -0x1.22414p+7f, -0x1.262dc2p+3f, -0x1.f3ea34p+3f,
     -0x1.06652cp-1f, 0x1.0aa504p-1f, -0x1.622f4p-13f, -0x1.7cc1c6p-7f, -0x1.06367ap-8f,
     0x1.0a6b3cp-11f},
};

/* Intervals of a quarter, [j/4, (j+1)/4). Here all centres are FV_ERF_CENTRE after the start. */
static const float fv_erf_table[FV_ERF_DEGREE + 1][16] = {
    /* c0 */
    {0x1.1f774ep+0f, 0x1.142796p+0f, 0x1.ff5c6ap-1f, 0x1.cbb528p-1f, 0x1.953766p-1f, 0x1.61e066p-1f,
     0x1.34f9dcp-1f, 0x1.0f72c8p-1f, 0x1.e18788p-2f, 0x1.af9366p-2f, 0x1.86a34cp-2f, 0x1.64ad5cp-2f,
     0x1.481e0ep-2f, 0x1.2fc8ep-2f, 0x1.1acf66p-2f, 0x1.088b6cp-2f},
    /* c1 */
    {-0x1.70fa38p-4f, -0x1.072f58p-2f, -0x1.7d70dp-2f, -0x1.b23998p-2f, -0x1.ad8b2p-2f,
     -0x1.839206p-2f, -0x1.49b97p-2f, -0x1.0f8ac2p-2f, -0x1.b9f83ep-3f, -0x1.688b8cp-3f,
     -0x1.293046p-3f, -0x1.f08c42p-4f, -0x1.a477c8p-4f, -0x1.687938p-4f, -0x1.386cfp-4f,
     -0x1.115fcp-4f},
    /* c2 */
    {-0x1.771d6p-2f, -0x1.2940a2p-2f, -0x1.56f92ep-3f, -0x1.552578p-5f, 0x1.b1f56cp-5f,
     0x1.a9086ep-4f, 0x1.df96aap-4f, 0x1.b9003p-4f, 0x1.6d5776p-4f, 0x1.1f6954p-4f, 0x1.bbfc2cp-5f,
     0x1.57812cp-5f, 0x1.0cec66p-5f, 0x1.ab8a76p-6f, 0x1.59208ep-6f, 0x1.1a8cep-6f},
    /* c3 */
    {0x1.b6ef64p-5f, 0x1.22a49p-3f, 0x1.66fe86p-3f, 0x1.37fddcp-3f, 0x1.8e4cfep-4f, 0x1.46c9f2p-5f,
     -0x1.c70ab2p-11f, -0x1.59e954p-6f, -0x1.ae5f08p-6f, -0x1.847812p-6f, -0x1.33ba1ap-6f,
     -0x1.cd318ep-7f, -0x1.5474d8p-7f, -0x1.f9740ep-8f, -0x1.7d17b6p-8f, -0x1.23750ap-8f},
    /* c4 */
    {0x1.b2e79ep-4f, 0x1.040438p-4f, 0x1.5f5464p-9f, -0x1.67b5fap-5f, -0x1.ee1c1p-5f,
     -0x1.9e7e3ep-5f, -0x1.ec45dap-6f, -0x1.7587a4p-7f, -0x1.1fcd2ep-12f, 0x1.1f5d76p-8f,
     0x1.45675cp-8f, 0x1.10ef14p-8f, 0x1.9704c4p-9f, 0x1.284b9ap-9f, 0x1.92924ap-10f,
     0x1.0fccacp-11f},
    /* c5 */
    {-0x1.31f09p-6f, -0x1.76177ep-5f, -0x1.75d026p-5f, -0x1.9f9f5p-6f, -0x1.34c2fcp-11f,
     0x1.c6dc3ep-7f, 0x1.118262p-6f, 0x1.7c5124p-7f, 0x1.851652p-8f, 0x1.9f4b1cp-10f,
     -0x1.707024p-15f, -0x1.5cb78ap-11f, -0x1.60789ep-11f, -0x1.5a506cp-11f, -0x1.0206bcp-12f,
     -0x1.14f40cp-8f},
};

/* min(x times the polynomial in h of interval j, 1) for x >= 0 or NaN. */
static inline float fv_piece_ref(float x, float h, uint32_t j, const float (*coef)[16], int degree)
{
    float p = coef[degree][j];
    for (int i = degree - 1; i >= 0; --i)
        p = fmaf(p, h, coef[i][j]);
    p = p * x;
    return 1.0f < p ? 1.0f : p;
}

static inline float fv_tanhf_ref(float x)
{
    float a = fabsf(x);
    a = FV_TANH_MAX < a ? FV_TANH_MAX : a;
    float floor = FV_TANH_MIN > a ? FV_TANH_MIN : a;
    uint32_t j = fv_float_bits(floor) >> 22 & 15;
    float h = a - fv_tanh_table[0][j];
    return copysignf(fv_piece_ref(a, h, j, fv_tanh_table + 1, FV_TANH_DEGREE), x);
}

static inline float fv_erff_ref(float x)
{
    float a = fabsf(x);
    a = FV_ERF_MAX < a ? FV_ERF_MAX : a;
    float t = (a - 0.125f) + FV_ERF_MAGIC; /* a's quarter, rounded down, in the low bits */
    uint32_t j = fv_float_bits(t) & 15;
    float h = (a - (t - FV_ERF_MAGIC)) - FV_ERF_CENTRE;
    return copysignf(fv_piece_ref(a, h, j, fv_erf_table, FV_ERF_DEGREE), x);
}

/* ---- the normal distribution ------------------------------------------------------
 * phi(x) = (1 + erf(x sqrt(1/2))) / 2, used by GELU. Since 1/2 is added, what counts is the
 * absolute error of phi(|x|) - 1/2: half as many intervals as for erf suffice, with centres at
 * plain midpoints. This saves a third of erf's operations.
 *
 * A NaN gives the value at infinity; GELU multiplies by x, which restores the NaN. */
#define FV_PHI_DEGREE 6
#define FV_PHI_SCALE  0x1.555556p+0f /* 4/3: intervals of three quarters */
#define FV_PHI_MAGIC  0x1.8p+23f     /* ulp 1 */
#define FV_PHI_MAX    0x1.64p+2f     /* from here on phi is 1 */

static const float fv_phi_table[FV_PHI_DEGREE + 1][8] = {
    /* c0 */
    {0, 0x1.17efp-2f, 0x1.bb96e4p-2f, 0x1.f37b6ep-2f, 0x1.fe9e22p-2f, 0x1.ffe8d2p-2f,
     0x1.ffff1cp-2f, 0x1.fffffap-2f},
    /* c1 */
    {0x1.32634p-2f, 0x1.ce8c18p-3f, 0x1.8de0eap-4f, 0x1.860414p-6f, 0x1.b3aa7cp-9f, 0x1.154cb8p-12f,
     0x1.9251c8p-17f, 0x1.5c68cap-22f},
    /* c2 */
    {-0x1.163ab4p-20f, -0x1.042fp-4f, -0x1.bf9cc2p-5f, -0x1.4914eap-6f, -0x1.ea2282p-9f,
     -0x1.85bc5ap-12f, -0x1.538588p-16f, -0x1.176c3cp-23f},
    /* c3 */
    {-0x1.cb62ecp-6f, -0x1.2fap-7f, 0x1.74e146p-7f, 0x1.2924fcp-7f, 0x1.46d564p-9f, 0x1.535958p-12f,
     0x1.69c2dep-16f, 0x1.a3a4b2p-22f},
    /* c4 */
    {-0x1.12c44p-14f, 0x1.dbab68p-8f, 0x1.f7a81ap-10f, -0x1.fc5d4cp-10f, -0x1.13a02ep-10f,
     -0x1.97ba58p-13f, -0x1.112aaap-16f, -0x1.59cb62p-18f},
    /* c5 */
    {0x1.4ecaecp-9f, -0x1.03bbecp-16f, -0x1.64a52cp-10f, -0x1.056dfp-13f, 0x1.0e7572p-12f,
     0x1.5ba322p-14f, 0x1.4862e6p-17f, 0x1.3c0e3ep-19f},
    /* c6 */
    {-0x1.1bf688p-12f, -0x1.1733ccp-11f, 0x1.d05c28p-14f, 0x1.637e9cp-13f, -0x1.3ddbbap-16f,
     -0x1.4ecf8ap-16f, -0x1.1bb83p-18f, 0x1.92587p-17f},
};

static inline float fv_phif_ref(float x)
{
    float a = fabsf(x);
    a = a < FV_PHI_MAX ? a : FV_PHI_MAX;
    float t = fmaf(a, FV_PHI_SCALE, FV_PHI_MAGIC);
    uint32_t j = fv_float_bits(t) & 7;
    float h = fmaf(a, FV_PHI_SCALE, FV_PHI_MAGIC - t);
    float p = fv_phi_table[FV_PHI_DEGREE][j];
    for (int i = FV_PHI_DEGREE - 1; i >= 0; --i)
        p = fmaf(p, h, fv_phi_table[i][j]);
    return 0.5f + copysignf(p, x);
}

#endif

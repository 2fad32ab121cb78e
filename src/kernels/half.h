/*
 * bf16 and f16 as uint16_t. Narrowing rounds to nearest even, overflow becomes infinity, a NaN
 * stays a NaN (made quiet, top payload bits kept). Widening is exact.
 *
 *     uint16_t b = fv_f32_to_bf16(1.5f);
 *     float x = fv_bf16_to_f32(b);
 *     uint16_t h = fv_f32_to_f16(fv_f64_to_f32_odd(d));    // a double, rounded once
 */
#ifndef FV_KERNELS_HALF_H
#define FV_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t fv_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float fv_f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float fv_bf16_to_f32(uint16_t b) { return fv_f32_from_bits((uint32_t)b << 16); }

static inline uint16_t fv_f32_to_bf16(float x)
{
    const uint32_t bits = fv_f32_bits(x);
    if (x != x) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* The nearest float that bf16 can hold. */
static inline float fv_round_bf16(float x) { return fv_bf16_to_f32(fv_f32_to_bf16(x)); }

static inline float fv_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0x1f) {
        const uint32_t quiet = mantissa ? 0x400000u : 0;
        return fv_f32_from_bits(sign | 0x7f800000u | quiet | mantissa << 13);
    }
    if (exponent == 0) { /* zero and subnormals: mantissa x 2^-24, exact */
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return fv_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t fv_f32_to_f16(float x)
{
    const uint32_t bits = fv_f32_bits(x);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and up */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14: adding 0.5 puts the units of 2^-24 into the last mantissa bits, and the
         * addition itself rounds to nearest even. */
        const float shifted = fv_f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (fv_f32_bits(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

/* Converts to float with the last bit set if anything was lost (round to odd): rounding the result
 * to bf16 or f16 then equals a single rounding. */
static inline float fv_f64_to_f32_odd(double d)
{
    const float f = (float)d;
    if (d != d || (double)f == d) return f;
    uint32_t bits = fv_f32_bits(f);
    if (__builtin_fabs((double)f) > __builtin_fabs(d)) bits--;
    return fv_f32_from_bits(bits | 1u);
}

#endif

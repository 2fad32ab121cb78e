/*
 * Transposes rows of four words while loading them: FV_TRANSPOSE_ROWS rows become four columns. On
 * x86 there are eight rows. Building each register from two half-width loads leaves two shuffles
 * per four floats. CPUs of this generation run two 256-bit shuffles per cycle but only one of 512
 * bits, so the AVX-512 level uses this as well. NEON transposes four rows.
 */
#ifndef FV_KERNELS_SIMD_TRANSPOSE_H
#define FV_KERNELS_SIMD_TRANSPOSE_H

#include <stdint.h>

#if FV_SIMD_LEVEL == 1

#include "kernels/simd/simd.h"

typedef float32x4_t fv_column;
enum { FV_TRANSPOSE_ROWS = 4 };

static inline fv_column fv_column_zero(void) { return vdupq_n_f32(0.0f); }
static inline void fv_column_store(float *to, fv_column x) { vst1q_f32(to, x); }

static inline fv_column fv_four_words(const char *row)
{
    return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)row));
}

static inline void fv_transpose_words(const void *rows, int64_t stride, fv_column out[4])
{
    const char *p = rows;
    for (int i = 0; i < 4; i++)
        out[i] = fv_four_words(p + i * stride);
    v_transpose4(out);
}

static inline void fv_transpose_rows(const char *const row[4], fv_column out[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = fv_four_words(row[i]);
    v_transpose4(out);
}

#else

#include <immintrin.h>

typedef __m256 fv_column;
enum { FV_TRANSPOSE_ROWS = 8 };

static inline fv_column fv_column_zero(void) { return _mm256_setzero_ps(); }
static inline void fv_column_store(float *to, fv_column x) { _mm256_storeu_ps(to, x); }

static inline __m256 fv_two_rows(const char *low, const char *high)
{
    const __m128i a = _mm_loadu_si128((const void *)low), b = _mm_loadu_si128((const void *)high);
    return _mm256_castsi256_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1));
}

/* The remaining shuffles once r_i holds four words of row i and of row i + 4. */
static inline void fv_transpose_pairs(__m256 r0, __m256 r1, __m256 r2, __m256 r3, __m256 out[4])
{
    const __m256 even01 = _mm256_unpacklo_ps(r0, r1), odd01 = _mm256_unpackhi_ps(r0, r1);
    const __m256 even23 = _mm256_unpacklo_ps(r2, r3), odd23 = _mm256_unpackhi_ps(r2, r3);
    out[0] = _mm256_shuffle_ps(even01, even23, 0x44);
    out[1] = _mm256_shuffle_ps(even01, even23, 0xee);
    out[2] = _mm256_shuffle_ps(odd01, odd23, 0x44);
    out[3] = _mm256_shuffle_ps(odd01, odd23, 0xee);
}

/* Eight rows of four words, `stride` bytes apart: out[i] holds word i of each. */
static inline void fv_transpose_words(const void *rows, int64_t stride, __m256 out[4])
{
    const char *p = rows, *high = p + 4 * stride;
    fv_transpose_pairs(fv_two_rows(p, high), fv_two_rows(p + stride, high + stride),
                       fv_two_rows(p + 2 * stride, high + 2 * stride),
                       fv_two_rows(p + 3 * stride, high + 3 * stride), out);
}

/* The same for rows at any addresses. */
static inline void fv_transpose_rows(const char *const row[8], __m256 out[4])
{
    fv_transpose_pairs(fv_two_rows(row[0], row[4]), fv_two_rows(row[1], row[5]),
                       fv_two_rows(row[2], row[6]), fv_two_rows(row[3], row[7]), out);
}

#endif

/* out[i] holds p[i], p[i + stride], ..., one of each row, for i in [0, 4). */
static inline void fv_transpose_floats(const float *p, int64_t stride, fv_column out[4])
{
    fv_transpose_words(p, stride * (int64_t)sizeof *p, out);
}

#endif

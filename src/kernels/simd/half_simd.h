/*
 * Sixteen bf16 or f16 numbers as one vector of floats, and back. The same values, bit for bit, as
 * kernels/half.h gives one at a time.
 *
 *     V_LOOP(n, 0, v_store(y + i, count, v_load_half(FV_BF16, x + i, count)));
 */
#ifndef FV_KERNELS_SIMD_HALF_SIMD_H
#define FV_KERNELS_SIMD_HALF_SIMD_H

#include "kernels/simd/simd.h"

#if FV_SIMD_LEVEL == 3

/* The numbers as they are stored, zeros behind them. */
V_INLINE __m256i v_load_words(const uint16_t *p, int count)
{
    return count == FV_LANES ? _mm256_loadu_si256((const __m256i *)p)
                             : _mm256_maskz_loadu_epi16(v_first(count), p);
}

V_INLINE vf v_load_half(fv_dtype type, const uint16_t *p, int count)
{
    const __m256i bits = v_load_words(p, count);
    if (type == FV_F16) return _mm512_cvtph_ps(bits);
    return vf_of(vi_shl(_mm512_cvtepu16_epi32(bits), 16));
}

V_INLINE void v_store_words(uint16_t *p, int count, __m256i words)
{
    if (count == FV_LANES)
        _mm256_storeu_si256((__m256i *)p, words);
    else
        _mm256_mask_storeu_epi16(p, v_first(count), words);
}

V_INLINE __m256i v_low_words(vi a) { return _mm512_cvtepi32_epi16(a); }
V_INLINE __m256i v_to_f16(vf a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT); }

#else

V_INLINE __m256i v_load_words(const uint16_t *p, int count)
{
    if (count == FV_LANES) return _mm256_loadu_si256((const __m256i *)p);
    uint16_t all[FV_LANES] = {0};
    memcpy(all, p, (size_t)count * sizeof *p);
    return _mm256_loadu_si256((const __m256i *)all);
}

V_INLINE vf v_load_half(fv_dtype type, const uint16_t *p, int count)
{
    uint16_t all[FV_LANES] = {0};
    if (count < FV_LANES) {
        memcpy(all, p, (size_t)count * sizeof *p);
        p = all;
    }
    const __m128i low = _mm_loadu_si128((const __m128i *)p);
    const __m128i high = _mm_loadu_si128((const __m128i *)(p + 8));
    if (type == FV_F16) return (vf){_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
    const vi words = {_mm256_cvtepu16_epi32(low), _mm256_cvtepu16_epi32(high)};
    return vf_of(vi_shl(words, 16));
}

V_INLINE void v_store_words(uint16_t *p, int count, __m256i words)
{
    if (count == FV_LANES) {
        _mm256_storeu_si256((__m256i *)p, words);
        return;
    }
    uint16_t all[FV_LANES];
    _mm256_storeu_si256((__m256i *)all, words);
    memcpy(p, all, (size_t)count * sizeof *p);
}

/* The pack works within halves, so put them in order. */
V_INLINE __m256i v_low_words(vi a)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a.a, a.b), 0xd8);
}
V_INLINE __m256i v_to_f16(vf a)
{
    const __m128i low = _mm256_cvtps_ph(a.a, _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(a.b, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

#endif

V_INLINE __m256i v_to_bf16(vf a)
{
    const vi bits = vi_of(a), high = vi_shr(bits, 16);
    const vi even = vi_add(vi_set(0x7fffu), vi_and(high, vi_set(1)));
    const vf rounded = vf_of(vi_shr(vi_add(bits, even), 16));
    const vf quiet = vf_of(vi_or(high, vi_set(0x40)));
    return v_low_words(vi_of(v_select(v_nan(a), quiet, rounded)));
}

V_INLINE void v_store_half(fv_dtype type, uint16_t *p, int count, vf a)
{
    v_store_words(p, count, type == FV_F16 ? v_to_f16(a) : v_to_bf16(a));
}

#endif

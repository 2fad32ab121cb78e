/*
 * Sixteen bf16 or f16 numbers as one vector of floats, and back. The same values, bit for bit, as
 * kernels/half.h gives one at a time.
 *
 *     V_LOOP(n, 0, v_store(y + i, count, v_load_half(FV_BF16, x + i, count)));
 */
#ifndef FV_KERNELS_SIMD_HALF_SIMD_H
#define FV_KERNELS_SIMD_HALF_SIMD_H

#include "kernels/simd/simd.h"

#if FV_SIMD_LEVEL == 1
#include "kernels/simd/half_neon.h"
#else
/* Sixteen 16-bit numbers. */
typedef __m256i v_words;
V_INLINE v_words v_words_zero(void) { return _mm256_setzero_si256(); }
/* The larger of `largest` and the words without their sign bits. */
V_INLINE v_words v_words_max_size(v_words largest, v_words words)
{
    return _mm256_max_epu16(largest, _mm256_and_si256(words, _mm256_set1_epi16(0x7fff)));
}
/* Whether one of the words, below 0x8000, exceeds `limit`. */
V_INLINE bool v_words_exceed(v_words words, uint16_t limit)
{
    const __m256i beyond = _mm256_cmpgt_epi16(words, _mm256_set1_epi16((short)limit));
    return !_mm256_testz_si256(beyond, beyond);
}
/* Sixteen pairs: the low half of word i is even[i], the high half odd[i]. */
V_INLINE void v_store_interleaved(uint32_t *out, v_words even, v_words odd)
{
    const __m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_permute2x128_si256(low, high, 0x31));
}
#endif

#if FV_SIMD_LEVEL == 3

/* The stored 16-bit numbers, zeros past them. */
V_INLINE v_words v_load_words(const uint16_t *p, int count)
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

V_INLINE void v_store_words(uint16_t *p, int count, v_words words)
{
    if (count == FV_LANES)
        _mm256_storeu_si256((__m256i *)p, words);
    else
        _mm256_mask_storeu_epi16(p, v_first(count), words);
}

V_INLINE v_words v_low_words(vi a) { return _mm512_cvtepi32_epi16(a); }
V_INLINE v_words v_to_f16(vf a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT); }

/* The upper 16 bits become the nearest bf16, ties to even. */
V_INLINE vi v_round_bf16(vi bits)
{
    const vi odd = vi_and(vi_shr(bits, 16), vi_set(1));
    return vi_add(vi_add(bits, vi_set(0x7fffu)), odd);
}

typedef __mmask16 v_nans;
V_INLINE v_nans v_nans_none(void) { return 0; }
V_INLINE v_nans v_nans_with(v_nans seen, vf a) { return (v_nans)(seen | v_nan(a)); }
V_INLINE bool v_nans_any(v_nans seen) { return seen != 0; }

#elif FV_SIMD_LEVEL == 2

V_INLINE v_words v_load_words(const uint16_t *p, int count)
{
    if (count == FV_LANES) return _mm256_loadu_si256((const __m256i *)p);
    uint16_t all[FV_LANES] = {0};
    memcpy(all, p, (size_t)count * sizeof *p);
    return _mm256_loadu_si256((const __m256i *)all);
}

V_INLINE vf v_load_half(fv_dtype type, const uint16_t *p, int count)
{
    /* The f16 conversion reads its operand from memory. */
    if (type == FV_F16 && count == FV_LANES)
        return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
    const __m256i words = v_load_words(p, count);
    if (type == FV_F16)
        return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(words)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1))};
    /* Interleaves with zeros; the unpack works within 128-bit halves, hence the permutation. */
    const __m256i apart = _mm256_permute4x64_epi64(words, 0xd8), zero = _mm256_setzero_si256();
    return vf_of((vi){_mm256_unpacklo_epi16(zero, apart), _mm256_unpackhi_epi16(zero, apart)});
}

V_INLINE void v_store_words(uint16_t *p, int count, v_words words)
{
    if (count == FV_LANES) {
        _mm256_storeu_si256((__m256i *)p, words);
        return;
    }
    uint16_t all[FV_LANES];
    _mm256_storeu_si256((__m256i *)all, words);
    memcpy(p, all, (size_t)count * sizeof *p);
}

/* The pack works within 128-bit halves, hence the permutation. */
V_INLINE v_words v_low_words(vi a)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a.a, a.b), 0xd8);
}
V_INLINE v_words v_to_f16(vf a)
{
    const __m128i low = _mm256_cvtps_ph(a.a, _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(a.b, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Uses a comparison instead of a shift, which has fewer execution ports. */
V_INLINE __m256i v_round_bf16_half(__m256i bits)
{
    const __m256i last = _mm256_set1_epi32(0x10000);
    const __m256i odd = _mm256_cmpeq_epi32(_mm256_and_si256(bits, last), last);
    return _mm256_sub_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}
V_INLINE vi v_round_bf16(vi bits)
{
    return (vi){v_round_bf16_half(bits.a), v_round_bf16_half(bits.b)};
}

/* One comparison finds a NaN in either half. */
typedef __m256 v_nans;
V_INLINE v_nans v_nans_none(void) { return _mm256_setzero_ps(); }
V_INLINE v_nans v_nans_with(v_nans seen, vf a)
{
    return _mm256_or_ps(seen, _mm256_cmp_ps(a.a, a.b, _CMP_UNORD_Q));
}
V_INLINE bool v_nans_any(v_nans seen) { return _mm256_movemask_ps(seen) != 0; }

#endif

/*
 * Rounded to nearest even. v_to_bf16 preserves NaN. v_number_to_bf16 does not: its caller collects
 * the NaNs among its inputs and repeats the work with v_to_bf16 if there were any.
 */
V_INLINE v_words v_number_to_bf16(vf a) { return v_low_words(vi_shr(v_round_bf16(vi_of(a)), 16)); }
V_INLINE v_words v_to_bf16(vf a)
{
    const vf rounded = vf_of(vi_shr(v_round_bf16(vi_of(a)), 16));
    const vf quiet = vf_of(vi_or(vi_shr(vi_of(a), 16), vi_set(0x40)));
    return v_low_words(vi_of(v_select(v_nan(a), quiet, rounded)));
}

V_INLINE void v_store_half(fv_dtype type, uint16_t *p, int count, vf a)
{
    v_store_words(p, count, type == FV_F16 ? v_to_f16(a) : v_to_bf16(a));
}

#endif

/*
 * Neighbouring elements of an array in two vectors: every second column of an image.
 *
 *     vf even, odd;
 *     v_load_pairs(x + 2 * i, count, &even, &odd);      // even: x[0], x[2], ..; odd: x[1], x[3],
 * .. v_store_pairs(y + 2 * i, count, odd, even);       // neighbours exchanged
 *
 * Both move 2 count elements, count at most FV_LANES, and touch nothing past them; lanes past count
 * are 0.
 */
#ifndef FV_KERNELS_SIMD_PAIRS_H
#define FV_KERNELS_SIMD_PAIRS_H

#include "kernels/simd/simd.h"

#if FV_SIMD_LEVEL == 3

V_INLINE void v_unzip(vf a, vf b, vf *even, vf *odd)
{
    const vi at = vi_add(vi_count(), vi_count());
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, vi_add(at, vi_set(1)), b);
}
V_INLINE void v_zip(vf even, vf odd, vf *a, vf *b)
{
    const vi low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *a = _mm512_permutex2var_ps(even, low, odd);
    *b = _mm512_permutex2var_ps(even, vi_add(low, vi_set(8)), odd);
}

#elif FV_SIMD_LEVEL == 2

V_INLINE __m256 v_in_order(__m256 pairs)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xd8));
}
V_INLINE void v_unzip(vf a, vf b, vf *even, vf *odd)
{
    *even = (vf){v_in_order(_mm256_shuffle_ps(a.a, a.b, 0x88)),
                 v_in_order(_mm256_shuffle_ps(b.a, b.b, 0x88))};
    *odd = (vf){v_in_order(_mm256_shuffle_ps(a.a, a.b, 0xdd)),
                v_in_order(_mm256_shuffle_ps(b.a, b.b, 0xdd))};
}
V_INLINE vf v_zip8(__m256 even, __m256 odd)
{
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    return (vf){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}
V_INLINE void v_zip(vf even, vf odd, vf *a, vf *b)
{
    *a = v_zip8(even.a, odd.a);
    *b = v_zip8(even.b, odd.b);
}

#else

V_INLINE void v_unzip(vf a, vf b, vf *even, vf *odd)
{
    *even = (vf){vuzp1q_f32(a.a, a.b), vuzp1q_f32(a.c, a.d), vuzp1q_f32(b.a, b.b),
                 vuzp1q_f32(b.c, b.d)};
    *odd = (vf){vuzp2q_f32(a.a, a.b), vuzp2q_f32(a.c, a.d), vuzp2q_f32(b.a, b.b),
                vuzp2q_f32(b.c, b.d)};
}
V_INLINE void v_zip(vf even, vf odd, vf *a, vf *b)
{
    *a = (vf){vzip1q_f32(even.a, odd.a), vzip2q_f32(even.a, odd.a), vzip1q_f32(even.b, odd.b),
              vzip2q_f32(even.b, odd.b)};
    *b = (vf){vzip1q_f32(even.c, odd.c), vzip2q_f32(even.c, odd.c), vzip1q_f32(even.d, odd.d),
              vzip2q_f32(even.d, odd.d)};
}

#endif

V_INLINE void v_load_pairs(const float *p, int count, vf *even, vf *odd)
{
    const int first = 2 * count < FV_LANES ? 2 * count : FV_LANES, rest = 2 * count - first;
    v_unzip(v_load(p, first), rest > 0 ? v_load(p + FV_LANES, rest) : v_zero(), even, odd);
}

V_INLINE void v_store_pairs(float *p, int count, vf even, vf odd)
{
    const int first = 2 * count < FV_LANES ? 2 * count : FV_LANES, rest = 2 * count - first;
    vf a, b;
    v_zip(even, odd, &a, &b);
    v_store(p, first, a);
    if (rest > 0) v_store(p + FV_LANES, rest, b);
}

#endif

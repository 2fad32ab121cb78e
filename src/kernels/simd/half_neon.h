/* The NEON level of half_simd.h, which has the contracts. */
#ifndef FV_KERNELS_SIMD_HALF_NEON_H
#define FV_KERNELS_SIMD_HALF_NEON_H

#include "kernels/simd/simd.h"

typedef struct v_words {
    uint16x8_t a, b;
} v_words;

V_INLINE v_words v_words_zero(void) { return (v_words){vdupq_n_u16(0), vdupq_n_u16(0)}; }
V_INLINE v_words v_words_max_size(v_words largest, v_words words)
{
    const uint16x8_t size = vdupq_n_u16(0x7fff);
    return (v_words){vmaxq_u16(largest.a, vandq_u16(words.a, size)),
                     vmaxq_u16(largest.b, vandq_u16(words.b, size))};
}
V_INLINE bool v_words_exceed(v_words words, uint16_t limit)
{
    return vmaxvq_u16(vmaxq_u16(words.a, words.b)) > limit;
}
V_INLINE void v_store_interleaved(uint32_t *out, v_words even, v_words odd)
{
    vst1q_u32(out, vreinterpretq_u32_u16(vzip1q_u16(even.a, odd.a)));
    vst1q_u32(out + 4, vreinterpretq_u32_u16(vzip2q_u16(even.a, odd.a)));
    vst1q_u32(out + 8, vreinterpretq_u32_u16(vzip1q_u16(even.b, odd.b)));
    vst1q_u32(out + 12, vreinterpretq_u32_u16(vzip2q_u16(even.b, odd.b)));
}

V_INLINE v_words v_load_words(const uint16_t *p, int count)
{
    if (count == FV_LANES) return (v_words){vld1q_u16(p), vld1q_u16(p + 8)};
    uint16_t all[FV_LANES] = {0};
    memcpy(all, p, (size_t)count * sizeof *p);
    return (v_words){vld1q_u16(all), vld1q_u16(all + 8)};
}

V_INLINE float32x4_t v_from_f16(uint16x4_t bits)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}
V_INLINE vf v_load_half(fv_dtype type, const uint16_t *p, int count)
{
    const v_words words = v_load_words(p, count);
    if (type == FV_F16)
        return (vf){v_from_f16(vget_low_u16(words.a)), v_from_f16(vget_high_u16(words.a)),
                    v_from_f16(vget_low_u16(words.b)), v_from_f16(vget_high_u16(words.b))};
    return vf_of((vi){vshll_n_u16(vget_low_u16(words.a), 16), vshll_high_n_u16(words.a, 16),
                      vshll_n_u16(vget_low_u16(words.b), 16), vshll_high_n_u16(words.b, 16)});
}

V_INLINE void v_store_words(uint16_t *p, int count, v_words words)
{
    if (count == FV_LANES) {
        vst1q_u16(p, words.a);
        vst1q_u16(p + 8, words.b);
        return;
    }
    uint16_t all[FV_LANES];
    vst1q_u16(all, words.a);
    vst1q_u16(all + 8, words.b);
    memcpy(p, all, (size_t)count * sizeof *p);
}

V_INLINE v_words v_low_words(vi a)
{
    return (v_words){vuzp1q_u16(vreinterpretq_u16_u32(a.a), vreinterpretq_u16_u32(a.b)),
                     vuzp1q_u16(vreinterpretq_u16_u32(a.c), vreinterpretq_u16_u32(a.d))};
}
V_INLINE uint16x8_t v_to_f16_8(float32x4_t low, float32x4_t high)
{
    return vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(low)),
                        vreinterpret_u16_f16(vcvt_f16_f32(high)));
}
V_INLINE v_words v_to_f16(vf a) { return (v_words){v_to_f16_8(a.a, a.b), v_to_f16_8(a.c, a.d)}; }

V_INLINE vi v_round_bf16(vi bits)
{
    const vi odd = vi_and(vi_shr(bits, 16), vi_set(1));
    return vi_add(vi_add(bits, vi_set(0x7fffu)), odd);
}

/* All bits of a lane stay set while its numbers are equal to themselves. */
typedef uint32x4_t v_nans;
V_INLINE v_nans v_nans_none(void) { return vdupq_n_u32(0xffffffffu); }
V_INLINE v_nans v_nans_with(v_nans seen, vf a)
{
    const vm same = v_eq(a, a);
    return vandq_u32(vandq_u32(seen, vandq_u32(same.a, same.b)), vandq_u32(same.c, same.d));
}
V_INLINE bool v_nans_any(v_nans seen) { return vminvq_u32(seen) == 0; }

#endif

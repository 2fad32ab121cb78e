/*
 * Sixteen floats as one value, for AVX-512, AVX2 and NEON.
 *
 * The files of this folder compile once per level: FV_SIMD_LEVEL 2 and 3 on x86-64, 1 on aarch64.
 * They use one vector type `vf` of FV_LANES floats: one register with AVX-512, two with AVX2, four
 * with NEON (simd_neon.h). All levels and the reference use the same lanes, so every sum has the
 * same bits.
 *
 *     V_LOOP(n, 0,                                   // n elements, any number
 *            vf v = v_load(x + i, count);            // `count` lanes, zeros past them
 *            v_store(y + i, count, v_mul(v, v)));    // writes `count` lanes only
 *
 * Nothing here reads or writes past the `count` elements it is given.
 *
 * Comparisons and v_min/v_max have the semantics of the x86 instructions: v_min(a, b) is a < b ? a
 * : b and v_max(a, b) is a > b ? a : b, so that a NaN gives b.
 */
#ifndef FV_KERNELS_SIMD_SIMD_H
#define FV_KERNELS_SIMD_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd/names.h"
#include "kernels/simd/prefetch.h"

#include "kernels/kernel.h"

#define V_INLINE static inline __attribute__((always_inline))

/* Runs a body over n elements in steps of 16. `i` is the first element of a step; `count` is a
 * constant 16 in the main loop and a variable for the first `head` elements (0: no such step) and
 * for the last ones. */
#define V_LOOP(n, head, ...)                                                                       \
    do {                                                                                           \
        const int64_t end_ = (n);                                                                  \
        int64_t i = 0, part_ = (head);                                                             \
        for (;;) {                                                                                 \
            if (part_ > 0) {                                                                       \
                const int count = (int)part_;                                                      \
                __VA_ARGS__;                                                                       \
                i += part_;                                                                        \
            }                                                                                      \
            for (; i + FV_LANES <= end_; i += FV_LANES) {                                          \
                enum { count = FV_LANES };                                                         \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
            part_ = end_ - i;                                                                      \
            if (part_ <= 0) break;                                                                 \
        }                                                                                          \
    } while (0)

#if FV_SIMD_LEVEL == 1
#include "kernels/simd/simd_neon.h"
#else
#include <immintrin.h>
#endif

#if FV_SIMD_LEVEL == 3

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

V_INLINE vm v_first(int count) { return (vm)((1u << count) - 1); }
V_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
V_INLINE vf v_load(const float *p, int count)
{
    return count == FV_LANES ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v_first(count), p);
}
V_INLINE void v_store(float *p, int count, vf v)
{
    if (count == FV_LANES)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, v_first(count), v);
}
V_INLINE void v_stream(float *p, vf v) { _mm512_stream_ps(p, v); }

V_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
V_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
V_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
V_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
V_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
V_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
V_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
/* |a| < limit ? |a| : limit; the limit is not negative. */
V_INLINE vf v_min_abs(vf a, float limit) { return _mm512_range_ps(a, v_set(limit), 0xa); }
V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE vf v_and(vf a, vf b) { return _mm512_and_ps(a, b); }
V_INLINE vf v_or(vf a, vf b) { return _mm512_or_ps(a, b); }
V_INLINE vf v_xor(vf a, vf b) { return _mm512_xor_ps(a, b); }

V_INLINE vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
V_INLINE vm v_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
V_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
V_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
V_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
V_INLINE vm vm_and(vm a, vm b) { return (vm)(a & b); }
V_INLINE vm vm_not(vm a) { return (vm)~a; }
V_INLINE vm vm_none(void) { return 0; }
V_INLINE uint32_t vm_bits(vm m) { return m; }

V_INLINE vi vi_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
V_INLINE vi vi_count(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
V_INLINE vi vi_of(vf a) { return _mm512_castps_si512(a); }
V_INLINE vf vf_of(vi a) { return _mm512_castsi512_ps(a); }
V_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
V_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
V_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
V_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
V_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
#define vi_shl(a, k) _mm512_slli_epi32(a, k)
#define vi_shr(a, k) _mm512_srli_epi32(a, k)
#define vi_sar(a, k) _mm512_srai_epi32(a, k)
V_INLINE vf vi_to_float(vi a) { return _mm512_cvtepi32_ps(a); }
V_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
/* Lanes in which a and b share a set bit; whether there is any. */
V_INLINE vm vi_test(vi a, vi b) { return _mm512_test_epi32_mask(a, b); }
V_INLINE bool vi_any(vi a, vi b) { return _mm512_test_epi32_mask(a, b) != 0; }
/* High halves of the 32 x 32 bit products, and the low halves. */
V_INLINE void vi_mul_wide(vi a, vi b, vi *high, vi *low)
{
    const vi even = _mm512_mul_epu32(a, b);
    const vi odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    *low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

/* table[index mod 8] and table[index mod 16] in each lane. */
V_INLINE vf v_lookup8(const float *table, vi index)
{
    return _mm512_permutexvar_ps(index, _mm512_broadcast_f32x8(_mm256_loadu_ps(table)));
}
V_INLINE vf v_lookup(const float *table, vi index)
{
    return _mm512_permutexvar_ps(index, _mm512_loadu_ps(table));
}

V_INLINE __m256 v_low(vf v) { return _mm512_castps512_ps256(v); }
V_INLINE __m256 v_high(vf v) { return _mm512_extractf32x8_ps(v, 1); }

/* Transposes the 4 x 4 blocks of words that the four 128-bit quarters of w[0..3] form. */
V_INLINE void vi_transpose4(vi w[4])
{
    const vi a = _mm512_unpacklo_epi32(w[0], w[1]), b = _mm512_unpackhi_epi32(w[0], w[1]);
    const vi c = _mm512_unpacklo_epi32(w[2], w[3]), d = _mm512_unpackhi_epi32(w[2], w[3]);
    w[0] = _mm512_unpacklo_epi64(a, c);
    w[1] = _mm512_unpackhi_epi64(a, c);
    w[2] = _mm512_unpacklo_epi64(b, d);
    w[3] = _mm512_unpackhi_epi64(b, d);
}

/* `count` bytes: 1 in the lanes of m, 0 elsewhere. */
V_INLINE void vm_store_bytes(uint8_t *p, int count, vm m)
{
    const __m128i bytes = _mm_maskz_set1_epi8(m, 1);
    if (count == FV_LANES)
        _mm_storeu_si128((__m128i *)p, bytes);
    else
        _mm_mask_storeu_epi8(p, v_first(count), bytes);
}
/* Lanes whose byte is not zero. */
V_INLINE vm vm_load_bytes(const uint8_t *p, int count)
{
    const __m128i bytes = _mm_maskz_loadu_epi8(v_first(count), p);
    return _mm_test_epi8_mask(bytes, bytes);
}

#elif FV_SIMD_LEVEL == 2

typedef struct vf {
    __m256 a, b;
} vf;
typedef struct vi {
    __m256i a, b;
} vi;
typedef struct vm {
    __m256 a, b; /* all bits of a lane set, or none */
} vm;

#define VF_(op, x, y) ((vf){op((x).a, (y).a), op((x).b, (y).b)})
#define VI_(op, x, y) ((vi){op((x).a, (y).a), op((x).b, (y).b)})
#define VM_(op, x, y) ((vm){op((x).a, (y).a), op((x).b, (y).b)})
#define VC_(p, x, y)  ((vm){_mm256_cmp_ps((x).a, (y).a, p), _mm256_cmp_ps((x).b, (y).b, p)})

V_INLINE __m256i v_first8(int count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
V_INLINE vm v_first(int count)
{
    return (vm){_mm256_castsi256_ps(v_first8(count)), _mm256_castsi256_ps(v_first8(count - 8))};
}
V_INLINE vf v_set(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
V_INLINE vf v_load(const float *p, int count)
{
    if (count == FV_LANES) return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    const __m256 zero = _mm256_setzero_ps();
    return (vf){_mm256_maskload_ps(p, v_first8(count)),
                count > 8 ? _mm256_maskload_ps(p + 8, v_first8(count - 8)) : zero};
}
V_INLINE void v_store(float *p, int count, vf v)
{
    if (count == FV_LANES) {
        _mm256_storeu_ps(p, v.a);
        _mm256_storeu_ps(p + 8, v.b);
        return;
    }
    _mm256_maskstore_ps(p, v_first8(count), v.a);
    if (count > 8) _mm256_maskstore_ps(p + 8, v_first8(count - 8), v.b);
}
V_INLINE void v_stream(float *p, vf v)
{
    _mm256_stream_ps(p, v.a);
    _mm256_stream_ps(p + 8, v.b);
}

V_INLINE vf v_add(vf a, vf b) { return VF_(_mm256_add_ps, a, b); }
V_INLINE vf v_sub(vf a, vf b) { return VF_(_mm256_sub_ps, a, b); }
V_INLINE vf v_mul(vf a, vf b) { return VF_(_mm256_mul_ps, a, b); }
V_INLINE vf v_div(vf a, vf b) { return VF_(_mm256_div_ps, a, b); }
V_INLINE vf v_sqrt(vf a) { return (vf){_mm256_sqrt_ps(a.a), _mm256_sqrt_ps(a.b)}; }
V_INLINE vf v_floor(vf a)
{
    enum { DOWN = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC };
    return (vf){_mm256_round_ps(a.a, DOWN), _mm256_round_ps(a.b, DOWN)};
}
V_INLINE vf v_min(vf a, vf b) { return VF_(_mm256_min_ps, a, b); }
V_INLINE vf v_max(vf a, vf b) { return VF_(_mm256_max_ps, a, b); }
V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return (vf){_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)};
}
V_INLINE vf v_and(vf a, vf b) { return VF_(_mm256_and_ps, a, b); }
V_INLINE vf v_or(vf a, vf b) { return VF_(_mm256_or_ps, a, b); }
V_INLINE vf v_xor(vf a, vf b) { return VF_(_mm256_xor_ps, a, b); }

V_INLINE vm v_eq(vf a, vf b) { return VC_(_CMP_EQ_OQ, a, b); }
V_INLINE vm v_ne(vf a, vf b) { return VC_(_CMP_NEQ_UQ, a, b); }
V_INLINE vm v_lt(vf a, vf b) { return VC_(_CMP_LT_OQ, a, b); }
V_INLINE vm v_le(vf a, vf b) { return VC_(_CMP_LE_OQ, a, b); }
V_INLINE vf v_select(vm m, vf yes, vf no)
{
    return (vf){_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
V_INLINE vm vm_or(vm a, vm b) { return VM_(_mm256_or_ps, a, b); }
V_INLINE vm vm_and(vm a, vm b) { return VM_(_mm256_and_ps, a, b); }
V_INLINE vm vm_none(void) { return (vm){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
V_INLINE uint32_t vm_bits(vm m)
{
    return (uint32_t)_mm256_movemask_ps(m.a) | (uint32_t)_mm256_movemask_ps(m.b) << 8;
}

V_INLINE vi vi_set(uint32_t x)
{
    return (vi){_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)};
}
V_INLINE vi vi_count(void)
{
    return (vi){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
V_INLINE vi vi_of(vf a) { return (vi){_mm256_castps_si256(a.a), _mm256_castps_si256(a.b)}; }
V_INLINE vf vf_of(vi a) { return (vf){_mm256_castsi256_ps(a.a), _mm256_castsi256_ps(a.b)}; }
V_INLINE vi vi_add(vi a, vi b) { return VI_(_mm256_add_epi32, a, b); }
V_INLINE vi vi_sub(vi a, vi b) { return VI_(_mm256_sub_epi32, a, b); }
V_INLINE vi vi_and(vi a, vi b) { return VI_(_mm256_and_si256, a, b); }
V_INLINE vi vi_or(vi a, vi b) { return VI_(_mm256_or_si256, a, b); }
V_INLINE vi vi_xor(vi a, vi b) { return VI_(_mm256_xor_si256, a, b); }
#define vi_shl(x, k)  ((vi){_mm256_slli_epi32((x).a, k), _mm256_slli_epi32((x).b, k)})
#define vi_shr(x, k)  ((vi){_mm256_srli_epi32((x).a, k), _mm256_srli_epi32((x).b, k)})
#define vi_sar(x, k)  ((vi){_mm256_srai_epi32((x).a, k), _mm256_srai_epi32((x).b, k)})
V_INLINE vf vi_to_float(vi a) { return (vf){_mm256_cvtepi32_ps(a.a), _mm256_cvtepi32_ps(a.b)}; }
V_INLINE vm vm_of(vi a) { return (vm){_mm256_castsi256_ps(a.a), _mm256_castsi256_ps(a.b)}; }
V_INLINE vm vi_eq(vi a, vi b) { return vm_of(VI_(_mm256_cmpeq_epi32, a, b)); }
V_INLINE vm vm_not(vm m)
{
    const __m256 ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    return (vm){_mm256_xor_ps(m.a, ones), _mm256_xor_ps(m.b, ones)};
}
V_INLINE vm vi_test(vi a, vi b) { return vm_not(vi_eq(vi_and(a, b), vi_set(0))); }
V_INLINE bool vi_any(vi a, vi b)
{
    const vi both = vi_and(a, b);
    const __m256i all = _mm256_or_si256(both.a, both.b);
    return !_mm256_testz_si256(all, all);
}
V_INLINE void vi_mul_wide8(__m256i a, __m256i b, __m256i *high, __m256i *low)
{
    const __m256i even = _mm256_mul_epu32(a, b);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
V_INLINE void vi_mul_wide(vi a, vi b, vi *high, vi *low)
{
    vi_mul_wide8(a.a, b.a, &high->a, &low->a);
    vi_mul_wide8(a.b, b.b, &high->b, &low->b);
}

V_INLINE vf v_lookup8(const float *table, vi index)
{
    const __m256 all = _mm256_loadu_ps(table);
    return (vf){_mm256_permutevar8x32_ps(all, index.a), _mm256_permutevar8x32_ps(all, index.b)};
}
V_INLINE vf v_lookup(const float *table, vi index)
{
    const vf low = v_lookup8(table, index), high = v_lookup8(table + 8, index);
    const vi choice = vi_shl(index, 28); /* bit 3 to the sign bit, which the blend tests */
    return v_select(vm_of(choice), high, low);
}

V_INLINE __m256 v_low(vf v) { return v.a; }
V_INLINE __m256 v_high(vf v) { return v.b; }

V_INLINE void vi_transpose4(vi w[4])
{
    const vi a = VI_(_mm256_unpacklo_epi32, w[0], w[1]), b = VI_(_mm256_unpackhi_epi32, w[0], w[1]);
    const vi c = VI_(_mm256_unpacklo_epi32, w[2], w[3]), d = VI_(_mm256_unpackhi_epi32, w[2], w[3]);
    w[0] = VI_(_mm256_unpacklo_epi64, a, c);
    w[1] = VI_(_mm256_unpackhi_epi64, a, c);
    w[2] = VI_(_mm256_unpacklo_epi64, b, d);
    w[3] = VI_(_mm256_unpackhi_epi64, b, d);
}

V_INLINE void vm_store_bytes(uint8_t *p, int count, vm m)
{
    /* 8 + 8 words of 32 bits to 16 bytes; the packs work within halves, hence the permutation. */
    __m256i words = _mm256_packs_epi32(_mm256_castps_si256(m.a), _mm256_castps_si256(m.b));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = _mm_and_si128(bytes, _mm_set1_epi8(1));
    if (count == FV_LANES) {
        _mm_storeu_si128((__m128i *)p, bytes);
    } else {
        uint8_t all[FV_LANES];
        _mm_storeu_si128((__m128i *)all, bytes);
        memcpy(p, all, (size_t)count);
    }
}
V_INLINE vm vm_load_bytes(const uint8_t *p, int count)
{
    uint8_t all[FV_LANES] = {0};
    memcpy(all, p, (size_t)count);
    const __m128i bytes = _mm_loadu_si128((const __m128i *)all);
    const vi wide = {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
    return vm_not(vi_eq(wide, vi_set(0)));
}

#endif

V_INLINE vf v_zero(void) { return v_set(0.0f); }
V_INLINE vm v_gt(vf a, vf b) { return v_lt(b, a); }
V_INLINE vm v_ge(vf a, vf b) { return v_le(b, a); }
V_INLINE vm v_nan(vf a) { return v_ne(a, a); }
V_INLINE vf v_sign(vf a) { return v_and(a, v_set(-0.0f)); }
V_INLINE vf v_abs(vf a) { return v_and(a, vf_of(vi_set(0x7fffffffu))); }
V_INLINE vf v_neg(vf a) { return v_xor(a, v_set(-0.0f)); }
#if FV_SIMD_LEVEL == 2
V_INLINE vf v_min_abs(vf a, float limit) { return v_min(v_abs(a), v_set(limit)); }
#endif

/* The first `count` lanes of v, and `rest` in the lanes past them. */
V_INLINE vf v_keep(int count, vf v, vf rest)
{
    return count == FV_LANES ? v : v_select(v_first(count), v, rest);
}

#if FV_SIMD_LEVEL != 1
/* Reduces the lanes as one fixed tree: i op= i + 8, then + 4, + 2, + 1. */
#define V_TREE(v, op)                                                                              \
    const __m256 h = _mm256_##op##_ps(v_low(v), v_high(v));                                        \
    __m128 q = _mm_##op##_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));              \
    q = _mm_##op##_ps(q, _mm_movehl_ps(q, q));                                                     \
    return _mm_cvtss_f32(_mm_##op##_ss(q, _mm_movehdup_ps(q)))

V_INLINE float v_reduce_sum(vf v) { V_TREE(v, add); }
V_INLINE float v_reduce_max(vf v) { V_TREE(v, max); } /* without NaN */
V_INLINE float v_reduce_min(vf v) { V_TREE(v, min); }

/* Makes streaming stores visible to other threads before later stores. */
V_INLINE void v_stream_end(bool stream)
{
    if (stream) _mm_sfence();
}
#endif

/* ---- streaming stores -----------------------------------------------------------------
 * An output too large for the cache is written with streaming stores: its lines are not read first,
 * which saves a third of the traffic of y = f(x). A streaming store needs a full, aligned vector:
 * V_LOOP's head aligns the output. */
enum { FV_STREAM_BYTES = 12 << 20 };

/* Elements before the first 64-byte boundary of p (n if that is past the end); 0 without stream. */
V_INLINE int64_t v_head(const float *p, int64_t n, bool stream)
{
    if (!stream) return 0;
    const int64_t head = (int64_t)((64 - ((uintptr_t)p & 63)) & 63) / (int64_t)sizeof *p;
    return head < n ? head : n;
}

V_INLINE void v_put(float *p, int count, vf v, bool stream)
{
    if (FV_SIMD_LEVEL != 1 && stream && count == FV_LANES)
        v_stream(p, v);
    else
        v_store(p, count, v);
}

/* Whether rows x cols floats are written with streaming stores; not if they replace their own
 * input. */
V_INLINE bool v_streams(int64_t rows, int64_t cols, const void *out, const void *in)
{
    return (uint64_t)rows * (uint64_t)cols * sizeof(float) >= FV_STREAM_BYTES && out != in;
}

/*
 * Prefetches the line `ahead` elements on, which may be past the end: nothing is read. A core has
 * few outstanding requests of its own, and arithmetic between loads leaves them idle; L2 has more,
 * so lines are prefetched early and into L2.
 */
enum { FV_STREAM_AHEAD = 4096 };
V_INLINE void v_prefetch(const float *p, int64_t ahead)
{
    const uintptr_t bytes = (uintptr_t)ahead * sizeof *p;
    fv_prefetch_l2((const char *)((uintptr_t)p + bytes));
}

/* The same for rows of n elements that are read more than once: at least the next row. */
V_INLINE int64_t v_row_ahead(int64_t n) { return n > FV_STREAM_AHEAD ? n : FV_STREAM_AHEAD; }

/* A load from a long contiguous run. */
V_INLINE vf v_load_ahead(const float *p, int count, bool stream)
{
    /* NEON: the prefetchers follow a contiguous run, and the test would cost more than it saves. */
    if (FV_SIMD_LEVEL != 1 && stream && count == FV_LANES) v_prefetch(p, FV_STREAM_AHEAD);
    return v_load(p, count);
}

/* Runs fn over rows of n elements in parallel; `stream` as returned by v_streams. */
V_INLINE void v_rows(const fv_exec *exec, bool stream, int64_t rows, int64_t n, fv_range_fn fn,
                     const void *arg)
{
    if (stream)
        fv_exec_stream(exec, rows, n, fn, arg);
    else
        fv_exec_rows(exec, rows, n + FV_LANES, fn, arg);
}

#endif

/*
 * The NEON level of simd.h, which has the contracts: sixteen floats are four registers. There are
 * no masked loads, so the end of an array is read and written lane by lane, in functions of their
 * own to keep the loops small.
 */
#ifndef FV_KERNELS_SIMD_SIMD_NEON_H
#define FV_KERNELS_SIMD_SIMD_NEON_H

#include <arm_neon.h>

typedef struct vf {
    float32x4_t a, b, c, d;
} vf;
typedef struct vi {
    uint32x4_t a, b, c, d;
} vi;
typedef struct vm {
    uint32x4_t a, b, c, d; /* all bits of a lane set, or none */
} vm;

#define V1_(type, op, x) ((type){op((x).a), op((x).b), op((x).c), op((x).d)})
#define V2_(type, op, x, y)                                                                        \
    ((type){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})
#define V3_(type, op, x, y, z)                                                                     \
    ((type){op((x).a, (y).a, (z).a), op((x).b, (y).b, (z).b), op((x).c, (y).c, (z).c),             \
            op((x).d, (y).d, (z).d)})
#define VK_(type, op, x, k) ((type){op((x).a, k), op((x).b, k), op((x).c, k), op((x).d, k)})

V_INLINE vi vi_set(uint32_t x)
{
    const uint32x4_t q = vdupq_n_u32(x);
    return (vi){q, q, q, q};
}
V_INLINE vi vi_count(void)
{
    static const uint32_t first[4] = {0, 1, 2, 3};
    const uint32x4_t q = vld1q_u32(first);
    return (vi){q, vaddq_u32(q, vdupq_n_u32(4)), vaddq_u32(q, vdupq_n_u32(8)),
                vaddq_u32(q, vdupq_n_u32(12))};
}
V_INLINE vm v_first(int count)
{
    const vi lane = vi_count();
    const uint32x4_t n = vdupq_n_u32((uint32_t)count);
    return (vm){vcltq_u32(lane.a, n), vcltq_u32(lane.b, n), vcltq_u32(lane.c, n),
                vcltq_u32(lane.d, n)};
}
V_INLINE vf v_set(float x)
{
    const float32x4_t q = vdupq_n_f32(x);
    return (vf){q, q, q, q};
}

/* The first `count` lanes of a register, at most four; zeros past them. */
V_INLINE float32x4_t v_load_quarter(const float *p, int count)
{
    if (count >= 4) return vld1q_f32(p);
    float32x4_t q = vdupq_n_f32(0.0f);
    if (count >= 1) q = vld1q_lane_f32(p, q, 0);
    if (count >= 2) q = vld1q_lane_f32(p + 1, q, 1);
    if (count >= 3) q = vld1q_lane_f32(p + 2, q, 2);
    return q;
}
V_INLINE void v_store_quarter(float *p, int count, float32x4_t q)
{
    if (count >= 4) {
        vst1q_f32(p, q);
        return;
    }
    if (count >= 1) vst1q_lane_f32(p, q, 0);
    if (count >= 2) vst1q_lane_f32(p + 1, q, 1);
    if (count >= 3) vst1q_lane_f32(p + 2, q, 2);
}
static __attribute__((noinline, unused)) vf v_load_part(const float *p, int count)
{
    const float32x4_t zero = vdupq_n_f32(0.0f);
    return (vf){v_load_quarter(p, count), count > 4 ? v_load_quarter(p + 4, count - 4) : zero,
                count > 8 ? v_load_quarter(p + 8, count - 8) : zero,
                count > 12 ? v_load_quarter(p + 12, count - 12) : zero};
}
static __attribute__((noinline, unused)) void v_store_part(float *p, int count, vf v)
{
    v_store_quarter(p, count, v.a);
    if (count > 4) v_store_quarter(p + 4, count - 4, v.b);
    if (count > 8) v_store_quarter(p + 8, count - 8, v.c);
    if (count > 12) v_store_quarter(p + 12, count - 12, v.d);
}
V_INLINE vf v_load(const float *p, int count)
{
    if (count != FV_LANES) return v_load_part(p, count);
    return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
V_INLINE void v_store(float *p, int count, vf v)
{
    if (count != FV_LANES) {
        v_store_part(p, count, v);
        return;
    }
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}
V_INLINE void v_stream(float *p, vf v) { v_store(p, FV_LANES, v); }
V_INLINE void v_stream_end(bool stream) { (void)stream; }

V_INLINE vi vi_of(vf a) { return V1_(vi, vreinterpretq_u32_f32, a); }
V_INLINE vf vf_of(vi a) { return V1_(vf, vreinterpretq_f32_u32, a); }
V_INLINE vi vi_add(vi a, vi b) { return V2_(vi, vaddq_u32, a, b); }
V_INLINE vi vi_sub(vi a, vi b) { return V2_(vi, vsubq_u32, a, b); }
V_INLINE vi vi_and(vi a, vi b) { return V2_(vi, vandq_u32, a, b); }
V_INLINE vi vi_or(vi a, vi b) { return V2_(vi, vorrq_u32, a, b); }
V_INLINE vi vi_xor(vi a, vi b) { return V2_(vi, veorq_u32, a, b); }
#define vi_shl(x, k)  VK_(vi, vshlq_n_u32, x, k)
#define vi_shr(x, k)  VK_(vi, vshrq_n_u32, x, k)
#define VI_SAR_(q, k) vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(q), k))
#define vi_sar(x, k)  VK_(vi, VI_SAR_, x, k)
V_INLINE float32x4_t v_from_signed(uint32x4_t q) { return vcvtq_f32_s32(vreinterpretq_s32_u32(q)); }
V_INLINE vf vi_to_float(vi a) { return V1_(vf, v_from_signed, a); }
V_INLINE vm vi_eq(vi a, vi b) { return V2_(vm, vceqq_u32, a, b); }
V_INLINE vm vi_test(vi a, vi b) { return V2_(vm, vtstq_u32, a, b); }
V_INLINE bool vi_any(vi a, vi b)
{
    const vi both = vi_and(a, b);
    return vmaxvq_u32(vorrq_u32(vorrq_u32(both.a, both.b), vorrq_u32(both.c, both.d))) != 0;
}

V_INLINE vf v_add(vf a, vf b) { return V2_(vf, vaddq_f32, a, b); }
V_INLINE vf v_sub(vf a, vf b) { return V2_(vf, vsubq_f32, a, b); }
V_INLINE vf v_mul(vf a, vf b) { return V2_(vf, vmulq_f32, a, b); }
V_INLINE vf v_div(vf a, vf b) { return V2_(vf, vdivq_f32, a, b); }
V_INLINE vf v_sqrt(vf a) { return V1_(vf, vsqrtq_f32, a); }
V_INLINE vf v_floor(vf a) { return V1_(vf, vrndmq_f32, a); }
/* NEON's own minimum and maximum return any NaN and order the zeros. */
V_INLINE float32x4_t v_min4(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
V_INLINE float32x4_t v_max4(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
V_INLINE vf v_min(vf a, vf b) { return V2_(vf, v_min4, a, b); }
V_INLINE vf v_max(vf a, vf b) { return V2_(vf, v_max4, a, b); }
/* Floats that are not negative are ordered as their bits are; those of NaN are the largest. */
V_INLINE vf v_min_abs(vf a, float limit)
{
    const vi size = vi_and(vi_of(a), vi_set(0x7fffffffu)), most = vi_of(v_set(limit));
    return vf_of(V2_(vi, vminq_u32, size, most));
}
V_INLINE vf v_fma(vf a, vf b, vf c) { return V3_(vf, vfmaq_f32, c, a, b); }
V_INLINE vf v_and(vf a, vf b) { return vf_of(vi_and(vi_of(a), vi_of(b))); }
V_INLINE vf v_or(vf a, vf b) { return vf_of(vi_or(vi_of(a), vi_of(b))); }
V_INLINE vf v_xor(vf a, vf b) { return vf_of(vi_xor(vi_of(a), vi_of(b))); }

V_INLINE vm vm_or(vm a, vm b) { return V2_(vm, vorrq_u32, a, b); }
V_INLINE vm vm_and(vm a, vm b) { return V2_(vm, vandq_u32, a, b); }
V_INLINE vm vm_not(vm a) { return V1_(vm, vmvnq_u32, a); }
V_INLINE vm vm_none(void)
{
    const uint32x4_t q = vdupq_n_u32(0);
    return (vm){q, q, q, q};
}
V_INLINE vm v_eq(vf a, vf b) { return V2_(vm, vceqq_f32, a, b); }
V_INLINE vm v_ne(vf a, vf b) { return vm_not(v_eq(a, b)); }
V_INLINE vm v_lt(vf a, vf b) { return V2_(vm, vcltq_f32, a, b); }
V_INLINE vm v_le(vf a, vf b) { return V2_(vm, vcleq_f32, a, b); }
V_INLINE vf v_select(vm m, vf yes, vf no) { return V3_(vf, vbslq_f32, m, yes, no); }

/* One byte per lane, all bits or none. */
V_INLINE uint8x16_t vm_bytes(vm m)
{
    const uint16x8_t low = vcombine_u16(vmovn_u32(m.a), vmovn_u32(m.b));
    const uint16x8_t high = vcombine_u16(vmovn_u32(m.c), vmovn_u32(m.d));
    return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}
V_INLINE uint32_t vm_bits(vm m)
{
    static const uint8_t bit[FV_LANES] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t set = vandq_u8(vm_bytes(m), vld1q_u8(bit));
    return (uint32_t)vaddv_u8(vget_low_u8(set)) | (uint32_t)vaddv_u8(vget_high_u8(set)) << 8;
}

V_INLINE void v_mul_wide4(uint32x4_t a, uint32x4_t b, uint32x4_t *high, uint32x4_t *low)
{
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    const uint32x4_t last = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    *high = vuzp2q_u32(first, last);
    *low = vuzp1q_u32(first, last);
}
V_INLINE void vi_mul_wide(vi a, vi b, vi *high, vi *low)
{
    v_mul_wide4(a.a, b.a, &high->a, &low->a);
    v_mul_wide4(a.b, b.b, &high->b, &low->b);
    v_mul_wide4(a.c, b.c, &high->c, &low->c);
    v_mul_wide4(a.d, b.d, &high->d, &low->d);
}

/* The bytes of word i of a table are 4 i to 4 i + 3; `mask` keeps i within it. */
V_INLINE uint8x16_t v_table_bytes(uint32x4_t index, uint32_t mask)
{
    const uint32x4_t word = vandq_u32(index, vdupq_n_u32(mask));
    return vreinterpretq_u8_u32(
        vmlaq_u32(vdupq_n_u32(0x03020100u), word, vdupq_n_u32(0x04040404u)));
}
V_INLINE vf v_lookup8(const float *table, vi index)
{
    const uint8x16x2_t all = vld1q_u8_x2((const uint8_t *)table);
#define LOOKUP_(q) vreinterpretq_f32_u8(vqtbl2q_u8(all, v_table_bytes(q, 7)))
    return V1_(vf, LOOKUP_, index);
#undef LOOKUP_
}
V_INLINE vf v_lookup(const float *table, vi index)
{
    const uint8x16x4_t all = vld1q_u8_x4((const uint8_t *)table);
#define LOOKUP_(q) vreinterpretq_f32_u8(vqtbl4q_u8(all, v_table_bytes(q, 15)))
    return V1_(vf, LOOKUP_, index);
#undef LOOKUP_
}

/* Four registers as the rows of a 4 x 4 matrix, to its columns. */
V_INLINE void v_transpose4(float32x4_t r[4])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
#define TRANSPOSE_(w, part)                                                                        \
    do {                                                                                           \
        float32x4_t r[4];                                                                          \
        for (int i_ = 0; i_ < 4; i_++)                                                             \
            r[i_] = vreinterpretq_f32_u32((w)[i_].part);                                           \
        v_transpose4(r);                                                                           \
        for (int i_ = 0; i_ < 4; i_++)                                                             \
            (w)[i_].part = vreinterpretq_u32_f32(r[i_]);                                           \
    } while (0)
V_INLINE void vi_transpose4(vi w[4])
{
    TRANSPOSE_(w, a);
    TRANSPOSE_(w, b);
    TRANSPOSE_(w, c);
    TRANSPOSE_(w, d);
}
#undef TRANSPOSE_

V_INLINE void vm_store_bytes(uint8_t *p, int count, vm m)
{
    const uint8x16_t bytes = vandq_u8(vm_bytes(m), vdupq_n_u8(1));
    if (count == FV_LANES) {
        vst1q_u8(p, bytes);
        return;
    }
    uint8_t all[FV_LANES];
    vst1q_u8(all, bytes);
    memcpy(p, all, (size_t)count);
}
V_INLINE vm vm_load_bytes(const uint8_t *p, int count)
{
    uint8_t all[FV_LANES] = {0};
    memcpy(all, p, (size_t)count);
    const uint8x16_t bytes = vld1q_u8(all);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    const vi wide = {vmovl_u16(vget_low_u16(low)), vmovl_u16(vget_high_u16(low)),
                     vmovl_u16(vget_low_u16(high)), vmovl_u16(vget_high_u16(high))};
    return vi_test(wide, wide);
}

/* The tree of simd.h. */
#define V_TREE(v, op)                                                                              \
    float32x4_t q = op(op((v).a, (v).c), op((v).b, (v).d));                                        \
    q = op(q, vextq_f32(q, q, 2));                                                                 \
    return vgetq_lane_f32(op(q, vdupq_laneq_f32(q, 1)), 0)

V_INLINE float v_reduce_sum(vf v) { V_TREE(v, vaddq_f32); }
V_INLINE float v_reduce_max(vf v) { V_TREE(v, v_max4); }
V_INLINE float v_reduce_min(vf v) { V_TREE(v, v_min4); }

#endif

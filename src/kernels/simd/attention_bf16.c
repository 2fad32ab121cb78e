/*
 * The products of attention over bf16 by vdpbf16ps, which adds two products of bf16 to each float
 * of a sum: twice the rate of the float tile. Elements therefore lie in pairs, one pair a word:
 *
 *     Q   rows of ceil(d/2) pairs, as they are stored
 *     K   panels [keys/64][ceil(d/2)][64], one pair of the width a word
 *     V   [keys/2][d_v], one pair of keys a word
 *     P   rows of keys, rounded to bf16
 *
 * Scores are exact products summed in float, as elsewhere; scale and log2(e) come afterwards, since
 * a scaled q would have to be rounded. The weights P are rounded, but the sum they are divided by
 * is that of the unrounded ones: so the log-sum-exp keeps its precision, and o is off by no more
 * than one rounding for each weight and one for itself, 2 x 2^-8 sum_j p_j |v_j|. The instruction
 * takes subnormal numbers for 0.
 *
 * Why twice. With weights in float, o is off by its own rounding, 2^-8 |o|, and that alone uses up
 * 2^-8 sum_j p_j |v_j| where the values of a column have one sign: the sum is |o| then. Rounded
 * weights add sum_j e_j p_j v_j, |e_j| <= 2^-8, at worst as much again: many equal weights round
 * the same way. So no kernel that rounds its weights keeps the bound of a single rounding, whatever
 * their scale. As sums of two bf16 they would, for half as many products again; the other levels
 * do, since their weights are floats.
 */
#include "kernels/simd/attention_pairs.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/fill.h"

V_INLINE __m512bh spread_pair(uint32_t pair) { return (__m512bh)_mm512_set1_epi32((int)pair); }

/* ---- packing ---------------------------------------------------------------------- */

/* 32 columns of two keys as 32 words, in order. */
V_INLINE void interleave(__m512i even, __m512i odd, uint32_t *to, int64_t cols)
{
    const __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
    if (cols > FV_LANES)
        _mm512_storeu_si512(to + FV_LANES, _mm512_permutex2var_epi64(low, second, high));
}

/* Returns whether all values are finite. */
static bool pack_values(const uint16_t *v, int64_t row, int64_t keys, int64_t d_v, uint32_t *to)
{
    const int64_t stride = fv_attn_round(d_v, FV_LANES);
    const __m512i sizes = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(0x7f80);
    __m512i most = _mm512_setzero_si512();
    for (int64_t j = 0; j < keys; j += 2, to += stride)
        for (int64_t c = 0; c < d_v; c += 2 * FV_LANES) {
            const __mmask32 some = fv_attn_first_halves(d_v - c), none = 0;
            const uint16_t *at = v + j * row + c;
            const __m512i even = _mm512_maskz_loadu_epi16(some, at);
            const __m512i odd = _mm512_maskz_loadu_epi16(j + 1 < keys ? some : none, at + row);
            most = _mm512_max_epu16(most, _mm512_and_si512(even, sizes));
            most = _mm512_max_epu16(most, _mm512_and_si512(odd, sizes));
            interleave(even, odd, to + c, stride - c);
        }
    return _mm512_cmpge_epu16_mask(most, infinity) == 0;
}

static bool pack(const fv_attn *a, const void *k, const void *v, int64_t keys, void *panels,
                 void *values)
{
    fv_attn_pack_pairs(k, a->k.row, keys, a->d, panels);
    return pack_values(v, a->v.row, keys, a->d_v, values);
}

/* ---- a strip ---------------------------------------------------------------------- */

static void scores(const void *q, int64_t q_row, int rows, const void *panels, int64_t d,
                   int64_t first, int64_t cols, float *s)
{
    fv_attn_pair_scores(q, q_row, rows, panels, d, first, cols, s, FV_ATTN_LONG_ROW);
}

/* One row, vector by vector: a value whose weight is 0 is taken for 0, whatever it is. */
static void blend_carefully(const fv_attn_pair_tile *t, int64_t cols)
{
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        vf sum = v_load(t->c + c, FV_LANES);
        for (int64_t k = 0; k < t->k; k++) {
            const uint32_t pair = t->a[k], even = 0x55555555u, odd = 0xaaaaaaaau;
            const __mmask32 some = (pair & 0xffffu ? even : 0) | (pair >> 16 ? odd : 0);
            const __m512i values = _mm512_loadu_si512(t->b + k * t->b_row + c);
            sum = _mm512_dpbf16_ps(sum, spread_pair(pair),
                                   (__m512bh)_mm512_maskz_mov_epi16(some, values));
        }
        v_store(t->c + c, FV_LANES, sum);
    }
}

static void blend(const void *weights, int rows, const void *values, int64_t keys, int64_t d_v,
                  bool careful, float *o)
{
    const int64_t stride = fv_attn_round(d_v, FV_LANES);
    fv_attn_pair_tile t = {.k = (keys + 1) / 2,
                           .a = weights,
                           .a_row = FV_ATTN_WEIGHT_ROW,
                           .b = values,
                           .b_row = stride,
                           .c = o,
                           .c_row = stride,
                           .add = true};
    for (int r = 0; careful && r < rows; r++) {
        blend_carefully(&t, stride);
        t.a += t.a_row;
        t.c += t.c_row;
    }
    for (int64_t c = 0, step; !careful && c < stride; c += step) {
        step = fv_attn_min(FV_TILE_COLS, stride - c);
        t.b = (const uint32_t *)values + c;
        t.c = o + c;
        fv_attn_multiply_pairs(&t, rows, step);
    }
}

/* ---- weights ---------------------------------------------------------------------- */

/* 2^x as fv_attn_exp2, but with a relative error of 3e-6: the weight is rounded to 2^-8 anyway. A
 * polynomial of x - floor(x), then the instruction takes the floor itself, -inf included. */
V_INLINE vf exp2_short(vf x)
{
    enum { MINUS_FLOOR = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC };
    const vf r = _mm512_reduce_ps(x, MINUS_FLOOR);
    vf y = v_set(0x1.b7f714p-7f);
    y = v_fma(y, r, v_set(0x1.abf874p-5f));
    y = v_fma(y, r, v_set(0x1.ee245p-3f));
    y = v_fma(y, r, v_set(0x1.62d6c6p-1f));
    y = v_fma(y, r, v_set(1.0f));
    return _mm512_scalef_ps(y, x);
}

/* 2^(factor s - down) */
V_INLINE vf weight_of(const float *s, vf minus_down, vf factor)
{
    return exp2_short(v_fma(v_load(s, FV_LANES), factor, minus_down));
}

/* Weights of two rows, rounded, and the sums of the unrounded. */
V_INLINE void weigh_pair(const float *s, const float *t, int64_t cols, const float *down, vf factor,
                         uint16_t *p, uint16_t *r, float *sums)
{
    const vf minus_s = v_set(-down[0]), minus_t = v_set(-down[1]);
    vf sum_s = v_zero(), sum_t = v_zero();
    int64_t c = 0;
    for (; c + 2 * FV_LANES <= cols; c += 2 * FV_LANES) {
        const vf s0 = weight_of(s + c, minus_s, factor), t0 = weight_of(t + c, minus_t, factor);
        const vf s1 = weight_of(s + c + FV_LANES, minus_s, factor);
        const vf t1 = weight_of(t + c + FV_LANES, minus_t, factor);
        _mm512_storeu_si512(p + c, (__m512i)_mm512_cvtne2ps_pbh(s1, s0));
        _mm512_storeu_si512(r + c, (__m512i)_mm512_cvtne2ps_pbh(t1, t0));
        sum_s = v_add(v_add(sum_s, s0), s1);
        sum_t = v_add(v_add(sum_t, t0), t1);
    }
    if (c < cols) {
        const vf s0 = weight_of(s + c, minus_s, factor), t0 = weight_of(t + c, minus_t, factor);
        _mm256_storeu_si256((__m256i *)(p + c), (__m256i)_mm512_cvtneps_pbh(s0));
        _mm256_storeu_si256((__m256i *)(r + c), (__m256i)_mm512_cvtneps_pbh(t0));
        sum_s = v_add(sum_s, s0);
        sum_t = v_add(sum_t, t0);
    }
    sums[0] = v_join(sum_s);
    sums[1] = v_join(sum_t);
}

static void weigh(const float *s, int rows, int64_t cols, float factor, float *most, float *sum,
                  float *fade, void *weights)
{
    const vf by = v_set(factor);
    float down[FV_LANES] = {0}, added[FV_LANES], before[FV_LANES] = {0};
    for (int i = 0; i < rows; i++) {
        before[i] = most[i] * factor;
        most[i] = fv_attn_top(s + i * FV_ATTN_LONG_ROW, cols, most[i]);
        down[i] = most[i] == -INFINITY ? 0 : most[i] * factor;
    }
    v_store(fade, FV_LANES, exp2_short(v_sub(v_load(before, FV_LANES), v_load(down, FV_LANES))));
    for (int i = 0; i < rows; i += 2) {
        const float *row = s + i * FV_ATTN_LONG_ROW;
        uint16_t *p = (uint16_t *)weights + i * 2 * FV_ATTN_WEIGHT_ROW;
        weigh_pair(row, row + FV_ATTN_LONG_ROW, cols, down + i, by, p, p + 2 * FV_ATTN_WEIGHT_ROW,
                   added + i);
    }
    for (int i = 0; i < rows; i++)
        sum[i] = fmaf(sum[i], fade[i], added[i]);
}

/* ---- the kernel ------------------------------------------------------------------- */

static void forward(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_attn_pair_products pairs = {.pack = pack,
                                                .load_queries = fv_attn_load_pairs,
                                                .scores = scores,
                                                .weigh = weigh,
                                                .blend = blend};
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, false, forward, fv_attn_forward_bytes);
    else if (fv_attn_is_decode(a))
        fv_attn_decode_bf16(exec, ptr, a);
    else
        fv_attn_forward_by(exec, ptr, a, &pairs);
}

void fv_simd_bf16_fill(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = forward;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_BF16] = fv_attn_backward_bf16;
}

#endif

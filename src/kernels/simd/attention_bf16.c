/*
 * bf16 attention with vdpbf16ps, which adds two products of bf16 to each float sum: twice the rate
 * of the float tile. Elements are stored in pairs, one pair per word:
 *
 *     Q   rows of ceil(d/2) pairs, as stored by the caller
 *     K   panels [keys/64][ceil(d/2)][64], pairs along the width
 *     V   [keys/2][d_v], pairs of keys
 *     P   rows of keys, rounded to bf16
 *
 * Scores are exact products summed in float, as elsewhere; scale and log2(e) are applied
 * afterwards, since a scaled q would have to be rounded. The weights P are rounded, but the sum
 * they are divided by is that of the unrounded weights. So the log-sum-exp keeps its precision, and
 * the error of o is at most one rounding per weight and one of its own, 2 x 2^-8 sum_j p_j |v_j|.
 * The instruction treats subnormal numbers as 0.
 *
 * Why twice? With weights in float, o has its own rounding error, 2^-8 |o|, which equals 2^-8 sum_j
 * p_j |v_j| if the values of a column have one sign. Rounded weights add sum_j e_j p_j v_j with
 * |e_j| <= 2^-8, which can be as large, since many equal weights round the same way. So no kernel
 * that rounds its weights satisfies the bound of a single rounding, for any scale. Weights as sums
 * of two bf16 would, for half as many products again; the other levels do, since their weights are
 * floats.
 */
#include "kernels/simd/attention_bf16_dot.h"
#include "kernels/simd/attention_forward.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/register.h"

V_INLINE __m512bh broadcast_pair(uint32_t pair) { return (__m512bh)_mm512_set1_epi32((int)pair); }

/* ---- packing ---------------------------------------------------------------------- */

/* Interleaves 32 columns of two keys into 32 words. */
V_INLINE void interleave(__m512i even, __m512i odd, uint32_t *to, int64_t cols)
{
    const __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
    if (cols > FV_LANES)
        _mm512_storeu_si512(to + FV_LANES, _mm512_permutex2var_epi64(low, second, high));
}

bool fv_attn_bf16_pack_values(const uint16_t *v, int64_t row, int64_t keys, int64_t d_v,
                              uint32_t *to)
{
    const int64_t stride = fv_attn_round(d_v, FV_LANES);
    const __m512i sizes = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(0x7f80);
    __m512i largest = _mm512_setzero_si512();
    for (int64_t j = 0; j < keys; j += 2, to += stride)
        for (int64_t c = 0; c < d_v; c += 2 * FV_LANES) {
            const __mmask32 some = fv_attn_first_halves(d_v - c), none = 0;
            const uint16_t *at = v + j * row + c;
            const __m512i even = _mm512_maskz_loadu_epi16(some, at);
            const __m512i odd = _mm512_maskz_loadu_epi16(j + 1 < keys ? some : none, at + row);
            largest = _mm512_max_epu16(largest, _mm512_and_si512(even, sizes));
            largest = _mm512_max_epu16(largest, _mm512_and_si512(odd, sizes));
            interleave(even, odd, to + c, stride - c);
        }
    return _mm512_cmpge_epu16_mask(largest, infinity) == 0;
}

static bool pack(const fv_attn *a, const void *k, const void *v, int64_t keys, void *panels,
                 void *values)
{
    fv_attn_bf16_pack(k, a->k.row, keys, a->d, panels);
    return fv_attn_bf16_pack_values(v, a->v.row, keys, a->d_v, values);
}

/* ---- one row tile ------------------------------------------------------------------ */

static void scores(void *state, const void *q, int64_t q_row, int rows, const void *panels,
                   int64_t d, int64_t first, int64_t cols, float *s)
{
    (void)state;
    fv_attn_bf16_scores(q, q_row, rows, panels, d, first, cols, s, FV_ATTN_LONG_SCORE_ROW);
}

/* One row, vector by vector: values with weight 0 are treated as 0. */
static void add_values_skipping_zeros(const fv_attn_bf16_tile *t, int64_t cols)
{
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        vf sum = v_load(t->c + c, FV_LANES);
        for (int64_t k = 0; k < t->k; k++) {
            const uint32_t pair = t->a[k], even = 0x55555555u, odd = 0xaaaaaaaau;
            const __mmask32 some = (pair & 0xffffu ? even : 0) | (pair >> 16 ? odd : 0);
            const __m512i values = _mm512_loadu_si512(t->b + k * t->b_row + c);
            sum = _mm512_dpbf16_ps(sum, broadcast_pair(pair),
                                   (__m512bh)_mm512_maskz_mov_epi16(some, values));
        }
        v_store(t->c + c, FV_LANES, sum);
    }
}

static void add_values(void *state, void *weights, int rows, const void *values, int64_t keys,
                       int64_t d_v, const void *raw, int64_t raw_row, float *o)
{
    (void)state;
    (void)raw_row;
    const bool skip_zeros = raw != NULL;
    const int64_t stride = fv_attn_round(d_v, FV_LANES);
    fv_attn_bf16_tile t = {.k = (keys + 1) / 2,
                           .a = weights,
                           .a_row = FV_ATTN_WEIGHT_ROW,
                           .b = values,
                           .b_row = stride,
                           .c = o,
                           .c_row = stride,
                           .add = true};
    for (int r = 0; skip_zeros && r < rows; r++) {
        add_values_skipping_zeros(&t, stride);
        t.a += t.a_row;
        t.c += t.c_row;
    }
    for (int64_t c = 0, step; !skip_zeros && c < stride; c += step) {
        step = fv_attn_min(FV_TILE_COLS, stride - c);
        t.b = (const uint32_t *)values + c;
        t.c = o + c;
        fv_attn_bf16_multiply(&t, rows, step);
    }
}

/* ---- weights ---------------------------------------------------------------------- */

/* Weights of two rows, rounded, and the sums of the unrounded ones. */
V_INLINE void exp_two_rows(const float *s, const float *t, int64_t cols, const float *scaled_max,
                           vf factor, uint16_t *p, uint16_t *r, float *sums)
{
    const vf neg_max_s = v_set(-scaled_max[0]), neg_max_t = v_set(-scaled_max[1]);
    vf sum_s = v_zero(), sum_t = v_zero();
    int64_t c = 0;
    for (; c + 2 * FV_LANES <= cols; c += 2 * FV_LANES) {
        const vf s0 = fv_attn_bf16_weight(s + c, neg_max_s, factor),
                 t0 = fv_attn_bf16_weight(t + c, neg_max_t, factor);
        const vf s1 = fv_attn_bf16_weight(s + c + FV_LANES, neg_max_s, factor);
        const vf t1 = fv_attn_bf16_weight(t + c + FV_LANES, neg_max_t, factor);
        _mm512_storeu_si512(p + c, (__m512i)_mm512_cvtne2ps_pbh(s1, s0));
        _mm512_storeu_si512(r + c, (__m512i)_mm512_cvtne2ps_pbh(t1, t0));
        sum_s = v_add(v_add(sum_s, s0), s1);
        sum_t = v_add(v_add(sum_t, t0), t1);
    }
    if (c < cols) {
        const vf s0 = fv_attn_bf16_weight(s + c, neg_max_s, factor),
                 t0 = fv_attn_bf16_weight(t + c, neg_max_t, factor);
        _mm256_storeu_si256((__m256i *)(p + c), (__m256i)_mm512_cvtneps_pbh(s0));
        _mm256_storeu_si256((__m256i *)(r + c), (__m256i)_mm512_cvtneps_pbh(t0));
        sum_s = v_add(sum_s, s0);
        sum_t = v_add(sum_t, t0);
    }
    sums[0] = v_reduce_sum(sum_s);
    sums[1] = v_reduce_sum(sum_t);
}

static void softmax(void *state, const float *s, int rows, int64_t cols, float factor,
                    float *row_max, float *sum, float *rescale, void *weights)
{
    (void)state;
    const vf by = v_set(factor);
    float scaled_max[FV_LANES] = {0}, added[FV_LANES], previous[FV_LANES] = {0};
    for (int i = 0; i < rows; i++) {
        previous[i] = row_max[i] * factor;
        row_max[i] = fv_attn_row_max(s + i * FV_ATTN_LONG_SCORE_ROW, cols, row_max[i]);
        scaled_max[i] = row_max[i] == -INFINITY ? 0 : row_max[i] * factor;
    }
    v_store(rescale, FV_LANES,
            fv_attn_exp2_short(v_sub(v_load(previous, FV_LANES), v_load(scaled_max, FV_LANES))));
    for (int i = 0; i < rows; i += 2) {
        const float *row = s + i * FV_ATTN_LONG_SCORE_ROW;
        uint16_t *p = (uint16_t *)weights + i * 2 * FV_ATTN_WEIGHT_ROW;
        exp_two_rows(row, row + FV_ATTN_LONG_SCORE_ROW, cols, scaled_max + i, by, p,
                     p + 2 * FV_ATTN_WEIGHT_ROW, added + i);
    }
    for (int i = 0; i < rows; i++)
        sum[i] = fmaf(sum[i], rescale[i], added[i]);
}

/* ---- the kernel ------------------------------------------------------------------- */

static void forward(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_attn_bf16_products products = {.tiling = FV_ATTN_PAIR_TILING,
                                                   .pack = pack,
                                                   .load_queries = fv_attn_bf16_load,
                                                   .scores = scores,
                                                   .softmax = softmax,
                                                   .add_values = add_values};
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, false, forward, fv_attn_forward_bytes);
    else if (fv_attn_is_decode(a))
        fv_attn_decode_bf16(exec, ptr, a);
    else
        fv_attn_forward_with(exec, ptr, a, &products);
}

void fv_simd_bf16_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = forward;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_BF16] = fv_attn_backward_bf16;
}

#endif

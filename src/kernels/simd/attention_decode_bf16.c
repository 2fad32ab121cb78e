/*
 * Decoding with bf16 dot products: K and V are read in place, 32 elements per vector. A product of
 * a query and a key takes one instruction per vector (attention_bf16_dot.h); values become floats
 * by one operation per sixteen, even columns by a shift and odd ones by a mask. Weights are not
 * rounded.
 */
#include "kernels/simd/attention_bf16_dot.h"

#if FV_SIMD_LEVEL == 3

enum { DOT_NUMBERS = 2 * FV_LANES };

typedef __m512bh dot_vec;

V_INLINE int64_t size_of(const fv_dtype type)
{
    (void)type;
    return (int64_t)sizeof(uint16_t);
}
/* 32 elements, zeros past the first `count`. */
V_INLINE fv_words load_words(const char *p, int64_t count)
{
    if (count >= DOT_NUMBERS) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi16(fv_attn_first_halves(count), p);
}
V_INLINE dot_vec dot_key(const fv_dtype type, const char *p, int count)
{
    (void)type;
    return (dot_vec)load_words(p, count);
}
V_INLINE dot_vec dot_query(const float *p) { return (dot_vec)_mm512_loadu_si512(p); }
V_INLINE vf dot_add(dot_vec query, dot_vec key, vf sum)
{
    return _mm512_dpbf16_ps(sum, query, key);
}

/* Even columns, odd columns. */
V_INLINE void pv_load(const fv_dtype type, const char *p, int64_t count, vf *x)
{
    (void)type;
    const fv_words words = load_words(p, count);
    x[0] = fv_words_first(words);
    x[1] = fv_words_second(words);
}

#include "kernels/simd/attention_decode.h"

DOT_TILES(FV_BF16)

static void products(const dots *all, int rows, int64_t keys)
{
    static const dot_fn tiles[3][3] = DOT_NAMES(FV_BF16);
    dot_products(tiles, all, rows, keys);
}

/* ---- P V ---------------------------------------------------------------------------- */

PV_TILES(FV_BF16)
PV_TILE(FV_BF16, 1, 4)

static void pv(const fv_tile *t, const stored *values, int rows, int64_t cols)
{
    static const pv_fn tiles[PV_ROWS][3] = PV_NAMES(FV_BF16);
    pv_row_tiles(tiles, FV_BF16_blend_1x4, t, values, rows, cols);
}

static void interleave(const float *deinterleave, int64_t cols, float *to)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t c = 0; c < cols; c += DOT_NUMBERS) {
        const vf even = v_load(deinterleave + c, FV_LANES),
                 odd = v_load(deinterleave + c + FV_LANES, FV_LANES);
        v_store(to + c, FV_LANES, _mm512_permutex2var_ps(even, low, odd));
        if (c + FV_LANES < cols)
            v_store(to + c + FV_LANES, FV_LANES, _mm512_permutex2var_ps(even, high, odd));
    }
}

/* ---- the kernel ------------------------------------------------------------------- */

void fv_attn_decode_bf16(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    static const fv_attn_decode_products fns = {.load = fv_attn_bf16_load,
                                                .products = products,
                                                .pv = pv,
                                                .deinterleave = fv_attn_bf16_deinterleave,
                                                .interleave = interleave};
    fv_attn_decode_with(exec, ptr, a, &fns);
}

#endif

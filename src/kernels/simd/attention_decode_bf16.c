/*
 * Decoding over bf16 by pairs: K and V are read as they lie, 32 numbers a vector. A product of two
 * queries' or keys' pairs is one instruction (attention_pairs.h); values become floats by one
 * operation for each sixteen, the even columns by a shift and the odd ones by a mask. Weights are
 * not rounded.
 */
#include "kernels/simd/attention_pairs.h"

#if FV_SIMD_LEVEL == 3

enum { DOT_NUMBERS = 2 * FV_LANES };

typedef __m512bh dot_vec;

V_INLINE int64_t size_of(const fv_dtype type)
{
    (void)type;
    return (int64_t)sizeof(uint16_t);
}
/* 32 numbers, zeros behind the first `count`. */
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
V_INLINE void blend_values(const fv_dtype type, const char *p, int64_t count, vf *x)
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

/* ---- blends ----------------------------------------------------------------------- */

BLENDS(FV_BF16)
BLEND(FV_BF16, 1, 4)

static void blend(const fv_tile *t, const stored *values, int rows, int64_t cols)
{
    static const blend_fn tiles[BLEND_ROWS][3] = BLEND_NAMES(FV_BF16);
    blend_strips(tiles, FV_BF16_blend_1x4, t, values, rows, cols);
}

static void join(const float *split, int64_t cols, float *to)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t c = 0; c < cols; c += DOT_NUMBERS) {
        const vf even = v_load(split + c, FV_LANES), odd = v_load(split + c + FV_LANES, FV_LANES);
        v_store(to + c, FV_LANES, _mm512_permutex2var_ps(even, low, odd));
        if (c + FV_LANES < cols)
            v_store(to + c + FV_LANES, FV_LANES, _mm512_permutex2var_ps(even, high, odd));
    }
}

/* ---- the kernel ------------------------------------------------------------------- */

void fv_attn_decode_bf16(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    static const fv_attn_decode_pairs pairs = {.load = fv_attn_load_pairs,
                                               .products = products,
                                               .blend = blend,
                                               .split = fv_attn_split_rows,
                                               .join = join};
    fv_attn_decode_by(exec, ptr, a, &pairs);
}

#endif

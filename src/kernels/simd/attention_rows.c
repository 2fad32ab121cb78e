/*
 * Rows of q, k, v and o as they are stored: floats, bf16 or f16. Everything behind these functions
 * is float; see attention_simd.h.
 */
#include "kernels/simd/attention_simd.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/transpose.h"

/* Element i of a row, and back; `type` is a constant of the caller. */
V_INLINE vf load_element(fv_dtype type, const void *row, int64_t i, int count)
{
    return fv_attn_is_half(type) ? v_load_half(type, (const uint16_t *)row + i, count)
                                 : v_load((const float *)row + i, count);
}
V_INLINE void store_element(fv_dtype type, void *row, int64_t i, int count, vf x)
{
    if (fv_attn_is_half(type))
        v_store_half(type, (uint16_t *)row + i, count, x);
    else
        v_store((float *)row + i, count, x);
}

V_INLINE void widen(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                    float factor, float *to, int64_t to_row)
{
    const vf by = v_set(factor);
    const int64_t bytes = row * (int64_t)fv_dtype_size(type);
    const char *at = from;
    for (int64_t r = 0; r < rows; r++, at += bytes, to += to_row)
        V_LOOP(width, 0, v_store(to + i, count, v_mul(load_element(type, at, i, count), by)));
}

void FV_SIMD_NAME(fv_attn_widen)(fv_dtype type, const void *from, int64_t row, int64_t rows,
                                 int64_t width, float factor, float *to, int64_t to_row)
{
    if (type == FV_BF16)
        widen(FV_BF16, from, row, rows, width, factor, to, to_row);
    else if (type == FV_F16)
        widen(FV_F16, from, row, rows, width, factor, to, to_row);
    else
        widen(FV_F32, from, row, rows, width, factor, to, to_row);
}

V_INLINE void narrow(fv_dtype type, const float *from, int64_t row, int64_t rows, int64_t width,
                     const float *by, void *to, int64_t to_row)
{
    const int64_t bytes = to_row * (int64_t)fv_dtype_size(type);
    char *at = to;
    for (int64_t r = 0; r < rows; r++, from += row, at += bytes) {
        if (!by) {
            V_LOOP(width, 0, store_element(type, at, i, count, v_load(from + i, count)));
            continue;
        }
        const vf factor = v_set(by[r]);
        V_LOOP(width, 0, const vf x = v_mul(v_load(from + i, count), factor);
               store_element(type, at, i, count, v_add(x, v_zero())));
    }
}

void FV_SIMD_NAME(fv_attn_narrow)(fv_dtype type, const float *from, int64_t row, int64_t rows,
                                  int64_t width, const float *by, void *to, int64_t to_row)
{
    if (type == FV_BF16)
        narrow(FV_BF16, from, row, rows, width, by, to, to_row);
    else if (type == FV_F16)
        narrow(FV_F16, from, row, rows, width, by, to, to_row);
    else
        narrow(FV_F32, from, row, rows, width, by, to, to_row);
}

/* The top bit of a lane is set from the first NaN or infinity on: adding one to the exponent of
 * such a number carries into the sign. */
V_INLINE vi look_at(vi seen, vf x)
{
    const vi size = vi_and(vi_of(x), vi_set(0x7fffffffu));
    return vi_or(seen, vi_add(size, vi_set(0x00800000u)));
}
V_INLINE bool is_all_finite(vi seen) { return !vi_any(seen, vi_set(0x80000000u)); }

/* Numbers of 16 bits: once one of them is not finite, the largest size is beyond the finite ones.
 */
V_INLINE __m256i look_at_half(__m256i most, const uint16_t *p, int count)
{
    const __m256i size = _mm256_and_si256(v_load_words(p, count), _mm256_set1_epi16(0x7fff));
    return _mm256_max_epu16(most, size);
}
V_INLINE bool is_half_finite(fv_dtype type, __m256i most)
{
    const __m256i largest = _mm256_set1_epi16(type == FV_F16 ? 0x7bff : 0x7f7f);
    const __m256i beyond = _mm256_cmpgt_epi16(most, largest);
    return _mm256_testz_si256(beyond, beyond);
}

V_INLINE bool widen_half_rows(fv_dtype type, const uint16_t *from, int64_t row, int64_t rows,
                              int64_t width, float *to, int64_t to_row)
{
    __m256i most = _mm256_setzero_si256();
    for (int64_t r = 0; r < rows; r++, from += row, to += to_row)
        V_LOOP(width, 0, most = look_at_half(most, from + i, count);
               v_store(to + i, count, v_load_half(type, from + i, count)));
    return is_half_finite(type, most);
}

static bool copy_rows(const float *from, int64_t row, int64_t rows, int64_t width, float *to,
                      int64_t to_row)
{
    vi seen = vi_set(0);
    for (int64_t r = 0; r < rows; r++, from += row, to += to_row)
        V_LOOP(width, 0, const vf x = v_load(from + i, count); seen = look_at(seen, x);
               v_store(to + i, count, x));
    return is_all_finite(seen);
}

bool FV_SIMD_NAME(fv_attn_widen_rows)(fv_dtype type, const void *from, int64_t row, int64_t rows,
                                      int64_t width, float *to, int64_t to_row)
{
    if (type == FV_BF16) return widen_half_rows(FV_BF16, from, row, rows, width, to, to_row);
    if (type == FV_F16) return widen_half_rows(FV_F16, from, row, rows, width, to, to_row);
    return copy_rows(from, row, rows, width, to, to_row);
}

/* ---- rows in place, or as floats -------------------------------------------------- */

fv_attn_rows FV_SIMD_NAME(fv_attn_rows_at)(const fv_attn *a, void *base, const fv_attn_layout *l,
                                           int64_t b, int64_t h, int64_t i, int64_t count,
                                           int64_t width, fv_attn_rows room)
{
    if (!base) return (fv_attn_rows){.at = NULL};
    if (!fv_attn_is_half(a->dtype)) return (fv_attn_rows){fv_attn_out(a, base, l, b, h, i), l->row};
    const void *from = fv_attn_at(a, base, l, b, h, i);
    FV_SIMD_NAME(fv_attn_widen_rows)(a->dtype, from, l->row, count, width, room.at, room.row);
    return room;
}

fv_attn_rows FV_SIMD_NAME(fv_attn_sums_at)(const fv_attn *a, void *base, const fv_attn_layout *l,
                                           int64_t b, int64_t h, int64_t i, fv_attn_rows room)
{
    if (!base) return (fv_attn_rows){.at = NULL};
    if (fv_attn_is_half(a->dtype)) return room;
    return (fv_attn_rows){fv_attn_out(a, base, l, b, h, i), l->row};
}

void FV_SIMD_NAME(fv_attn_deliver)(const fv_attn *a, fv_attn_rows sums, void *base,
                                   const fv_attn_layout *l, int64_t b, int64_t h, int64_t i,
                                   int64_t count, int64_t width)
{
    if (!sums.at || !fv_attn_is_half(a->dtype)) return;
    FV_SIMD_NAME(fv_attn_narrow)
    (a->dtype, sums.at, sums.row, count, width, NULL, fv_attn_out(a, base, l, b, h, i), l->row);
}

/* ---- finite ----------------------------------------------------------------------- */

static bool floats_are_finite(const float *x, int64_t stride, int64_t rows, int64_t width)
{
    vi seen = vi_set(0);
    for (int64_t r = 0; r < rows; r++)
        V_LOOP(width, 0, seen = look_at(seen, v_load(x + r * stride + i, count)));
    return is_all_finite(seen);
}

static bool halves_are_finite(fv_dtype type, const uint16_t *x, int64_t stride, int64_t rows,
                              int64_t width)
{
    __m256i most = _mm256_setzero_si256();
    for (int64_t r = 0; r < rows; r++)
        V_LOOP(width, 0, most = look_at_half(most, x + r * stride + i, count));
    return is_half_finite(type, most);
}

bool FV_SIMD_NAME(fv_attn_finite)(fv_dtype type, const void *x, int64_t stride, int64_t rows,
                                  int64_t width)
{
    return fv_attn_is_half(type) ? halves_are_finite(type, x, stride, rows, width)
                                 : floats_are_finite(x, stride, rows, width);
}

/* ---- panels ----------------------------------------------------------------------- */

/* Eight words of two 16-bit numbers each: the first ones and the second ones as floats. */
V_INLINE void split_words(fv_dtype type, __m256 words, float *first, float *second)
{
    const __m256i x = _mm256_castps_si256(words);
    if (type == FV_BF16) {
        const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
        _mm256_storeu_ps(first, _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)));
        _mm256_storeu_ps(second, _mm256_castsi256_ps(_mm256_and_si256(x, high)));
        return;
    }
    const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i sorted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, apart), 0xd8);
    _mm256_storeu_ps(first, _mm256_cvtph_ps(_mm256_castsi256_si128(sorted)));
    _mm256_storeu_ps(second, _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1)));
}

/* A whole panel, `width` a multiple of 8: transposed in pairs, which is half the work, and widened
 * on the way out. */
V_INLINE void pack_pairs(fv_dtype type, const uint16_t *k, int64_t row, int64_t width, float *panel)
{
    for (int64_t j = 0; j < FV_ATTN_PANEL; j += 8)
        for (int64_t c = 0; c < width; c += 8) {
            __m256 pair[4];
            fv_transpose_words(k + j * row + c, row * (int64_t)sizeof *k, pair);
            float *to = panel + c * FV_ATTN_PANEL + j;
            for (int i = 0; i < 4; i++, to += 2 * FV_ATTN_PANEL)
                split_words(type, pair[i], to, to + FV_ATTN_PANEL);
        }
}

/* What is left of a panel, a vector of the width at a time: what is widened stays in the
 * first-level cache. */
static void pack_rest(fv_dtype type, const uint16_t *k, int64_t row, int64_t keys, int64_t begin,
                      int64_t width, float *panel)
{
    float part[FV_ATTN_PANEL * FV_LANES];
    for (int64_t c = begin; c < width; c += FV_LANES) {
        const int64_t depth = fv_attn_min(FV_LANES, width - c);
        FV_SIMD_NAME(fv_attn_widen_rows)(type, k + c, row, keys, depth, part, FV_LANES);
        FV_GEMM_NAME(pack_b)
        (depth, keys, part, 1, FV_LANES, FV_ATTN_PANEL, panel + c * FV_ATTN_PANEL);
    }
}

void FV_SIMD_NAME(fv_attn_pack)(fv_dtype type, const void *k, int64_t row, int64_t keys,
                                int64_t width, float *panels)
{
    if (!fv_attn_is_half(type)) {
        FV_GEMM_NAME(pack_b)(width, keys, k, 1, row, FV_ATTN_PANEL, panels);
        return;
    }
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL) {
        const uint16_t *from = (const uint16_t *)k + j * row;
        const int64_t some = fv_attn_min(FV_ATTN_PANEL, keys - j);
        const int64_t whole = some == FV_ATTN_PANEL ? width & ~(int64_t)7 : 0;
        float *panel = panels + j * width;
        if (type == FV_BF16)
            pack_pairs(FV_BF16, from, row, whole, panel);
        else
            pack_pairs(FV_F16, from, row, whole, panel);
        pack_rest(type, from, row, some, whole, width, panel);
    }
}

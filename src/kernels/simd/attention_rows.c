/*
 * Rows of q, k, v and o as they are stored: floats, bf16 or f16. Everything behind these functions
 * is float; see attention_simd.h.
 */
#include "kernels/simd/attention_simd.h"
#include "kernels/simd/half_simd.h"

V_INLINE void widen_half(fv_dtype type, const uint16_t *from, int64_t width, float factor,
                         float *to)
{
    const vf by = v_set(factor);
    V_LOOP(width, 0, v_store(to + i, count, v_mul(v_load_half(type, from + i, count), by)));
}

void FV_SIMD_NAME(fv_attn_widen)(fv_dtype type, const void *from, int64_t width, float factor,
                                 float *to)
{
    const float *x = from;
    const vf by = v_set(factor);
    if (type == FV_BF16)
        widen_half(FV_BF16, from, width, factor, to);
    else if (type == FV_F16)
        widen_half(FV_F16, from, width, factor, to);
    else
        V_LOOP(width, 0, v_store(to + i, count, v_mul(v_load(x + i, count), by)));
}

V_INLINE void widen_half_rows(fv_dtype type, const uint16_t *from, int64_t row, int64_t rows,
                              int64_t width, float *to, int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++, from += row, to += to_row)
        V_LOOP(width, 0, v_store(to + i, count, v_load_half(type, from + i, count)));
}

void FV_SIMD_NAME(fv_attn_widen_rows)(fv_dtype type, const void *from, int64_t row, int64_t rows,
                                      int64_t width, float *to, int64_t to_row)
{
    if (type == FV_BF16) {
        widen_half_rows(FV_BF16, from, row, rows, width, to, to_row);
    } else if (type == FV_F16) {
        widen_half_rows(FV_F16, from, row, rows, width, to, to_row);
    } else {
        const float *x = from;
        for (int64_t r = 0; r < rows; r++, x += row, to += to_row)
            V_LOOP(width, 0, v_store(to + i, count, v_load(x + i, count)));
    }
}

void FV_SIMD_NAME(fv_attn_narrow)(fv_dtype type, const float *from, int64_t width, void *to)
{
    if (type == FV_BF16)
        V_LOOP(width, 0, v_store_half(FV_BF16, (uint16_t *)to + i, count, v_load(from + i, count)));
    else if (type == FV_F16)
        V_LOOP(width, 0, v_store_half(FV_F16, (uint16_t *)to + i, count, v_load(from + i, count)));
    else
        V_LOOP(width, 0, v_store((float *)to + i, count, v_load(from + i, count)));
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
    for (int64_t r = 0; r < count; r++)
        FV_SIMD_NAME(fv_attn_narrow)
    (a->dtype, sums.at + r * sums.row, width, fv_attn_out(a, base, l, b, h, i + r));
}

/* ---- finite ----------------------------------------------------------------------- */

static bool floats_are_finite(const float *x, int64_t stride, int64_t rows, int64_t width)
{
    vf sum[2] = {v_zero(), v_zero()}; /* NaN from the first NaN or infinity on */
    for (int64_t r = 0; r < rows; r++)
        V_LOOP(width, 0,
               sum[r % 2] = v_fma(v_load(x + r * stride + i, count), v_zero(), sum[r % 2]));
    return vm_bits(v_nan(v_add(sum[0], sum[1]))) == 0;
}

V_INLINE bool halves_are_finite(fv_dtype type, const uint16_t *x, int64_t stride, int64_t rows,
                                int64_t width)
{
    vf sum = v_zero();
    for (int64_t r = 0; r < rows; r++)
        V_LOOP(width, 0, sum = v_fma(v_load_half(type, x + r * stride + i, count), v_zero(), sum));
    return vm_bits(v_nan(sum)) == 0;
}

bool FV_SIMD_NAME(fv_attn_finite)(fv_dtype type, const void *x, int64_t stride, int64_t rows,
                                  int64_t width)
{
    if (type == FV_BF16) return halves_are_finite(FV_BF16, x, stride, rows, width);
    if (type == FV_F16) return halves_are_finite(FV_F16, x, stride, rows, width);
    return floats_are_finite(x, stride, rows, width);
}

/* ---- panels ----------------------------------------------------------------------- */

/* One panel, a vector of the width at a time: what is widened stays in the first-level cache. */
static void pack_panel(fv_dtype type, const uint16_t *k, int64_t row, int64_t keys, int64_t width,
                       float *panel)
{
    float part[FV_ATTN_PANEL * FV_LANES];
    for (int64_t c = 0; c < width; c += FV_LANES) {
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
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL)
        pack_panel(type, (const uint16_t *)k + j * row, row, fv_attn_min(FV_ATTN_PANEL, keys - j),
                   width, panels + j * width);
}

/*
 * Weights packed for GEMM as f32, bf16 or int8: the layout of a panel of FV_GEMM_PANEL columns, and
 * access to its elements.
 *
 *     const char *panel = fv_weight_panel(FV_WEIGHT_I8, packed, k, first);
 *     const float *scales = fv_weight_scales(FV_WEIGHT_I8, panel);
 *     float w = fv_weight_at(FV_WEIGHT_I8, panel, row, col) * scales[col];
 *
 * Layouts:
 *
 *   - f32: [k][panel] floats.
 *
 *   - bf16: [(k + 1) / 2][panel] words of two bf16. The low half of a word is row 2i, the high half
 *     row 2i + 1, so that a shift or a mask gives a vector of floats. If k is odd, the last high
 *     halves are zeros.
 *
 *   - i8: the scales, [panel] floats, then [k][panel] signed bytes.
 *
 * Columns past the last are zeros. Panels are contiguous, and each starts on a cache line.
 */
#ifndef FV_KERNELS_WEIGHTS_H
#define FV_KERNELS_WEIGHTS_H

#include "kernels/gemm.h"
#include "kernels/half.h"

enum { FV_I8_MAX = 127, FV_I8_SCALE_BYTES = FV_GEMM_PANEL * (int)sizeof(float) };

/* GATHER_WEIGHTS: out[i] = row index[i] of the weight [n, k] whose transpose (k x n) is packed.
 * ptr: out, packed, index (i64). f32 only. */
typedef struct fv_gather_weights_args {
    int64_t count, k, n;
    fv_weight_form form;
} fv_gather_weights_args;

static inline size_t fv_weight_panel_bytes(fv_weight_form form, int64_t k)
{
    const size_t line = FV_GEMM_PANEL * sizeof(float);
    if (form == FV_WEIGHT_BF16) return ((size_t)k + 1) / 2 * line;
    if (form == FV_WEIGHT_I8) return FV_I8_SCALE_BYTES + (size_t)k * FV_GEMM_PANEL;
    return (size_t)k * line;
}

/* The panel whose first column is `first`, a multiple of FV_GEMM_PANEL. */
static inline const char *fv_weight_panel(fv_weight_form form, const void *packed, int64_t k,
                                          int64_t first)
{
    return (const char *)packed + (size_t)(first / FV_GEMM_PANEL) * fv_weight_panel_bytes(form, k);
}

/* Factors for the sums over each column, [panel]; NULL: none. */
static inline const float *fv_weight_scales(fv_weight_form form, const char *panel)
{
    return form == FV_WEIGHT_I8 ? (const float *)(const void *)panel : NULL;
}

/* Element (k, col) of the panel, before scaling. */
static inline float fv_weight_at(fv_weight_form form, const char *panel, int64_t k, int64_t col)
{
    if (form == FV_WEIGHT_I8)
        return (float)((const signed char *)panel)[FV_I8_SCALE_BYTES + k * FV_GEMM_PANEL + col];
    if (form == FV_WEIGHT_BF16)
        return fv_bf16_to_f32(
            ((const uint16_t *)(const void *)panel)[(k / 2 * FV_GEMM_PANEL + col) * 2 + k % 2]);
    return ((const float *)(const void *)panel)[k * FV_GEMM_PANEL + col];
}

/* The PACK kernel for formats other than F32, the same for every level. */
void fv_weight_convert(const fv_exec *exec, void *const *ptr, const fv_gemm_pack_args *args);

#endif

/*
 * Packed weights (kernels/weights.h) as panels of words of two bf16, for bf16 products. An int8
 * weight is a whole number of at most seven bits and a bf16 weight is one already, so nothing is
 * rounded; scales are left to the epilogue.
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_WEIGHTS_H
#define FV_KERNELS_SIMD_GEMM_BF16_WEIGHTS_H

#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

/* One row of words, in slices of `width` columns that are `slice` words apart. */
FV_INLINE void fv_weights_pair_i8(const signed char *first, const signed char *second,
                                  const int width, int64_t slice, uint32_t *out)
{
    FV_UNROLL
    for (int col = 0; col < FV_GEMM_PANEL; col += FV_VEC) {
        const fv_vec low = fv_vec_load_i8(first + col);
        const fv_vec high = second ? fv_vec_load_i8(second + col) : fv_vec_zero();
        fv_words_store(out + col / width * slice + col % width, fv_words_of_bf16(low, high));
    }
}

/* Elements [k, k + numbers) of a panel's columns, k even: [columns/width][depth][width], with zeros
 * past the last. */
FV_INLINE void fv_weights_as_pairs(fv_weight_form form, const char *panel, int64_t k,
                                   int64_t numbers, const int width, int64_t depth, uint32_t *out)
{
    const int64_t pairs = (numbers + 1) / 2, slice = depth * width;
    const signed char *bytes = (const signed char *)panel + FV_I8_SCALE_BYTES + k * FV_GEMM_PANEL;
    const uint32_t *words = (const uint32_t *)(const void *)panel + k / 2 * FV_GEMM_PANEL;
    for (int64_t pair = 0; pair < pairs; pair++, out += width) {
        if (form == FV_WEIGHT_I8) {
            const signed char *first = bytes + 2 * pair * FV_GEMM_PANEL;
            const bool both = 2 * pair + 1 < numbers;
            fv_weights_pair_i8(first, both ? first + FV_GEMM_PANEL : NULL, width, slice, out);
        } else {
            for (int col = 0; col < FV_GEMM_PANEL; col += width)
                memcpy(out + col / width * slice, words + pair * FV_GEMM_PANEL + col,
                       (size_t)width * sizeof *out);
        }
    }
    for (int col = 0; col < FV_GEMM_PANEL; col += width)
        memset(out + col / width * slice, 0, (size_t)((depth - pairs) * width) * sizeof *out);
}

#endif

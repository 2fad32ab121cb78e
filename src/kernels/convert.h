/*
 * Conversion of strided elements between any two dtypes.
 *
 *     fv_convert(n, FV_BF16, out, 1, FV_F32, in, 1);
 *
 * Float to narrower float rounds once, to nearest even. Float to integer truncates towards zero
 * and saturates, NaN becomes 0. Integer to narrower integer saturates. Integer to float rounds to
 * nearest even.
 */
#ifndef FV_KERNELS_CONVERT_H
#define FV_KERNELS_CONVERT_H

#include "fovea/tensor.h"

/* Strides in elements. out may equal in if the element sizes and strides are equal. */
void fv_convert(int64_t n, fv_dtype to, void *out, int64_t out_stride, fv_dtype from,
                const void *in, int64_t in_stride);

#endif

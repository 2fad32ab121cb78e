/*
 * Functions that register kernels in a table: one per family and element type. Only kernels/table.c
 * calls them, in the order scalar, AVX2, AVX-512, so that later ones replace earlier ones.
 */
#ifndef FV_KERNELS_FILL_H
#define FV_KERNELS_FILL_H

#include "kernels/kernel.h"

/* Compiled once, for every dtype. */
void fv_copy_fill(fv_kernel_table *t);
void fv_gather_fill(fv_kernel_table *t);
void fv_integer_fill(fv_kernel_table *t);
void fv_weights_fill(fv_kernel_table *t);
void fv_prefilter_fill(fv_kernel_table *t);

/* Compiled from one source for float and double. */
#define FV_REF_FILL(family)                                                                        \
    void fv_ref_##family##_fill_f32(fv_kernel_table *t);                                           \
    void fv_ref_##family##_fill_f64(fv_kernel_table *t)

FV_REF_FILL(elementwise);
FV_REF_FILL(reduce);
FV_REF_FILL(softmax);
FV_REF_FILL(norm);
FV_REF_FILL(unit);
FV_REF_FILL(rotary);
FV_REF_FILL(loss);
FV_REF_FILL(topk);
FV_REF_FILL(index);
FV_REF_FILL(random);
FV_REF_FILL(gemm);
FV_REF_FILL(attention);
FV_REF_FILL(attention_weights);
FV_REF_FILL(recurrent);
FV_REF_FILL(sequence);
FV_REF_FILL(conv);
FV_REF_FILL(optim);

/* SIMD versions, f32. */
void fv_simd_gemm_fill_avx2(fv_kernel_table *t);
void fv_simd_fill_avx2(fv_kernel_table *t);
void fv_simd_gemm_fill_avx512(fv_kernel_table *t);
void fv_simd_fill_avx512(fv_kernel_table *t);
void fv_simd_bf16_fill_avx512(fv_kernel_table *t); /* for CPUs that have AVX512_BF16 as well */
void fv_simd_vnni_fill_avx512(fv_kernel_table *t); /* ... and AVX512_VNNI */

#endif

/*
 * Functions that register kernels in a table: one per family and element type. Only kernels/table.c
 * calls them, in the order scalar, AVX2, AVX-512, AMX or scalar, NEON, so that later ones replace
 * earlier ones.
 */
#ifndef FV_KERNELS_REGISTER_H
#define FV_KERNELS_REGISTER_H

#include "kernels/kernel.h"

/* Compiled once, for every dtype. */
void fv_copy_register(fv_kernel_table *t);
void fv_cache_register(fv_kernel_table *t);
void fv_gather_register(fv_kernel_table *t);
void fv_integer_register(fv_kernel_table *t);
void fv_weights_register(fv_kernel_table *t);
void fv_prefilter_register(fv_kernel_table *t);

/* Compiled from one source for float and double. */
#define FV_REF_REGISTER(family)                                                                    \
    void fv_ref_##family##_register_f32(fv_kernel_table *t);                                       \
    void fv_ref_##family##_register_f64(fv_kernel_table *t)

FV_REF_REGISTER(elementwise);
FV_REF_REGISTER(reduce);
FV_REF_REGISTER(softmax);
FV_REF_REGISTER(norm);
FV_REF_REGISTER(unit);
FV_REF_REGISTER(rotary);
FV_REF_REGISTER(loss);
FV_REF_REGISTER(topk);
FV_REF_REGISTER(index);
FV_REF_REGISTER(random);
FV_REF_REGISTER(gemm);
FV_REF_REGISTER(attention);
FV_REF_REGISTER(attention_weights);
FV_REF_REGISTER(recurrent);
FV_REF_REGISTER(sequence);
FV_REF_REGISTER(ntm);
FV_REF_REGISTER(conv);
FV_REF_REGISTER(conv2d);
FV_REF_REGISTER(pool2d);
FV_REF_REGISTER(resize2d);
FV_REF_REGISTER(batch_norm);
FV_REF_REGISTER(optim);
FV_REF_REGISTER(word2vec);

/* SIMD versions, f32. */
void fv_simd_gemm_register_neon(fv_kernel_table *t);
void fv_simd_register_neon(fv_kernel_table *t);
void fv_simd_gemm_register_avx2(fv_kernel_table *t);
void fv_simd_register_avx2(fv_kernel_table *t);
void fv_simd_gemm_register_avx512(fv_kernel_table *t);
void fv_simd_register_avx512(fv_kernel_table *t);
void fv_simd_bf16_register_avx512(fv_kernel_table *t); /* for CPUs that have AVX512_BF16 as well */
void fv_simd_vnni_register_avx512(fv_kernel_table *t); /* ... and AVX512_VNNI */
void fv_simd_amx_register_avx512(fv_kernel_table *t);  /* level amx, on top of AVX-512 */
/* In tests: the attention of level amx on emulated tiles, for CPUs with AVX512_BF16. */
void fv_simd_attention_emulated_register_avx512(fv_kernel_table *t);

#endif

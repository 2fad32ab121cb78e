/* Registration functions of each family of SIMD kernels; fill.c calls them all. */
#ifndef FV_KERNELS_SIMD_FILL_H
#define FV_KERNELS_SIMD_FILL_H

#include "kernels/fill.h"
#include "kernels/simd/simd.h"

void fv_simd_elementwise_fill(fv_kernel_table *t);
void fv_simd_reduce_fill(fv_kernel_table *t);
void fv_simd_softmax_fill(fv_kernel_table *t);
void fv_simd_norm_fill(fv_kernel_table *t);
void fv_simd_rotary_fill(fv_kernel_table *t);
void fv_simd_loss_fill(fv_kernel_table *t);
void fv_simd_index_fill(fv_kernel_table *t);
void fv_simd_random_fill(fv_kernel_table *t);
void fv_simd_recurrent_fill(fv_kernel_table *t);
void fv_simd_sequence_fill(fv_kernel_table *t);
void fv_simd_optim_fill(fv_kernel_table *t);
void fv_simd_attention_fill(fv_kernel_table *t);
void fv_simd_attention_weights_fill(fv_kernel_table *t);

#endif

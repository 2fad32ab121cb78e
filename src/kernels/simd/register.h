/* Registration functions of each family of SIMD kernels; register.c calls them all. */
#ifndef FV_KERNELS_SIMD_REGISTER_H
#define FV_KERNELS_SIMD_REGISTER_H

#include "kernels/register.h"
#include "kernels/simd/simd.h"

void fv_simd_half_register(fv_kernel_table *t);
void fv_simd_batch_norm_register(fv_kernel_table *t);
void fv_simd_pool2d_register(fv_kernel_table *t);
void fv_simd_conv2d_register(fv_kernel_table *t);
void fv_simd_conv2d_weight_register(fv_kernel_table *t);
void fv_simd_elementwise_register(fv_kernel_table *t);
void fv_simd_reduce_register(fv_kernel_table *t);
void fv_simd_softmax_register(fv_kernel_table *t);
void fv_simd_norm_register(fv_kernel_table *t);
void fv_simd_rotary_register(fv_kernel_table *t);
void fv_simd_loss_register(fv_kernel_table *t);
void fv_simd_index_register(fv_kernel_table *t);
void fv_simd_random_register(fv_kernel_table *t);
void fv_simd_recurrent_register(fv_kernel_table *t);
void fv_simd_sequence_register(fv_kernel_table *t);
void fv_simd_ntm_register(fv_kernel_table *t);
void fv_simd_optim_register(fv_kernel_table *t);
void fv_simd_word2vec_register(fv_kernel_table *t);
void fv_simd_attention_register(fv_kernel_table *t);
void fv_simd_attention_weights_register(fv_kernel_table *t);
void fv_simd_attention_amx_register(fv_kernel_table *t); /* part of level amx */

#endif

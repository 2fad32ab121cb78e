/* Replaces entries of the table with the kernels of this level. */
#include "kernels/simd/register.h"

void fv_simd_register(fv_kernel_table *t)
{
    fv_simd_half_register(t);
    fv_simd_elementwise_register(t);
    fv_simd_reduce_register(t);
    fv_simd_softmax_register(t);
    fv_simd_norm_register(t);
    fv_simd_rotary_register(t);
    fv_simd_loss_register(t);
    fv_simd_index_register(t);
    fv_simd_random_register(t);
    fv_simd_recurrent_register(t);
    fv_simd_sequence_register(t);
    fv_simd_ntm_register(t);
    fv_simd_optim_register(t);
    fv_simd_word2vec_register(t);
    fv_simd_batch_norm_register(t);
    fv_simd_conv2d_register(t);
    fv_simd_pool2d_register(t);
    fv_simd_attention_register(t);
    fv_simd_attention_weights_register(t);
}

/* Puts this level's kernels over what the table holds. */
#include "kernels/simd/fill.h"

void FV_SIMD_FILL(fv_kernel_table *t)
{
    FV_SIMD_NAME(fv_simd_elementwise_fill)(t);
    FV_SIMD_NAME(fv_simd_reduce_fill)(t);
    FV_SIMD_NAME(fv_simd_softmax_fill)(t);
    FV_SIMD_NAME(fv_simd_norm_fill)(t);
    FV_SIMD_NAME(fv_simd_rotary_fill)(t);
    FV_SIMD_NAME(fv_simd_loss_fill)(t);
    FV_SIMD_NAME(fv_simd_index_fill)(t);
    FV_SIMD_NAME(fv_simd_random_fill)(t);
    FV_SIMD_NAME(fv_simd_recurrent_fill)(t);
    FV_SIMD_NAME(fv_simd_sequence_fill)(t);
    FV_SIMD_NAME(fv_simd_optim_fill)(t);
    FV_SIMD_NAME(fv_simd_attention_fill)(t);
    FV_SIMD_NAME(fv_simd_attention_weights_fill)(t);
}

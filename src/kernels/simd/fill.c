/* Replaces entries of the table with the kernels of this level. */
#include "kernels/simd/fill.h"

void fv_simd_fill(fv_kernel_table *t)
{
    fv_simd_elementwise_fill(t);
    fv_simd_reduce_fill(t);
    fv_simd_softmax_fill(t);
    fv_simd_norm_fill(t);
    fv_simd_rotary_fill(t);
    fv_simd_loss_fill(t);
    fv_simd_index_fill(t);
    fv_simd_random_fill(t);
    fv_simd_recurrent_fill(t);
    fv_simd_sequence_fill(t);
    fv_simd_optim_fill(t);
    fv_simd_attention_fill(t);
    fv_simd_attention_weights_fill(t);
}

/* Attention backward over bf16 with S = Q K^T and dP = dO V^T as bf16 dot products
 * (attention_bf16_dot.h). */
#include "kernels/simd/attention_grad.h"

#if FV_SIMD_LEVEL == 3

void fv_attn_backward_bf16(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_attn_grad_products products = {.pack = fv_attn_bf16_pack,
                                                   .rows_at = fv_attn_bf16_rows_at,
                                                   .deinterleave = fv_attn_bf16_deinterleave,
                                                   .interleave = fv_attn_bf16_interleave,
                                                   .scores = fv_attn_bf16_scores,
                                                   .dots = fv_attn_bf16_dots};
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, true, fv_attn_backward_bf16, fv_attn_backward_bytes);
    else
        fv_attn_backward_with(exec, ptr, a, &products);
}

#endif

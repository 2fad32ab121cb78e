/* Attention backward over bf16 with S = Q K^T and dP = dO V^T by pairs (attention_pairs.h). */
#include "kernels/simd/attention_grad.h"

#if FV_SIMD_LEVEL == 3

void FV_SIMD_NAME(fv_attn_backward_bf16)(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_attn_grad_pairs pairs = {.pack = FV_SIMD_NAME(fv_attn_pack_pairs),
                                             .rows_at = FV_SIMD_NAME(fv_attn_pair_rows_at),
                                             .split = FV_SIMD_NAME(fv_attn_split_rows),
                                             .unite = FV_SIMD_NAME(fv_attn_unite_rows),
                                             .scores = FV_SIMD_NAME(fv_attn_pair_scores),
                                             .dots = FV_SIMD_NAME(fv_attn_pair_dots)};
    const fv_attn *a = args;
    if (a->packed)
        fv_attn_run_packed(exec, ptr, a, true, FV_SIMD_NAME(fv_attn_backward_bf16),
                           FV_SIMD_NAME(fv_attn_backward_bytes));
    else
        FV_SIMD_NAME(fv_attn_backward_by)(exec, ptr, a, &pairs);
}

#endif

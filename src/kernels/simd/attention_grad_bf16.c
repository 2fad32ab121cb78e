/* Attention backward over bf16 with S = Q K^T and dP = dO V^T by pairs (attention_pairs.h). */
#include "kernels/simd/attention_grad.h"

#if FV_SIMD_LEVEL == 3

void fv_attn_backward_bf16(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_attn_grad_pairs pairs = {.pack = fv_attn_pack_pairs,
                                             .rows_at = fv_attn_pair_rows_at,
                                             .split = fv_attn_split_rows,
                                             .unite = fv_attn_unite_rows,
                                             .scores = fv_attn_pair_scores,
                                             .dots = fv_attn_pair_dots};
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, true, fv_attn_backward_bf16, fv_attn_backward_bytes);
    else
        fv_attn_backward_by(exec, ptr, a, &pairs);
}

#endif

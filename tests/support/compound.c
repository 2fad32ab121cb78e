#include "support/compound.h"

const fv_op_desc *const compound_table[] = {
    &compound_scores,      &compound_masks,        &compound_local,         &compound_hard,
    &compound_absolute,    &compound_relative,     &compound_free_heads,    &compound_fused_heads,
    &compound_cross_heads, &compound_normed_heads, &compound_block,         &compound_grid,
    &compound_conv1d,      &compound_lookup,       &compound_sequence_nets, &compound_guided};
const int compound_count = (int)(sizeof compound_table / sizeof *compound_table);

fv_tensor *compound_join(fv_ctx *ctx, int n, fv_tensor *const *t)
{
    enum { MOST = 8 };
    fv_tensor *flat[MOST];
    int parts = 0;
    for (int i = 0; i < n && parts < MOST; i++) {
        const bool real =
            t[i] && (fv_tensor_dtype(t[i]) == FV_F32 || fv_tensor_dtype(t[i]) == FV_F64);
        if (real) flat[parts++] = fv_reshape(ctx, t[i], 1, (int64_t[]){-1});
    }
    return parts == 1 ? flat[0] : fv_concat(ctx, parts, flat, 0);
}

void compound_backward(fv_op_back *back) { (void)back; }

/* Shared by the ops of the attention family: the order of their inputs, descriptions, checks. */
#ifndef FV_OPS_ATTEND_H
#define FV_OPS_ATTEND_H

#include "fovea/attention.h"
#include "kernels/attention.h"
#include "ops/op.h"

enum { Q, K, V, BIAS, VISIBLE, KEY_LENGTHS, SLOPES, W, Q_BEGIN, K_BEGIN, BLOCKS, INPUTS };
enum { LSE = V }; /* of the ops that recompute weights: they read no values */

/* The inputs that are not q, k, v or lse; extra may be NULL. */
void fv_attend_set_extra(fv_tensor **in, const fv_attend_extra *extra);

/* Score and rule, whose scale is resolved for a->d; documents, whose number becomes the batch. */
void fv_attend_describe(fv_attn *a, const fv_attention_rule *rule, fv_tensor *const *in);

/* Presence of q, k, w and bias, which decides on the score. */
fv_status fv_attend_check_presence(fv_op_run *run);

/* Shapes of bias, visible, blocks, key_lengths, slopes and w, where they are given. */
fv_status fv_attend_check_extra(fv_op_run *run, const fv_attn *a);

/* Offsets of varlen documents, which need `rows` = 1. */
fv_status fv_attend_check_documents(fv_op_run *run, int64_t rows);

/* The dtype of bias, slopes, w and the log-sum-exp: never bf16 or f16. */
static inline fv_dtype fv_attend_score_dtype(fv_dtype dtype)
{
    return fv_attn_is_half(dtype) ? FV_F32 : dtype;
}

/* Kernels need contiguous rows of q, k, v; all other strides are free. */
fv_tensor *fv_attend_dense_rows(fv_ctx *ctx, fv_tensor *t);
fv_attn_layout fv_attend_layout(const fv_tensor *t);
fv_attn_grid fv_attend_grid(const fv_tensor *t); /* t may be NULL */

#endif

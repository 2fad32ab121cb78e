/* What the ops of the attention family share: the order of their inputs, settings, checks. */
#ifndef FV_OPS_ATTEND_H
#define FV_OPS_ATTEND_H

#include "kernels/attention.h"
#include "ops/op.h"

enum { Q, K, V, BIAS, VISIBLE, N_KEYS, SLOPES, W, Q_BEGIN, K_BEGIN, BLOCKS, INPUTS };
enum { LSE = V }; /* of the ops that tell about weights: they look at no values */

/* Everything but sizes, strides and the key of the dropout; poisons and fails if the config was not
 * initialised. cfg may be NULL. */
fv_status fv_attend_settings(fv_ctx *ctx, const fv_attend_config *cfg, fv_attn *a);

/* Shapes of bias, visible, blocks, n_keys, slopes and w, as far as they are given. */
fv_status fv_attend_check_extra(fv_op_run *run, const fv_attn *a);

/* Offsets of documents packed in one row, of which there must be `rows` = 1; and what they say. */
fv_status fv_attend_check_documents(fv_op_run *run, int64_t rows);
void fv_attend_set_documents(fv_attn *a, fv_tensor *const *in);

/* Of what goes with scores: bias, slopes, w and the log-sum-exp are never stored in 16 bits. */
static inline fv_dtype fv_attend_score_dtype(fv_dtype dtype)
{
    return fv_attn_is_half(dtype) ? FV_F32 : dtype;
}

/* Kernels read rows of q, k, v without gaps; any other strides are as good as dense ones. */
fv_tensor *fv_attend_dense_rows(fv_ctx *ctx, fv_tensor *t);
fv_attn_layout fv_attend_layout(const fv_tensor *t);
fv_attn_grid fv_attend_grid(const fv_tensor *t); /* t may be NULL */

#endif

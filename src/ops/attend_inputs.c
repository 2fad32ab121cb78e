/* Descriptions, shapes and strides of the ops of the attention family. */
#include "ops/attend.h"

/* ---- descriptions ----------------------------------------------------------------- */

void fv_attend_set_extra(fv_tensor **in, const fv_attend_extra *extra)
{
    if (!extra) return;
    in[BIAS] = extra->bias;
    in[VISIBLE] = extra->visible;
    in[KEY_LENGTHS] = extra->key_lengths;
    in[SLOPES] = extra->slopes;
    in[W] = extra->w;
    in[Q_BEGIN] = extra->q_begin;
    in[K_BEGIN] = extra->k_begin;
    in[BLOCKS] = extra->blocks;
}

static fv_attn_score score_of(fv_tensor *const *in)
{
    if (!in[Q] && !in[K]) return FV_ATTN_SCORE_NONE;
    return in[W] ? FV_ATTN_SCORE_ADDITIVE : FV_ATTN_SCORE_DOT;
}

void fv_attend_describe(fv_attn *a, const fv_attention_rule *rule, fv_tensor *const *in)
{
    a->score = score_of(in);
    a->rule = *rule;
    a->rule.scale = fv_attn_scale(a);
    a->varlen = in[Q_BEGIN] != NULL;
    if (a->varlen) a->batch = in[Q_BEGIN]->shape[0] - 1;
}

fv_status fv_attend_check_presence(fv_op_run *run)
{
    fv_tensor *const *in = run->in;
    if ((in[Q] != NULL) != (in[K] != NULL))
        return fv_op_error(run, FV_ERR_ARGUMENT, "q and k must both be given, or both be NULL");
    if (in[Q]) return FV_OK;
    if (in[W]) return fv_op_error(run, FV_ERR_ARGUMENT, "w needs q and k");
    if (!in[BIAS] || in[BIAS]->rank < 2)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "without q and k there must be a bias of rank 2 or more");
    return FV_OK;
}

/* ---- shapes ----------------------------------------------------------------------- */

static fv_status check_grid(fv_op_run *run, int i, const char *what, const int64_t full[4])
{
    const fv_tensor *t = run->in[i];
    if (!t) return FV_OK;
    if (t->rank > 4) return fv_op_error(run, FV_ERR_SHAPE, "%s has rank %d", what, t->rank);
    for (int axis = 0; axis < t->rank; axis++) {
        int64_t want = full[axis + 4 - t->rank];
        if (t->shape[axis] == want || t->shape[axis] == 1) continue;
        char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
        return fv_op_error(run, FV_ERR_SHAPE, "%s %s does not broadcast to %s", what,
                           fv_shape_text(a, t->rank, t->shape), fv_shape_text(b, 4, full));
    }
    return FV_OK;
}

static fv_status check_vector(fv_op_run *run, int i, int64_t size, const char *what)
{
    const fv_tensor *t = run->in[i];
    if (t && (t->rank != 1 || t->shape[0] != size))
        return fv_op_error(run, FV_ERR_SHAPE, "%s must have %lld entries", what, (long long)size);
    return FV_OK;
}

static fv_status check_blocks(fv_op_run *run, const fv_attn *a)
{
    if ((a->rule.block_k > 0) != (run->in[BLOCKS] != NULL))
        return fv_op_error(run, FV_ERR_ARGUMENT, "blocks and their sizes belong together");
    if (a->rule.block_k == 0) return FV_OK;
    const int64_t full[4] = {a->batch, a->heads, (a->n_q + a->rule.block_q - 1) / a->rule.block_q,
                             (a->n_k + a->rule.block_k - 1) / a->rule.block_k};
    return check_grid(run, BLOCKS, "blocks", full);
}

static fv_status check_w(fv_op_run *run, const fv_attn *a)
{
    const fv_tensor *w = run->in[W];
    if (!w || (w->rank == 2 && w->shape[0] == a->heads && w->shape[1] == a->d)) return FV_OK;
    return fv_op_error(run, FV_ERR_SHAPE, "w must be [%lld, %lld]", (long long)a->heads,
                       (long long)a->d);
}

fv_status fv_attend_check_documents(fv_op_run *run, int64_t rows)
{
    fv_tensor *const *in = run->in;
    if (!in[Q_BEGIN] && !in[K_BEGIN]) return FV_OK;
    if (!in[Q_BEGIN] || !in[K_BEGIN])
        return fv_op_error(run, FV_ERR_ARGUMENT, "q_begin and k_begin belong together");
    if (in[BIAS] || in[VISIBLE])
        return fv_op_error(run, FV_ERR_UNSUPPORTED,
                           "varlen documents take neither bias nor visible");
    if (rows != 1)
        return fv_op_error(run, FV_ERR_SHAPE, "varlen documents are stored in one row, got %lld",
                           (long long)rows);
    if (in[Q_BEGIN]->rank != 1 || in[K_BEGIN]->rank != 1 || in[Q_BEGIN]->shape[0] < 1 ||
        in[Q_BEGIN]->shape[0] != in[K_BEGIN]->shape[0])
        return fv_op_mismatch(run, Q_BEGIN, K_BEGIN, "are not offsets of the same documents");
    return FV_OK;
}

fv_status fv_attend_check_extra(fv_op_run *run, const fv_attn *a)
{
    const int64_t full[4] = {a->batch, a->heads, a->n_q, a->n_k};
    FV_TRY(check_grid(run, BIAS, "bias", full));
    FV_TRY(check_grid(run, VISIBLE, "visible", full));
    FV_TRY(check_blocks(run, a));
    FV_TRY(check_vector(run, KEY_LENGTHS, a->batch, "key_lengths"));
    FV_TRY(check_vector(run, SLOPES, a->heads, "slopes"));
    return check_w(run, a);
}

/* ---- strides ---------------------------------------------------------------------- */

fv_attn_layout fv_attend_layout(const fv_tensor *t)
{
    return (fv_attn_layout){.batch = t->stride[0], .head = t->stride[1], .row = t->stride[2]};
}

fv_attn_grid fv_attend_grid(const fv_tensor *t)
{
    int64_t stride[4] = {0, 0, 0, 0};
    for (int axis = 0; t && axis < t->rank; axis++)
        if (t->shape[axis] != 1) stride[axis + 4 - t->rank] = t->stride[axis];
    return (fv_attn_grid){
        .batch = stride[0], .head = stride[1], .row = stride[2], .col = stride[3]};
}

fv_tensor *fv_attend_dense_rows(fv_ctx *ctx, fv_tensor *t)
{
    return t->shape[3] == 1 || t->stride[3] == 1 ? t : fv_contiguous_raw(ctx, t);
}

/* Settings, shapes and strides of the ops of the attention family. */
#include "ops/attend.h"

void fv_attend_config_init(fv_attend_config *cfg, size_t struct_size)
{
    const fv_attend_config defaults = {.struct_size = struct_size, .left = -1, .right = -1};
    const char *from = (const char *)&defaults;
    for (size_t i = 0; i < struct_size; i++)
        ((char *)cfg)[i] = i < sizeof defaults ? from[i] : 0;
}

fv_status fv_attend_settings(fv_ctx *ctx, const fv_attend_config *cfg, fv_attn *a)
{
    fv_attend_config full;
    fv_attend_config_init(&full, sizeof full);
    if (cfg && (cfg->struct_size < sizeof cfg->struct_size || cfg->struct_size > sizeof full))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attend: the config was not initialised");
    for (size_t i = 0; cfg && i < cfg->struct_size; i++)
        ((char *)&full)[i] = ((const char *)cfg)[i];
    fv_attn_init(a, sizeof *a);
    a->score = full.score;
    a->scale = full.scale;
    a->soft_cap = full.soft_cap;
    a->causal = full.causal;
    a->left = full.left;
    a->right = full.right;
    a->prefix = full.prefix;
    a->q_offset = full.q_offset;
    a->dropout = full.dropout;
    a->block_q = full.block_q;
    a->block_k = full.block_k;
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
    if ((a->block_k > 0) != (run->in[BLOCKS] != NULL))
        return fv_op_error(run, FV_ERR_ARGUMENT, "blocks and their sizes belong together");
    if (a->block_k == 0) return FV_OK;
    const int64_t full[4] = {a->batch, a->heads, (a->n_q + a->block_q - 1) / a->block_q,
                             (a->n_k + a->block_k - 1) / a->block_k};
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
                           "documents packed in one row take neither bias nor visible");
    if (rows != 1)
        return fv_op_error(run, FV_ERR_SHAPE, "packed documents stand in one row, got %lld",
                           (long long)rows);
    if (in[Q_BEGIN]->rank != 1 || in[K_BEGIN]->rank != 1 || in[Q_BEGIN]->shape[0] < 1 ||
        in[Q_BEGIN]->shape[0] != in[K_BEGIN]->shape[0])
        return fv_op_mismatch(run, Q_BEGIN, K_BEGIN, "are no offsets of the same documents");
    return FV_OK;
}

void fv_attend_set_documents(fv_attn *a, fv_tensor *const *in)
{
    a->packed = in[Q_BEGIN] != NULL;
    if (a->packed) a->batch = in[Q_BEGIN]->shape[0] - 1;
}

fv_status fv_attend_check_extra(fv_op_run *run, const fv_attn *a)
{
    const int64_t full[4] = {a->batch, a->heads, a->n_q, a->n_k};
    FV_FORWARD(check_grid(run, BIAS, "bias", full));
    FV_FORWARD(check_grid(run, VISIBLE, "visible", full));
    FV_FORWARD(check_blocks(run, a));
    FV_FORWARD(check_vector(run, N_KEYS, a->batch, "n_keys"));
    FV_FORWARD(check_vector(run, SLOPES, a->heads, "slopes"));
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

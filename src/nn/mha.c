/*
 * Multi-head attention with free sizes. Rows stay [batch, n, heads, d] as the projections leave
 * them; heads are a view of that, which the streamed kernel reads in place.
 */
#include "nn/mha.h"
#include "attention/score.h"
#include "fovea/layers.h"
#include "tensor/tensor.h"

/* ---- projections ------------------------------------------------------------------- */

/* [batch, n, heads d] -> [batch, n, heads, d] */
static fv_tensor *split_heads(fv_ctx *ctx, fv_tensor *x, int64_t heads, int64_t d)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    return fv_reshape(ctx, x, 4, (int64_t[]){x->shape[0], x->shape[1], heads, d});
}

/* The rotary table for n rows from position `first` on, unless the caller has one; NULL without
 * rotary positions. */
static fv_tensor *rotary_angles(fv_ctx *ctx, const fv_mha *heads, const fv_tensor *x, int64_t first,
                                fv_tensor *given)
{
    const fv_rotary_config *rotary = &heads->cfg.rotary;
    if (rotary->width == 0 || given || ctx->error != FV_OK) return given;
    return fv_rotary_table(ctx, fv_wide_dtype(x->dtype), rotary, first, x->shape[1]);
}

/* A rotary table, and the axis of x along which its positions run; angles NULL: none. */
typedef struct rotation {
    fv_tensor *angles;
    int axis;
} rotation;

/* Norm and rotation of [batch, n, heads, d] -> [batch, heads, n, d] */
static fv_tensor *apply_rotary(fv_ctx *ctx, const fv_mha *heads, fv_tensor *x,
                               const fv_norm_layer *norm, rotation by)
{
    if (norm->weight) x = fv_norm_layer_run(ctx, norm, x);
    if (by.angles) x = fv_rotary(ctx, x, by.angles, by.axis, heads->cfg.rotary.pairs);
    return fv_transpose(ctx, x, 1, 2);
}

/* One of the three projections; rows of the fused matrix where there is one. */
static fv_dense select_projection(fv_ctx *ctx, const fv_mha *heads, int which)
{
    const fv_dense own[3] = {heads->q, heads->k, heads->v};
    if (!heads->cfg.fused_qkv) return own[which];
    int64_t size[3], from = 0;
    fv_mha_sizes(&heads->cfg, size);
    for (int i = 0; i < which; i++)
        from += size[i];
    const fv_dense *all = &heads->qkv;
    return (fv_dense){.weight = fv_slice(ctx, all->weight, 0, from, from + size[which], 1),
                      .bias = all->bias ? fv_slice(ctx, all->bias, 0, from, from + size[which], 1)
                                        : NULL};
}

static fv_tensor *project(fv_ctx *ctx, const fv_mha *heads, int which, fv_tensor *x)
{
    const fv_dense dense = select_projection(ctx, heads, which);
    return fv_dense_run(ctx, &dense, x);
}

static fv_tensor *split_queries(fv_ctx *ctx, const fv_mha *heads, fv_tensor *projected, rotation by)
{
    const fv_mha_config *cfg = &heads->cfg;
    return apply_rotary(ctx, heads, split_heads(ctx, projected, cfg->heads, cfg->d_k),
                        &heads->q_norm, by);
}

static void split_keys(fv_ctx *ctx, const fv_mha *heads, fv_tensor *k, fv_tensor *v, rotation by,
                       fv_tensor **k_out, fv_tensor **v_out)
{
    const fv_mha_config *cfg = &heads->cfg;
    *k_out =
        apply_rotary(ctx, heads, split_heads(ctx, k, cfg->kv_heads, cfg->d_k), &heads->k_norm, by);
    *v_out = fv_transpose(ctx, split_heads(ctx, v, cfg->kv_heads, cfg->d_v), 1, 2);
}

static void project_keys(fv_ctx *ctx, const fv_mha *heads, fv_tensor *keys, fv_tensor *values,
                         rotation by, fv_tensor **k, fv_tensor **v)
{
    fv_tensor *pk = project(ctx, heads, 1, keys);
    fv_tensor *pv = project(ctx, heads, 2, values ? values : keys);
    split_keys(ctx, heads, pk, pv, by, k, v);
}

void fv_mha_project_keys(fv_ctx *ctx, const fv_mha *heads, fv_tensor *keys, fv_tensor *values,
                         int64_t key_position, fv_tensor *key_angles, fv_tensor **k, fv_tensor **v)
{
    const rotation by = {rotary_angles(ctx, heads, keys, key_position, key_angles), 1};
    project_keys(ctx, heads, keys, values, by, k, v);
}

/* All three for one call: one product where everything comes from x by the fused matrix, one table
 * of angles where queries and keys have the same positions. */
static void project_all(fv_ctx *ctx, const fv_mha *heads, const fv_mha_input *in,
                        fv_attention_input *a)
{
    const int axis = in->rotary_table_per_sequence ? 0 : 1;
    const rotation by = {rotary_angles(ctx, heads, in->x, in->position, in->rotary_table), axis};
    fv_tensor *key_angles = in->key_rotary_table;
    if (!key_angles && !in->keys && in->position == in->key_position) key_angles = by.angles;
    if (heads->cfg.fused_qkv && !in->keys && !in->k) {
        int64_t size[3];
        fv_tensor *p[3] = {ctx->invalid, ctx->invalid, ctx->invalid};
        fv_mha_sizes(&heads->cfg, size);
        fv_split(ctx, fv_dense_run(ctx, &heads->qkv, in->x), -1, 3, size, p);
        a->q = split_queries(ctx, heads, p[0], by);
        key_angles = rotary_angles(ctx, heads, in->x, in->key_position, key_angles);
        split_keys(ctx, heads, p[1], p[2], (rotation){key_angles, axis}, &a->k, &a->v);
        return;
    }
    a->q = split_queries(ctx, heads, project(ctx, heads, 0, in->x), by);
    a->k = in->k;
    a->v = in->v;
    if (in->k) return;
    fv_tensor *keys = in->keys ? in->keys : in->x;
    key_angles = rotary_angles(ctx, heads, keys, in->key_position, key_angles);
    project_keys(ctx, heads, keys, in->values, (rotation){key_angles, axis}, &a->k, &a->v);
}

/* ---- inputs of the attention ------------------------------------------------------- */

static fv_tensor *add_bias(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return a ? fv_add(ctx, a, b) : b;
}

/* k_j . a_r(i,j): Shaw's scores of the keys as queries, so that distances change their sign. */
static fv_tensor *relative_query_scores(fv_ctx *ctx, const fv_mha *heads, fv_tensor *k,
                                        int64_t first, int64_t n_q)
{
    fv_relative r = heads->cfg.relative;
    r.reversed = !r.reversed;
    fv_tensor *scores = fv_relative_key_scores(ctx, k, heads->relative_keys, &r, -first, n_q);
    return fv_transpose(ctx, scores, 2, 3);
}

static void add_relative(fv_ctx *ctx, const fv_mha *heads, int64_t first, fv_attention_input *a)
{
    const fv_relative *r = &heads->cfg.relative;
    if (r->max_distance == 0 || ctx->error != FV_OK) return;
    const int64_t n_q = a->q->shape[2], n_k = a->k->shape[2];
    if (heads->relative_bias) {
        fv_tensor *bias = fv_relative_bias(ctx, heads->relative_bias, r, first, n_q, n_k);
        a->bias = add_bias(ctx, a->bias, bias);
    }
    if (heads->relative_keys) {
        fv_tensor *bias = fv_relative_key_scores(ctx, a->q, heads->relative_keys, r, first, n_k);
        if (heads->cfg.relative_queries)
            bias = fv_add(ctx, bias, relative_query_scores(ctx, heads, a->k, first, n_q));
        /* Shaw's keys are scaled like the keys they are added to. */
        const double scale = fv_score_scale(&heads->cfg.attention, heads->cfg.d_k);
        a->bias = add_bias(ctx, a->bias, fv_scale(ctx, bias, scale));
    }
}

static fv_attention_input describe(fv_ctx *ctx, const fv_mha *heads, const fv_mha_input *in)
{
    const fv_mha_config *cfg = &heads->cfg;
    fv_attention_input a = {.w = heads->score,
                            .w_p = heads->centre,
                            .v_p = heads->centre_vector,
                            .bias = in->bias,
                            .visible = in->visible,
                            .blocks = in->blocks,
                            .key_lengths = in->key_lengths,
                            .q_begin = in->q_begin,
                            .k_begin = in->k_begin};
    project_all(ctx, heads, in, &a);
    if (in->on_keys_values && ctx->error == FV_OK)
        in->on_keys_values(in->on_keys_values_user, ctx, &a.k, &a.v);
    if (heads->beta) a.beta = fv_reshape(ctx, heads->beta, 3, (int64_t[]){cfg->heads, 1, 1});
    if (cfg->alibi && ctx->error == FV_OK)
        a.slopes = fv_alibi_slopes(ctx, fv_wide_dtype(a.q->dtype), cfg->heads);
    add_relative(ctx, heads, in->position - in->key_position, &a);
    return a;
}

static fv_tensor *merge_heads(fv_ctx *ctx, const fv_mha *heads, fv_tensor *context,
                              fv_tensor *residual)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t shape[3] = {context->shape[0], context->shape[2],
                              heads->cfg.heads * heads->cfg.d_v};
    fv_tensor *rows = fv_reshape(ctx, fv_transpose(ctx, context, 1, 2), 3, shape);
    return fv_linear_act(ctx, rows, heads->out.weight, heads->out.bias, FV_ACT_NONE, residual);
}

/* Attention has one element type: queries are rounded to that of cached keys, and the result is
 * widened again. */
static fv_tensor *attend(fv_ctx *ctx, fv_attention_input *a, const fv_attention *how,
                         fv_attention_result *result)
{
    if (ctx->error != FV_OK || a->q->dtype == a->k->dtype)
        return fv_attention_run(ctx, a, how, result);
    const fv_dtype dtype = a->q->dtype;
    a->q = fv_cast(ctx, a->q, a->k->dtype);
    return fv_cast(ctx, fv_attention_run(ctx, a, how, result), dtype);
}

fv_tensor *fv_mha_run(fv_ctx *ctx, const fv_mha *heads, const fv_mha_input *in,
                      fv_attention_result *result)
{
    fv_attention_result own = {.context = ctx->invalid};
    if (result) *result = own;
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_attention how = heads->cfg.attention;
    how.rule.q_offset += in->position - in->key_position;
    if (!in->training) how.rule.dropout = 0;
    if (heads->relative_values || in->want_weights) how.want_weights = true;
    how.capture = in->capture;
    fv_attention_input a = describe(ctx, heads, in);
    if (in->window_visible && how.rule.left >= 0) {
        how.rule.left = -1;
        a.visible = in->window_visible;
    }
    fv_tensor *context = attend(ctx, &a, &how, &own);
    if (heads->relative_values)
        context =
            fv_add(ctx, context,
                   fv_relative_value_sums(ctx, own.weights, heads->relative_values,
                                          &heads->cfg.relative, in->position - in->key_position));
    if (result) *result = own;
    return merge_heads(ctx, heads, context, in->residual);
}

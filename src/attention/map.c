/*
 * Scores of all pairs, with what the kernel adds to its products and the same visibility:
 *     s_ij = cap(e_ij / temperature) + slope (pos_j - pos_i) + bias_ij, -inf where hidden
 */
#include <math.h>

#include "attention/attention.h"
#include "kernels/attention.h"
#include "tensor/host_table.h"

/* The call's sizes and rule, as the kernel's helpers read them. */
static fv_attn describe(const fv_attention_call *call)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.n_q = call->n_q;
    a.n_k = call->n_k;
    a.rule = call->how.rule;
    return a;
}

/* u8 [n_q, n_k]: what a query may see by its position. */
static fv_tensor *visible_by_position(const fv_attention_call *call)
{
    const fv_attn a = describe(call);
    const int64_t shape[2] = {call->n_q, call->n_k};
    uint8_t *x = fv_host_alloc(call->ctx, FV_U8, 2, shape);
    for (int64_t i = 0; x && i < call->n_q; i++) {
        const fv_attn_range r = fv_attn_visible_range(&a, call->n_k, i);
        for (int64_t j = 0; j < call->n_k; j++)
            x[i * call->n_k + j] = j < r.prefix || (j >= r.low && j < r.high);
    }
    return fv_host_tensor(call->ctx, FV_U8, x, 2, shape, FV_U8);
}

/* pos_j - pos_i, [n_q, n_k] */
static fv_tensor *distances(const fv_attention_call *call)
{
    const fv_attn a = describe(call);
    const int64_t shape[2] = {call->n_q, call->n_k};
    double *x = fv_host_alloc(call->ctx, FV_F64, 2, shape);
    for (int64_t i = 0; x && i < call->n_q; i++)
        for (int64_t j = 0; j < call->n_k; j++)
            x[i * call->n_k + j] = (double)(j - fv_attn_position(&a, i));
    return fv_host_tensor(call->ctx, FV_F64, x, 2, shape, call->dtype);
}

/* 0, 0, .., 1, 1, ..: the block that each of n rows belongs to, i64 [n]. */
static fv_tensor *block_of(fv_ctx *ctx, int64_t n, int64_t size)
{
    int64_t *x = fv_host_alloc(ctx, FV_I64, 1, &n);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = i / size;
    return fv_host_tensor(ctx, FV_I64, x, 1, &n, FV_I64);
}

/* The list of blocks, spread over their queries and keys: u8, broadcasts to the map. */
static fv_tensor *visible_by_block(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *t = fv_cast(ctx, call->in->blocks, FV_F32);
    if (fv_tensor_size(t, -1) > 1)
        t = fv_index_select(ctx, t, block_of(ctx, call->n_k, call->how.rule.block_k), -1);
    if (fv_tensor_size(t, -2) > 1)
        t = fv_index_select(ctx, t, block_of(ctx, call->n_q, call->how.rule.block_q), -2);
    return fv_gt(ctx, t, fv_scalar(ctx, FV_F32, 0));
}

/* Keys below the length of each sequence: u8 [batch, 1, 1, n_k]. */
static fv_tensor *within_length(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *n = fv_reshape(ctx, call->in->key_lengths, 4, (int64_t[]){call->batch, 1, 1, 1});
    return fv_lt(ctx, fv_attention_positions(ctx, FV_I64, call->n_k), n);
}

static fv_tensor *hide(fv_ctx *ctx, fv_tensor *s, fv_tensor *visible)
{
    return fv_where(ctx, visible, s, fv_scalar(ctx, fv_tensor_dtype(s), -INFINITY));
}

fv_tensor *fv_attention_scores(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    const fv_attention_rule *rule = &call->how.rule;
    fv_tensor *s = fv_attention_map(call);
    if (in->slopes) {
        fv_tensor *slopes =
            fv_reshape(ctx, fv_detach(ctx, in->slopes), 3, (int64_t[]){call->heads, 1, 1});
        s = fv_add(ctx, s, fv_mul(ctx, slopes, distances(call)));
    }
    if (in->bias) {
        fv_tensor *nothing = fv_scalar(ctx, fv_tensor_dtype(in->bias), -INFINITY);
        s = hide(ctx, fv_add(ctx, s, in->bias), fv_ne(ctx, in->bias, nothing));
    }
    if (rule->causal != FV_CAUSAL_NONE || rule->left >= 0 || rule->right >= 0)
        s = hide(ctx, s, visible_by_position(call));
    if (in->blocks) s = hide(ctx, s, visible_by_block(call));
    if (in->key_lengths) s = hide(ctx, s, within_length(call));
    if (in->visible) s = hide(ctx, s, in->visible);
    return s;
}

/*
 * Scores of all pairs, with what the kernel adds to its products and the same rules of sight:
 *     s_ij = cap(e_ij / temperature) + slope (pos_j - pos_i) + bias_ij, -inf where hidden
 */
#include <math.h>

#include "attention/attention.h"
#include "base/check.h"
#include "kernels/attention.h"

/* The call's rules by position, as the kernel reads them. */
static fv_attn rules_of(const fv_attention_call *call)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.n_q = call->n_q;
    a.n_k = call->n_k;
    a.causal = call->how.causal;
    a.left = call->how.left;
    a.right = call->how.right;
    a.prefix = call->how.prefix;
    a.q_offset = call->how.q_offset;
    return a;
}

typedef void (*pair_fn)(const fv_attn *rules, int64_t i, void *row);

static void write_visible(const fv_attn *rules, int64_t i, void *row)
{
    const fv_attn_range r = fv_attn_visible_range(rules, rules->n_k, i);
    uint8_t *visible = row;
    for (int64_t j = 0; j < rules->n_k; j++)
        visible[j] = j < r.prefix || (j >= r.low && j < r.high);
}

static void write_distance(const fv_attn *rules, int64_t i, void *row)
{
    double *distance = row;
    for (int64_t j = 0; j < rules->n_k; j++)
        distance[j] = (double)(j - fv_attn_position(rules, i));
}

/* [n_q, n_k] of something that follows from the positions alone. */
static fv_tensor *of_positions(const fv_attention_call *call, fv_dtype dtype, pair_fn fill)
{
    fv_ctx *ctx = call->ctx;
    const fv_attn rules = rules_of(call);
    size_t row = 0, bytes = 0;
    char *host = NULL;
    if (fv_mul_size((size_t)call->n_k, fv_dtype_size(dtype), &row) &&
        fv_mul_size((size_t)call->n_q, row, &bytes))
        host = fv_mem_alloc(&ctx->mem, bytes);
    if (!host) {
        fv_poison(ctx, FV_ERR_MEMORY, "attention: no memory for a map of %lld x %lld",
                  (long long)call->n_q, (long long)call->n_k);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < call->n_q; i++)
        fill(&rules, i, host + (size_t)i * row);
    fv_tensor *t = fv_from_host(ctx, dtype, 2, (int64_t[]){call->n_q, call->n_k}, host);
    fv_mem_free(&ctx->mem, host, bytes);
    return t;
}

/* Keys below the length of each sequence: u8 [batch, 1, 1, n_k]. */
static fv_tensor *within_length(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *n = fv_reshape(ctx, call->in->n_keys, 4, (int64_t[]){call->batch, 1, 1, 1});
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
    const fv_attention *how = &call->how;
    fv_tensor *s = fv_attention_map(call);
    if (in->slopes) {
        fv_tensor *slopes =
            fv_reshape(ctx, fv_detach(ctx, in->slopes), 3, (int64_t[]){call->heads, 1, 1});
        fv_tensor *distance = fv_cast(ctx, of_positions(call, FV_F64, write_distance), call->dtype);
        s = fv_add(ctx, s, fv_mul(ctx, slopes, distance));
    }
    if (in->bias) s = fv_add(ctx, s, in->bias);
    if (how->causal != FV_CAUSAL_NONE || how->left >= 0 || how->right >= 0)
        s = hide(ctx, s, of_positions(call, FV_U8, write_visible));
    if (in->n_keys) s = hide(ctx, s, within_length(call));
    if (in->visible) s = hide(ctx, s, in->visible);
    return s;
}

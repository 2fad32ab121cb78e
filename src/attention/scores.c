/*
 * What each score becomes. Most are a dot product of something with something, which the streamed
 * kernel does best:
 *     scaled    q . k / sqrt(d)
 *     general   q^T W k = (W^T q) . k: the smaller work, on the queries
 *     cosine    (q / |q|) . (k / |k|)
 * The additive score has a kernel of its own. A number that multiplies all scores (strength,
 * 1 / temperature) goes into the kernel's scale, a tensor (beta, a learned temperature) into what
 * the score is linear in. Location scores and the caller's own are maps of all pairs.
 */
#include <math.h>

#include "attention/attention.h"
#include "tensor/host_table.h"

/* ---- shapes ----------------------------------------------------------------------- */

static fv_status expect_rank(fv_ctx *ctx, const fv_tensor *t, int shared, const char *what)
{
    if (ctx->error != FV_OK) return ctx->error;
    if (t->rank == shared || t->rank == shared + 1) return FV_OK;
    return fv_poison(ctx, FV_ERR_SHAPE, "attention: %s has rank %d, not %d or %d (heads first)",
                     what, t->rank, shared, shared + 1);
}

fv_tensor *fv_attention_project(fv_ctx *ctx, fv_tensor *x, fv_tensor *w)
{
    if (expect_rank(ctx, w, 2, "a projection") != FV_OK) return ctx->invalid;
    return w->rank == 2 ? fv_linear(ctx, x, w, NULL)
                        : fv_matmul(ctx, x, fv_transpose(ctx, w, -1, -2));
}

fv_tensor *fv_attention_weigh(fv_ctx *ctx, fv_tensor *x, fv_tensor *w)
{
    if (expect_rank(ctx, w, 1, "a vector of weights") != FV_OK) return ctx->invalid;
    fv_tensor *column = fv_unsqueeze(ctx, w, -1); /* [d, 1] or [heads, d, 1] ... */
    for (int axes = 4; w->rank == 2 && axes < fv_tensor_rank(x); axes++)
        column = fv_unsqueeze(ctx, column, 1); /* ... [heads, 1, d, 1] */
    return fv_squeeze(ctx, fv_matmul(ctx, x, column), -1);
}

fv_tensor *fv_attention_positions(fv_ctx *ctx, fv_dtype dtype, int64_t n)
{
    int64_t *x = fv_host_room(ctx, FV_I64, 1, &n);
    for (int64_t j = 0; x && j < n; j++)
        x[j] = j;
    return fv_host_tensor(ctx, FV_I64, x, 1, &n, dtype);
}

/* ---- kinds ------------------------------------------------------------------------ */

static void prepare_general(fv_attention_call *call)
{
    fv_tensor *w = call->in->w;
    if (expect_rank(call->ctx, w, 2, "w of the general score") != FV_OK) return;
    call->q = fv_matmul(call->ctx, call->q, w);
}

static void prepare_cosine(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    call->q = fv_unit(ctx, call->q);
    call->k = fv_unit(ctx, call->k);
    call->scale = call->how.strength;
    if (call->in->beta) call->q = fv_mul(ctx, call->q, call->in->beta);
}

/* k with every query head's own copy of its key head, as a view where possible. */
static fv_tensor *spread_heads(const fv_attention_call *call, fv_tensor *k)
{
    fv_ctx *ctx = call->ctx;
    const int64_t group = call->heads / call->kv_heads;
    if (group == 1 || ctx->error != FV_OK) return k;
    const int64_t n = k->shape[2], d = k->shape[3];
    const int64_t one[5] = {call->batch, call->kv_heads, 1, n, d};
    const int64_t many[5] = {call->batch, call->kv_heads, group, n, d};
    const int64_t flat[4] = {call->batch, call->heads, n, d};
    return fv_reshape(ctx, fv_broadcast(ctx, fv_reshape(ctx, k, 5, one), 5, many), 4, flat);
}

/*
 * x with what is not finite set to zero, and through *taint, [..., n], NaN for the rows in which
 * there was something: in a product with zeros NaN would spread to rows that never look at it, so
 * it is put back where it is seen. Gradients do not reach the places set to zero.
 */
static fv_tensor *finite_part(fv_ctx *ctx, fv_tensor *x, fv_tensor **taint)
{
    fv_tensor *nothing = fv_scale(ctx, fv_detach(ctx, x), 0.0); /* 0, or NaN */
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *zero = fv_scalar(ctx, x->dtype, 0.0);
    *taint = fv_sum(ctx, nothing, 1, (int[]){-1}, false);
    return fv_where(ctx, fv_eq(ctx, nothing, zero), x, zero);
}

/* Adds both taints to a map of pairs. */
static fv_tensor *tainted(fv_ctx *ctx, fv_tensor *map, fv_tensor *of_q, fv_tensor *of_k)
{
    map = fv_add(ctx, map, fv_unsqueeze(ctx, of_q, -1));
    return fv_add(ctx, map, fv_unsqueeze(ctx, of_k, -2));
}

static fv_tensor *dot_map(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *of_q = NULL, *of_k = NULL;
    fv_tensor *q = finite_part(ctx, call->q, &of_q);
    fv_tensor *k = finite_part(ctx, spread_heads(call, call->k), &of_k);
    return tainted(ctx, fv_matmul(ctx, q, fv_transpose(ctx, k, -1, -2)), of_q, of_k);
}

/* Here, and nowhere else, all pairs of vectors exist at once. */
static fv_tensor *additive_map(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *of_q = NULL, *of_k = NULL;
    fv_tensor *q = fv_unsqueeze(ctx, finite_part(ctx, call->q, &of_q), -2);
    fv_tensor *k = fv_unsqueeze(ctx, finite_part(ctx, spread_heads(call, call->k), &of_k), -3);
    fv_tensor *t = fv_tanh(ctx, fv_add(ctx, q, k));
    return tainted(ctx, fv_attention_weigh(ctx, t, call->w), of_q, of_k);
}

static void prepare_additive(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    if (in->w_q) call->q = fv_attention_project(ctx, call->q, in->w_q);
    if (in->w_k) call->k = fv_attention_project(ctx, call->k, in->w_k);
    if (expect_rank(ctx, in->w, 1, "w of the additive score") != FV_OK) return;
    const int64_t shape[2] = {call->heads, in->w->shape[in->w->rank - 1]};
    call->w = fv_broadcast(ctx, in->w, 2, shape);
}

static void prepare_location(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *w = call->in->w;
    if (expect_rank(ctx, w, 2, "w of the location score") != FV_OK) return;
    const int64_t most = w->shape[w->rank - 2];
    if (call->n_k > most) {
        fv_poison(ctx, FV_ERR_SHAPE, "attention: %lld keys, but location scores for %lld",
                  (long long)call->n_k, (long long)most);
        return;
    }
    call->map = fv_attention_project(ctx, call->q, fv_slice(ctx, w, -2, 0, call->n_k, 1));
}

static void prepare_callers(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *map = call->how.score_fn(ctx, call->how.score_user, call->q, call->k);
    if (ctx->error != FV_OK) return;
    const int64_t shape[4] = {call->batch, call->heads, call->n_q, call->n_k};
    if (!map || !fv_shape_equal(4, shape, map->rank, map->shape)) {
        char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE, "attention: the caller's score gave %s, not %s",
                  map ? fv_shape_text(a, map->rank, map->shape) : "NULL",
                  fv_shape_text(b, 4, shape));
        return;
    }
    call->map = map;
}

/* A learned temperature divides what the score is linear in: the map, w, or the queries. */
static void apply_temperature(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *t = call->in->temperature;
    call->scale /= call->how.temperature;
    if (!t || ctx->error != FV_OK) return;
    if (t->count != 1 && (t->rank != 1 || t->shape[0] != call->heads)) {
        fv_poison(ctx, FV_ERR_SHAPE, "attention: a temperature has one element, or one a head");
        return;
    }
    fv_tensor **scored = call->map ? &call->map : call->w ? &call->w : &call->q;
    const int rank = t->count == 1 ? 0 : call->w ? 2 : 3; /* of [heads, 1 ...] */
    t = fv_reshape(ctx, t, rank, (int64_t[]){call->heads, 1, 1});
    *scored = fv_div(ctx, *scored, t);
}

/* cap(scale e), as the streamed kernel does to its own products. */
static fv_tensor *scaled_and_capped(const fv_attention_call *call, fv_tensor *map)
{
    fv_ctx *ctx = call->ctx;
    const double cap = call->how.soft_cap;
    if (call->scale != 1) map = fv_scale(ctx, map, call->scale);
    if (cap > 0) map = fv_scale(ctx, fv_tanh(ctx, fv_scale(ctx, map, 1 / cap)), cap);
    return map;
}

fv_tensor *fv_attention_map(fv_attention_call *call)
{
    if (call->map) return call->map;
    return scaled_and_capped(call, call->w ? additive_map(call) : dot_map(call));
}

void fv_attention_prepare(fv_attention_call *call)
{
    call->q = call->in->q;
    call->k = call->in->k;
    call->w = call->map = NULL;
    call->scale = 1;
    switch (call->how.score) {
    case FV_ATTENTION_SCALED:
        call->scale = 1 / sqrt((double)call->q->shape[3]);
        break;
    case FV_ATTENTION_GENERAL:
        prepare_general(call);
        break;
    case FV_ATTENTION_ADDITIVE:
        prepare_additive(call);
        break;
    case FV_ATTENTION_COSINE:
        prepare_cosine(call);
        break;
    case FV_ATTENTION_LOCATION:
        prepare_location(call);
        break;
    case FV_ATTENTION_CALLER:
        prepare_callers(call);
        break;
    default: /* the dot product itself */
        break;
    }
    apply_temperature(call);
    if (call->ctx->error != FV_OK) return;
    if (call->map)
        call->map = scaled_and_capped(call, call->map);
    else if (call->q->shape[3] > FV_ATTN_MAX_WIDTH)
        call->map = fv_attention_map(call); /* vectors wider than the kernel takes */
}

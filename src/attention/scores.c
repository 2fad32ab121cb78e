/*
 * The attention scores. Most are a dot product, which the streamed kernel does best:
 *     scaled    q . k / sqrt(d)
 *     general   q^T W k = (W^T q) . k: the smaller product, on the queries
 *     cosine    (q / |q|) . (k / |k|)
 *     l2        -|q - k|^2 = (2q, -|q|^2, -1) . (k, 1, |k|^2)
 * The additive score has a kernel of its own. A number that multiplies all scores (scale,
 * 1 / temperature) goes into the kernel's scale, a tensor (beta, a learned temperature) into what
 * the score is linear in. Location scores and the caller's own exist as maps only.
 */
#include <math.h>
#include <stdio.h>

#include "attention/attention.h"
#include "tensor/host_table.h"

/* ---- shared ----------------------------------------------------------------------- */

static fv_status expect_rank(fv_ctx *ctx, const fv_tensor *t, int shared, const char *what)
{
    if (ctx->error != FV_OK) return ctx->error;
    if (t->rank == shared || t->rank == shared + 1) return FV_OK;
    return fv_poison(ctx, FV_ERR_SHAPE, "attention: %s has rank %d, expected %d, or %d with heads",
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
    int64_t *x = fv_host_alloc(ctx, FV_I64, 1, &n);
    for (int64_t j = 0; x && j < n; j++)
        x[j] = j;
    return fv_host_tensor(ctx, FV_I64, x, 1, &n, dtype);
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
 * x with zeros in place of what is not finite, and through *taint, [..., n], NaN for the rows that
 * had any: in a product with zeros NaN would spread to rows that never see it, so it is added back
 * where it is visible. Gradients do not reach the places set to zero.
 */
static fv_tensor *keep_finite(fv_ctx *ctx, fv_tensor *x, fv_tensor **taint)
{
    fv_tensor *nothing = fv_scale(ctx, fv_detach(ctx, x), 0.0); /* 0, or NaN */
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *zero = fv_scalar(ctx, x->dtype, 0.0);
    *taint = fv_sum(ctx, nothing, 1, (int[]){-1}, false);
    return fv_where(ctx, fv_eq(ctx, nothing, zero), x, zero);
}

/* Adds both taints to a map of pairs. */
static fv_tensor *add_taints(fv_ctx *ctx, fv_tensor *map, fv_tensor *of_q, fv_tensor *of_k)
{
    map = fv_add(ctx, map, fv_unsqueeze(ctx, of_q, -1));
    return fv_add(ctx, map, fv_unsqueeze(ctx, of_k, -2));
}

/* ---- dot products ----------------------------------------------------------------- */

static fv_tensor *map_dot(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *of_q = NULL, *of_k = NULL;
    fv_tensor *q = keep_finite(ctx, call->q, &of_q);
    fv_tensor *k = keep_finite(ctx, spread_heads(call, call->k), &of_k);
    return add_taints(ctx, fv_matmul(ctx, q, fv_transpose(ctx, k, -1, -2)), of_q, of_k);
}

static const fv_score_kind score_scaled = {
    .name = "scaled",
    .is_scaled = true,
    .is_dot_product = true,
    .map = map_dot,
    .streamed = FV_ATTN_SCORE_DOT,
};

static const fv_score_kind score_dot = {
    .name = "dot",
    .is_dot_product = true,
    .map = map_dot,
    .streamed = FV_ATTN_SCORE_DOT,
};

static void prepare_general(fv_attention_call *call)
{
    call->q = fv_matmul(call->ctx, call->q, call->in->w);
}

static const fv_score_kind score_general = {
    .name = "general",
    .w = {.axis = {FV_SCORE_SIZE_QUERY, FV_SCORE_SIZE_KEY}},
    .prepare = prepare_general,
    .map = map_dot,
    .streamed = FV_ATTN_SCORE_DOT,
};

static void prepare_cosine(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    call->q = fv_unit(ctx, call->q);
    call->k = fv_unit(ctx, call->k);
    if (call->in->beta) call->q = fv_mul(ctx, call->q, call->in->beta);
}

static const fv_score_kind score_cosine = {
    .name = "cosine",
    .has_beta = true,
    .prepare = prepare_cosine,
    .map = map_dot,
    .streamed = FV_ATTN_SCORE_DOT,
};

/* |x|^2 of each row, [..., n, 1]. A row that is not finite gets NaN, but sends no gradient: it may
 * be hidden. */
static fv_tensor *squared_norm(fv_ctx *ctx, fv_tensor *x)
{
    fv_tensor *taint = NULL;
    fv_tensor *square = fv_square(ctx, keep_finite(ctx, x, &taint));
    return fv_unsqueeze(ctx, fv_add(ctx, fv_sum(ctx, square, 1, (int[]){-1}, false), taint), -1);
}

/* Two more columns make the distance a dot product. Rounding is relative to |q|^2 + |k|^2. */
static void prepare_l2(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *q = squared_norm(ctx, call->q), *k = squared_norm(ctx, call->k);
    if (ctx->error != FV_OK) return;
    fv_tensor *ones_q = fv_full(ctx, call->dtype, 4, q->shape, 1);
    fv_tensor *ones_k = fv_full(ctx, call->dtype, 4, k->shape, 1);
    fv_tensor *of_q[3] = {fv_scale(ctx, call->q, 2), fv_neg(ctx, q), fv_neg(ctx, ones_q)};
    fv_tensor *of_k[3] = {call->k, ones_k, k};
    call->q = fv_concat(ctx, 3, of_q, -1);
    call->k = fv_concat(ctx, 3, of_k, -1);
}

static const fv_score_kind score_l2 = {
    .name = "l2",
    .prepare = prepare_l2,
    .map = map_dot,
    .streamed = FV_ATTN_SCORE_DOT,
};

/* ---- additive --------------------------------------------------------------------- */

static void prepare_additive(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    if (in->w_q) call->q = fv_attention_project(ctx, call->q, in->w_q);
    if (in->w_k) call->k = fv_attention_project(ctx, call->k, in->w_k);
    const int64_t shape[2] = {call->heads, in->w->shape[in->w->rank - 1]};
    call->w = fv_broadcast(ctx, in->w, 2, shape);
}

/* Here, and nowhere else, all pairs of vectors exist at once. */
static fv_tensor *map_additive(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *of_q = NULL, *of_k = NULL;
    fv_tensor *q = fv_unsqueeze(ctx, keep_finite(ctx, call->q, &of_q), -2);
    fv_tensor *k = fv_unsqueeze(ctx, keep_finite(ctx, spread_heads(call, call->k), &of_k), -3);
    fv_tensor *t = fv_tanh(ctx, fv_add(ctx, q, k));
    return add_taints(ctx, fv_attention_weigh(ctx, t, call->w), of_q, of_k);
}

static const fv_score_kind score_additive = {
    .name = "additive",
    .w = {.axis = {FV_SCORE_SIZE_INNER}},
    .w_q = {{FV_SCORE_SIZE_INNER, FV_SCORE_SIZE_QUERY}, .optional = true},
    .w_k = {{FV_SCORE_SIZE_INNER, FV_SCORE_SIZE_KEY}, .optional = true},
    .prepare = prepare_additive,
    .map = map_additive,
    .streamed = FV_ATTN_SCORE_ADDITIVE,
};

/* ---- maps ------------------------------------------------------------------------- */

static fv_tensor *map_location(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *w = call->in->w;
    const int64_t most = w->shape[w->rank - 2];
    if (call->n_k > most) {
        fv_poison(ctx, FV_ERR_SHAPE, "attention: %lld keys, but location scores for %lld",
                  (long long)call->n_k, (long long)most);
        return ctx->invalid;
    }
    return fv_attention_project(ctx, call->q, fv_slice(ctx, w, -2, 0, call->n_k, 1));
}

static const fv_score_kind score_location = {
    .name = "location",
    .w = {.axis = {FV_SCORE_SIZE_KEYS, FV_SCORE_SIZE_QUERY}},
    .ignores_keys = true,
    .map = map_location,
    .streamed = FV_ATTN_SCORE_NONE,
};

static fv_tensor *map_caller(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *map = call->how.score_fn(ctx, call->how.score_user, call->q, call->k);
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t shape[4] = {call->batch, call->heads, call->n_q, call->n_k};
    if (map && fv_shape_equal(4, shape, map->rank, map->shape)) return map;
    char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "attention: the caller's score has shape %s, expected %s",
              map ? fv_shape_text(a, map->rank, map->shape) : "NULL", fv_shape_text(b, 4, shape));
    return ctx->invalid;
}

static const fv_score_kind score_caller = {
    .name = "caller",
    .has_function = true,
    .map = map_caller,
    .streamed = FV_ATTN_SCORE_NONE,
};

/* ---- the table -------------------------------------------------------------------- */

/* All scores that need no function, in the order of the enum. */
#define SCORES(X)                                                                                  \
    X(SCALED, scaled)                                                                              \
    X(DOT, dot)                                                                                    \
    X(GENERAL, general)                                                                            \
    X(ADDITIVE, additive)                                                                          \
    X(COSINE, cosine)                                                                              \
    X(LOCATION, location)                                                                          \
    X(L2, l2)

static const fv_score_kind *const kinds[FV_ATTENTION_SCORE_COUNT] = {
#define X(ID, word) [FV_ATTENTION_##ID] = &score_##word,
    SCORES(X)
#undef X
        [FV_ATTENTION_CUSTOM] = &score_caller,
};

#define X(ID, word) "|" #word
const char fv_score_choices[] = SCORES(X);
#undef X

/* Recipes count the choices: their order is that of the enum. */
enum {
#define X(ID, word) CHOICE_##ID,
    SCORES(X)
#undef X
        CHOICES
};
#define X(ID, word) _Static_assert(CHOICE_##ID == (int)FV_ATTENTION_##ID, "order of the scores");
SCORES(X)
#undef X

const fv_score_kind *fv_score_find(fv_attention_score score)
{
    return (unsigned)score < FV_ATTENTION_SCORE_COUNT ? kinds[score] : NULL;
}

const char *fv_attention_score_name(fv_attention_score score)
{
    const fv_score_kind *kind = fv_score_find(score);
    return kind ? kind->name : "?";
}

double fv_score_scale(const fv_attention *how, int64_t d)
{
    const fv_score_kind *kind = fv_score_find(how->score);
    const double own = kind && kind->is_scaled ? 1 / sqrt((double)d) : 1;
    return (how->rule.scale != 0 ? how->rule.scale : own) / how->temperature;
}

/* ---- one call --------------------------------------------------------------------- */

/* A learned temperature divides what the score is linear in: the map, w, or the queries. */
static void divide_by_temperature(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *t = call->in->temperature;
    if (!t || ctx->error != FV_OK) return;
    if (t->count != 1 && (t->rank != 1 || t->shape[0] != call->heads)) {
        char a[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE,
                  "attention: the temperature has shape %s, expected one element, or one per head",
                  fv_shape_text(a, t->rank, t->shape));
        return;
    }
    fv_tensor **scored = call->map ? &call->map : call->w ? &call->w : &call->q;
    const int rank = t->count == 1 ? 0 : call->w ? 2 : 3; /* of [heads, 1 ...] */
    t = fv_reshape(ctx, t, rank, (int64_t[]){call->heads, 1, 1});
    *scored = fv_div(ctx, *scored, t);
}

/* cap x tanh(map / cap). NaN bypasses the tanh: it may be hidden, and then its gradient of 0 must
 * stay 0 where the derivative is NaN. */
static fv_tensor *cap_map(fv_ctx *ctx, fv_tensor *map, double cap)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *is_number = fv_eq(ctx, map, map);
    fv_tensor *z = fv_where(ctx, is_number, map, fv_scalar(ctx, map->dtype, 0.0));
    z = fv_scale(ctx, fv_tanh(ctx, fv_scale(ctx, z, 1 / cap)), cap);
    return fv_where(ctx, is_number, z, fv_scalar(ctx, map->dtype, NAN));
}

/* cap(scale e), as the streamed kernel computes it from its own products. */
static fv_tensor *scale_and_cap(const fv_attention_call *call, fv_tensor *map)
{
    fv_ctx *ctx = call->ctx;
    const double cap = call->how.rule.soft_cap;
    if (call->rule.scale != 1) map = fv_scale(ctx, map, call->rule.scale);
    return cap > 0 ? cap_map(ctx, map, cap) : map;
}

fv_tensor *fv_attention_map(fv_attention_call *call)
{
    return call->map ? call->map : scale_and_cap(call, call->score->map(call));
}

static fv_status check_w(const fv_attention_call *call)
{
    const int rank = fv_score_rank(&call->score->w);
    if (rank == 0) return FV_OK;
    char what[64];
    snprintf(what, sizeof what, "w of the %s score", call->score->name);
    return expect_rank(call->ctx, call->in->w, rank, what);
}

void fv_attention_prepare(fv_attention_call *call)
{
    const fv_score_kind *score = call->score;
    call->q = call->in->q;
    call->k = call->in->k;
    call->w = call->map = NULL;
    call->rule = call->how.rule;
    call->rule.scale = fv_score_scale(&call->how, call->q->shape[3]);
    if (check_w(call) != FV_OK) return;
    if (score->prepare) score->prepare(call);
    if (call->ctx->error == FV_OK && score->streamed == FV_ATTN_SCORE_NONE)
        call->map = score->map(call);
    divide_by_temperature(call);
    if (call->ctx->error != FV_OK) return;
    if (call->map)
        call->map = scale_and_cap(call, call->map);
    else if (call->q->shape[3] > FV_ATTN_MAX_WIDTH)
        call->map = fv_attention_map(call); /* vectors wider than the kernel takes */
    if (call->map) call->rule.soft_cap = 0;
}

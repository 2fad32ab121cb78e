/*
 * A recommender: how much a viewer will like a movie.
 *
 *     form "factors":  s_uc = u_u . m_c + a_u + b_c             a vector for each viewer and movie
 *     form "history":  w_cj = softmax_j(m_c . m_j / sqrt(d)),   j: movies that the viewer has rated
 *                      z_c  = sum_j w_cj r_j (V m_j + v),       r_j = 1: liked it, -1: did not
 *                      s_uc = z_c . (W m_c + w) + b_c
 *     p(liked) = sigmoid(s)
 *
 * The second form has nothing of a viewer but ratings, so that a new one needs no training. A movie
 * is hidden from itself in the history, so all ratings of a viewer can be candidates at once: each
 * is predicted from the others. The loss adds recommender.penalty (|u_u|^2 + |m_c|^2) for each
 * rating.
 *
 * Fields: "candidate" (movies), "viewer" (a number; form factors), "history" (movies) and "rating"
 * (1 or -1 for each of them; form history), and for the loss "liked" (1 or 0 for each candidate).
 */
#include "models/kind_recommender.h"

#include "fovea/ops.h"
#include "models/capture.h"
#include "models/model.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

enum { MOST_WIDTH = 4096, MOST_ROWS = 1 << 24 };

typedef struct recommender {
    fv_ctx *ctx;
    int64_t width, viewers, movies;
    bool attends;
    double penalty;
    fv_tensor *movie, *movie_bias, *viewer, *viewer_bias;
    fv_dense value, readout;
} recommender;

static const fv_key keys[] = {
    {"recommender.form", FV_KEY_CHOICE, "history", 0, 0, "factors|history",
     "factors: a vector for each viewer; history: attention over a viewer's ratings"},
    {"recommender.width", FV_KEY_INT, "16", 1, MOST_WIDTH, NULL, "width of the vectors"},
    {"recommender.penalty", FV_KEY_REAL, "0", 0, 100, NULL,
     "factor of the squared lengths of vectors in the loss"},
};

static fv_key_table recommender_keys(void)
{
    return (fv_key_table){keys, sizeof keys / sizeof *keys};
}

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    recommender *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status create_in(recommender *m, fv_params *params)
{
    const int64_t d = m->width;
    FV_RETURN_IF(m->movies < 1 || m->movies > MOST_ROWS || m->viewers < 1 || m->viewers > MOST_ROWS,
                 m->ctx, FV_ERR_ARGUMENT,
                 "model.kind is recommender: such a model learns from ratings of movies");
    FV_TRY(fv_embedding_create(params, "movies", m->movies, d, 0.5, &m->movie));
    m->movie_bias =
        fv_nn_weight(params, "movies", "bias", 2, (int64_t[]){m->movies, 1}, fv_init_constant(0));
    if (m->attends) {
        FV_TRY(fv_dense_create(params, "value", d, d, true, 0, &m->value));
        return fv_dense_create(params, "readout", d, d, true, 0, &m->readout);
    }
    m->viewer_bias =
        fv_nn_weight(params, "viewers", "bias", 2, (int64_t[]){m->viewers, 1}, fv_init_constant(0));
    return fv_embedding_create(params, "viewers", m->viewers, d, 0.1, &m->viewer);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    recommender *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    *m = (recommender){.ctx = ctx,
                       .width = fv_recipe_int(recipe, "recommender.width"),
                       .attends = fv_recipe_text(recipe, "recommender.form")[0] == 'h',
                       .penalty = fv_recipe_real(recipe, "recommender.penalty"),
                       .viewers = fv_data_spec_get(spec, "viewers", 0),
                       .movies = fv_data_spec_get(spec, "movies", 0)};
    return create_in(m, params);
}

bool fv_recommender_attends(const void *self) { return ((const recommender *)self)->attends; }

/* ---- scores --------------------------------------------------------------------------------- */

static bool has_numbers(const fv_batch *batch, const char *name, fv_dtype dtype, bool several)
{
    const fv_field *f = fv_batch_find(batch, name);
    return f && f->dtype == dtype && f->rank == 0 && (f->length != NULL) == several;
}

static bool same_lengths(const fv_batch *batch, const char *a, const char *b)
{
    const fv_field *x = fv_batch_find(batch, a), *y = fv_batch_find(batch, b);
    for (int64_t i = 0; i < batch->rows; i++)
        if (x->length[i] != y->length[i]) return false;
    return true;
}

static bool fits(fv_ctx *ctx, const recommender *m, const fv_batch *batch)
{
    bool ok = has_numbers(batch, "candidate", FV_I64, true);
    if (m->attends)
        ok = ok && has_numbers(batch, "history", FV_I64, true) &&
             has_numbers(batch, "rating", FV_F32, true) && same_lengths(batch, "history", "rating");
    else
        ok = ok && has_numbers(batch, "viewer", FV_I64, false);
    if (!ok)
        fv_poison(ctx, FV_ERR_ARGUMENT, "recommender: expected the fields \"candidate\" and %s",
                  m->attends ? "\"history\" with a \"rating\" for each movie" : "\"viewer\"");
    return ok;
}

/* z [rows, candidates, width] of candidates with vectors x, likewise. */
static fv_tensor *attend(fv_ctx *ctx, const recommender *m, const fv_batch *batch,
                         fv_tensor *candidate, fv_tensor *x, const fv_pass *pass)
{
    fv_attention how;
    fv_attention_result result;
    fv_tensor *lengths = NULL;
    fv_tensor *history = fv_batch_tensor(ctx, batch, "history", &lengths);
    fv_tensor *rating = fv_unsqueeze(ctx, fv_batch_tensor(ctx, batch, "rating", NULL), 2);
    fv_tensor *k = fv_embedding(ctx, m->movie, history, -1);
    fv_tensor *v = fv_mul(ctx, rating, fv_dense_run(ctx, &m->value, k));
    fv_tensor *other = fv_ne(ctx, fv_unsqueeze(ctx, candidate, 2), fv_unsqueeze(ctx, history, 1));
    fv_attention_init(&how, sizeof how);
    how.want_weights = pass && fv_capture_wants(pass->capture, FV_RECOMMENDER_SITE);
    const fv_attention_input in = {.q = fv_unsqueeze(ctx, x, 1),
                                   .k = fv_unsqueeze(ctx, k, 1),
                                   .v = fv_unsqueeze(ctx, v, 1),
                                   .visible = fv_unsqueeze(ctx, other, 1),
                                   .key_lengths = lengths};
    fv_tensor *z = fv_attention_run(ctx, &in, &how, &result);
    if (how.want_weights) fv_capture_give(ctx, pass, FV_RECOMMENDER_SITE, result.weights);
    return fv_squeeze(ctx, z, 1);
}

static fv_tensor *sum_last(fv_ctx *ctx, fv_tensor *x)
{
    return fv_sum(ctx, x, 1, (int[]){-1}, false);
}

/* Scores [rows, candidates]; *squares, unless NULL: |m_c|^2 (+ |u|^2) of each. */
static fv_tensor *rate(fv_ctx *ctx, const recommender *m, const fv_batch *batch,
                       const fv_pass *pass, fv_tensor **lengths, fv_tensor **squares)
{
    if (!fits(ctx, m, batch)) return ctx->invalid;
    fv_tensor *candidate = fv_batch_tensor(ctx, batch, "candidate", lengths);
    fv_tensor *x = fv_embedding(ctx, m->movie, candidate, -1);
    fv_tensor *bias = fv_squeeze(ctx, fv_embedding(ctx, m->movie_bias, candidate, -1), 2);
    if (squares) *squares = sum_last(ctx, fv_square(ctx, x));
    if (m->attends) {
        fv_tensor *z = attend(ctx, m, batch, candidate, x, pass);
        fv_tensor *read = fv_dense_run(ctx, &m->readout, x);
        return fv_add(ctx, sum_last(ctx, fv_mul(ctx, z, read)), bias);
    }
    fv_tensor *viewer = fv_batch_tensor(ctx, batch, "viewer", NULL);
    fv_tensor *u = fv_unsqueeze(ctx, fv_embedding(ctx, m->viewer, viewer, -1), 1);
    fv_tensor *own = fv_embedding(ctx, m->viewer_bias, viewer, -1);
    if (squares) *squares = fv_add(ctx, *squares, sum_last(ctx, fv_square(ctx, u)));
    return fv_add(ctx, fv_add(ctx, sum_last(ctx, fv_mul(ctx, u, x)), bias), own);
}

fv_tensor *fv_recommender_rate(fv_ctx *ctx, const void *self, const fv_batch *batch,
                               const fv_pass *pass)
{
    return rate(ctx, self, batch, pass, NULL, NULL);
}

/* ---- the kind ------------------------------------------------------------------------------- */

static fv_status capture_attention(fv_ctx *ctx, void *self, const fv_batch *batch,
                                   const fv_pass *pass)
{
    fv_recommender_rate(ctx, self, batch, pass);
    return ctx->error;
}

/* The cross entropy of liked or not, -log sigmoid(s) or -log sigmoid(-s). */
static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const recommender *m = self;
    if (!has_numbers(batch, "candidate", FV_I64, true) ||
        !has_numbers(batch, "liked", FV_F32, true) || !same_lengths(batch, "candidate", "liked")) {
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "recommender: expected a field \"liked\" with a number for each candidate");
        return ctx->invalid;
    }
    fv_tensor *lengths = NULL, *squares = NULL;
    fv_tensor *score = rate(ctx, m, batch, pass, &lengths, m->penalty > 0 ? &squares : NULL);
    fv_tensor *liked = fv_batch_tensor(ctx, batch, "liked", NULL);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *cost = fv_sub(ctx, fv_softplus(ctx, score), fv_mul(ctx, liked, score));
    if (squares) cost = fv_add(ctx, cost, fv_scale(ctx, squares, m->penalty));
    const int64_t n = fv_tensor_size(liked, 1);
    fv_tensor *number = fv_cumsum(ctx, fv_full(ctx, FV_F32, 1, &n, 1), 0); /* 1 .. n */
    fv_tensor *past = fv_gt(ctx, fv_cast(ctx, number, FV_I64), fv_unsqueeze(ctx, lengths, 1));
    return fv_sum(ctx, fv_masked_fill(ctx, cost, past, 0), 0, NULL, false);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const recommender *m = self;
    if (m->attends && capacity > 0)
        out[0] = (fv_site){.name = FV_RECOMMENDER_SITE,
                           .heads = 1,
                           .queries = FV_AXIS_POINTS,
                           .keys = FV_AXIS_POINTS};
    return m->attends;
}

const fv_model_kind fv_kind_recommender = {
    .struct_size = sizeof fv_kind_recommender,
    .name = "recommender",
    .types = "fovea-recommender",
    .summary = "says which movies a viewer will like",
    .abilities = 1u << FV_CAN_RATE,
    .keys = recommender_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .attention_sites = sites,
    .capture_attention = capture_attention,
};

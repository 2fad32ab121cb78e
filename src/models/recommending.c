/* Recommendations for generated viewers (fovea/recommend.h). */
#include "fovea/recommend.h"

#include <math.h>
#include <string.h>

#include "fovea/ops.h"
#include "models/kind_recommender.h"
#include "models/model.h"
#include "models/taste_batch.h"

enum { NEAREST = 3 };

typedef struct own {
    fv_recommendation shown; /* first */
    fv_model *model;
    int movies;
    uint64_t seed;
    fv_taste_batch batch; /* one viewer */
    fv_viewer viewer;
    fv_recommended history[FV_TASTE_HISTORY], best[FV_TASTE_MOVIES], ideal[NEAREST];
} own;

void fv_recommendation_free(fv_recommendation **r)
{
    own *o = r ? (own *)(void *)*r : NULL;
    if (!o) return;
    fv_ctx *ctx = o->model->ctx;
    fv_taste_batch_free(&o->batch);
    fv_mem_free(&ctx->mem, o, sizeof *o);
    *r = NULL;
}

static fv_recommended describe(const own *o, int64_t number)
{
    fv_movie movie;
    fv_movie_make(o->seed, (int)number, &movie);
    return (fv_recommended){.name = o->model->spec.labels[number],
                            .property = fv_property_name(movie.main),
                            .liked = fv_viewer_pleasure(&o->viewer, &movie) > 0};
}

static fv_status choose(own *o, int64_t most)
{
    fv_taste_row *row = &o->batch.row[0];
    const bool attends = fv_recommender_attends(o->model->self);
    fv_taste_unrated(row, o->movies);
    FV_TRY(fv_taste_batch_rate(&o->batch, o->model));
    for (int64_t i = 0; i < row->history_count; i++) {
        o->history[i] = describe(o, row->history[i]);
        o->history[i].liked = row->rating[i] > 0;
    }
    const int64_t count = most < row->count ? most : row->count;
    float score[FV_TASTE_MOVIES];
    memcpy(score, row->score, sizeof score);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = fv_taste_take_best(row);
        o->best[i] = describe(o, row->candidate[c]);
        o->best[i].value = 1 / (1 + exp(-(double)score[c]));
        if (attends) o->best[i].weights = row->weights[c];
    }
    o->shown.history = o->history;
    o->shown.history_count = row->history_count;
    o->shown.best = o->best;
    o->shown.count = count;
    return FV_OK;
}

/* ---- the ideal movie ------------------------------------------------------------------------ */

/* Cosines of all movies with the viewer's vector become the row's scores. */
static fv_status compare(own *o)
{
    fv_ctx *ctx = o->model->ctx;
    fv_taste_row *row = &o->batch.row[0];
    fv_tensor *movies = fv_params_find(o->model->params, "movies.weight");
    fv_tensor *viewers = fv_params_find(o->model->params, "viewers.weight");
    FV_RETURN_IF(!movies || !viewers, ctx, FV_ERR_FORMAT, "the model has no vectors of viewers");
    fv_tensor *u = fv_slice(ctx, viewers, 0, row->viewer, row->viewer + 1, 1);
    fv_tensor *dot = fv_sum(ctx, fv_mul(ctx, movies, u), 1, (int[]){1}, false);
    fv_tensor *lengths =
        fv_mul(ctx, fv_norm(ctx, movies, 1, (int[]){1}, false), fv_norm(ctx, u, 0, NULL, false));
    fv_tensor *tiny = fv_full(ctx, FV_F32, 0, NULL, 1e-20);
    row->count = o->movies;
    for (int i = 0; i < o->movies; i++)
        row->candidate[i] = i;
    return fv_tensor_read(ctx, fv_div(ctx, dot, fv_maximum(ctx, lengths, tiny)), row->score,
                          (size_t)o->movies * sizeof *row->score);
}

static fv_status find_ideal(own *o)
{
    fv_ctx *ctx = o->model->ctx;
    fv_taste_row *row = &o->batch.row[0];
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status = compare(o);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    FV_TRY(status);
    float cosine[FV_TASTE_MOVIES];
    memcpy(cosine, row->score, sizeof cosine);
    for (int i = 0; i < NEAREST; i++) {
        const int64_t c = fv_taste_take_best(row);
        o->ideal[i] = describe(o, c);
        o->ideal[i].value = (double)cosine[c];
    }
    o->shown.ideal = o->ideal;
    o->shown.ideal_count = NEAREST;
    return FV_OK;
}

/* ---- one viewer ----------------------------------------------------------------------------- */

static fv_status recommend(own *o, int64_t viewer, int64_t most)
{
    const fv_data_spec *spec = &o->model->spec;
    const int64_t known = fv_data_spec_get(spec, "viewers", 0);
    const bool attends = fv_recommender_attends(o->model->self);
    o->shown.is_new = viewer >= known;
    FV_RETURN_IF(o->shown.is_new && !attends, o->model->ctx, FV_ERR_ARGUMENT,
                 "viewer %lld is new: the model has vectors of %lld viewers, from 0, and cannot "
                 "serve others (recommender.form = \"history\" can)",
                 (long long)viewer, (long long)known);
    fv_viewer_make(o->seed, o->movies, o->shown.is_new ? FV_MADE_TEST : FV_MADE_TRAIN,
                   (uint64_t)(o->shown.is_new ? viewer - known : viewer), &o->viewer);
    FV_TRY(fv_taste_batch_create(o->model->ctx, 1, &o->batch));
    fv_taste_batch_add(&o->batch, viewer, &o->viewer, FV_MADE_TRAIN);
    FV_TRY(choose(o, most));
    return attends ? FV_OK : find_ideal(o);
}

fv_status fv_recommend(fv_model *model, int64_t viewer, int64_t most, fv_recommendation **out)
{
    fv_ctx *ctx = model->ctx;
    FV_RETURN_IF(strcmp(model->kind->name, fv_kind_recommender.name) != 0, ctx, FV_ERR_UNSUPPORTED,
                 "a %s model does not recommend movies", model->kind->name);
    const int64_t movies = fv_data_spec_get(&model->spec, "movies", 0);
    FV_RETURN_IF(movies < FV_TASTE_RATED || movies > FV_TASTE_MOVIES ||
                     model->spec.label_count != movies,
                 ctx, FV_ERR_FORMAT, "the model was not trained on the movies of this version");
    FV_RETURN_IF(viewer < 0 || viewer >= (int64_t)1 << 40 || most < 1, ctx, FV_ERR_ARGUMENT,
                 "expected a viewer from 0 to 2^40 - 1 and at least one movie");
    own *o = fv_mem_zalloc(&ctx->mem, sizeof *o);
    FV_RETURN_IF(!o, ctx, FV_ERR_MEMORY, "no memory for recommendations");
    o->model = model;
    o->movies = (int)movies;
    o->seed = (uint64_t)fv_data_spec_get(&model->spec, "seed", 0);
    const fv_status status = recommend(o, viewer, most);
    fv_recommendation *shown = &o->shown;
    if (status == FV_OK)
        *out = shown;
    else
        fv_recommendation_free(&shown);
    return status;
}

/*
 * Ratings of generated movies (data/tastes.h), for a recommender: trained on the first ratings of
 * viewers, measured on those that are held out, and where it needs no vector of a viewer also on
 * viewers that training never shows.
 *
 * data.train_count is the number of viewers, data.valid_count and data.test_count that of the new
 * ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/kind_recommender.h"
#include "models/taste_batch.h"
#include "text/codepoints.h"
#include "train/tasks/made.h"
#include "train/tasks/tasks.h"

enum {
    DEFAULT_BATCH = 64,
    DEFAULT_TRAIN = 1000,
    DEFAULT_HELD_OUT = 200,
    MOST_VIEWERS = 1000000,
    SHOWN = 3
};

static const fv_key keys[] = {
    {"ratings.movies", FV_KEY_INT, "200", FV_TASTE_RATED, FV_TASTE_MOVIES, NULL,
     "movies that there are"},
    {"ratings.seed", FV_KEY_INT, "1", 0, 1e9, NULL, "of the generated movies and viewers"},
};

static fv_key_table rating_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* The share of likes among the ratings of training. */
typedef struct means {
    double all, movie[FV_TASTE_MOVIES];
    double *viewer; /* [viewers] */
} means;

typedef struct ratings_task {
    fv_made_task made;
    int movies;
    uint64_t seed;
    fv_movie movie[FV_TASTE_MOVIES];
    char name[FV_TASTE_MOVIES][FV_MOVIE_NAME];
    const char *names[FV_TASTE_MOVIES];
    means means;
    fv_taste_batch rows; /* of the step, or of a held-out batch */
    char report[160];
} ratings_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    ratings_task *t = self;
    fv_ctx *ctx = t->made.ctx;
    fv_made_close(&t->made);
    fv_taste_batch_free(&t->rows);
    if (t->means.viewer)
        fv_mem_free(&ctx->mem, t->means.viewer,
                    (size_t)t->made.count[FV_MADE_TRAIN] * sizeof *t->means.viewer);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_status check_counts(const fv_task_config *cfg)
{
    static const char *const names[] = {"data.train_count", "data.valid_count", "data.test_count"};
    for (int i = 0; i < FV_MADE_PARTS; i++) {
        const int64_t asked = fv_recipe_int(cfg->recipe, names[i]);
        FV_RETURN_IF(asked > MOST_VIEWERS, cfg->ctx, FV_ERR_ARGUMENT,
                     "%s: expected at most %d viewers, got %lld", names[i], (int)MOST_VIEWERS,
                     (long long)asked);
    }
    return FV_OK;
}

/* A movie without ratings has the mean of all. */
static fv_status make_means(ratings_task *t)
{
    const int64_t viewers = t->made.count[FV_MADE_TRAIN];
    int64_t rated[FV_TASTE_MOVIES] = {0};
    means *m = &t->means;
    m->viewer = fv_mem_zalloc(&t->made.ctx->mem, (size_t)viewers * sizeof *m->viewer);
    FV_RETURN_IF(!m->viewer, t->made.ctx, FV_ERR_MEMORY, "no memory for %lld viewers",
                 (long long)viewers);
    for (int64_t i = 0; i < viewers; i++) {
        fv_viewer v;
        fv_viewer_make(t->seed, t->movies, FV_MADE_TRAIN, (uint64_t)i, &v);
        for (int k = 0; k < FV_TASTE_HISTORY; k++) {
            rated[v.movie[k]]++;
            m->movie[v.movie[k]] += v.liked[k];
            m->viewer[i] += v.liked[k];
        }
        m->all += m->viewer[i];
        m->viewer[i] /= FV_TASTE_HISTORY;
    }
    m->all /= (double)(viewers * FV_TASTE_HISTORY);
    for (int i = 0; i < t->movies; i++)
        m->movie[i] = rated[i] > 0 ? m->movie[i] / (double)rated[i] : m->all;
    return FV_OK;
}

static fv_status open_in(ratings_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    const fv_made_defaults defaults = {
        .batch = DEFAULT_BATCH, .train = DEFAULT_TRAIN, .held_out = DEFAULT_HELD_OUT, .longest = 1};
    t->movies = (int)fv_recipe_int(cfg->recipe, "ratings.movies");
    t->seed = (uint64_t)fv_recipe_int(cfg->recipe, "ratings.seed");
    FV_TRY(check_counts(cfg));
    FV_TRY(fv_made_open(&t->made, cfg, &defaults));
    FV_TRY(make_means(t));
    FV_TRY(fv_taste_batch_create(t->made.ctx, t->made.batch * t->made.parts.count, &t->rows));
    for (int i = 0; i < t->movies; i++) {
        fv_movie_make(t->seed, i, &t->movie[i]);
        fv_movie_name(i, t->name[i]);
        t->names[i] = t->name[i];
    }
    spec->labels = t->names;
    spec->label_count = t->movies;
    spec->ability = FV_CAN_RATE;
    const bool fits = fv_data_spec_set(spec, "movies", t->movies) &&
                      fv_data_spec_set(spec, "viewers", t->made.count[FV_MADE_TRAIN]) &&
                      fv_data_spec_set(spec, "seed", (int64_t)t->seed);
    FV_RETURN_IF(!fits, t->made.ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    ratings_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->made.ctx = cfg->ctx;
    return fv_task_opened(open_in(t, cfg, spec), close_task, t, self);
}

static fv_status prepare(void *self, fv_model *model)
{
    const ratings_task *t = self;
    return fv_made_check_kind(&t->made, model, "ratings", "recommender");
}

static const char *report(void *self)
{
    ratings_task *t = self;
    snprintf(t->report, sizeof t->report,
             "%lld viewers with %d ratings each of %d movies, %d held out for each of validation "
             "and test",
             (long long)t->made.count[FV_MADE_TRAIN], (int)FV_TASTE_RATED, t->movies,
             (int)FV_TASTE_HELD_OUT);
    return t->report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void add_viewer(ratings_task *t, fv_made_part who, int64_t number, fv_made_part ratings)
{
    fv_viewer v;
    fv_viewer_make(t->seed, t->movies, who, (uint64_t)number, &v);
    fv_taste_batch_add(&t->rows, number, &v, ratings);
}

static void add_example(void *self, int64_t number)
{
    ratings_task *t = self;
    add_viewer(t, FV_MADE_TRAIN, number, FV_MADE_TRAIN);
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    ratings_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    FV_TRY(fv_made_begin(&t->made, &t->rows.count, add_example, plan));
    plan->tokens = (double)(t->rows.count * FV_TASTE_HISTORY);
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    ratings_task *t = self;
    const int64_t *first = t->made.parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = fv_taste_batch_of(&t->rows, first[0], first[1] - first[0]);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct scored {
    double score;
    bool liked;
} scored;

/* What is known after some viewers. */
typedef struct tally {
    int64_t count;
    scored *model, *means;         /* [ratings] */
    double best;                   /* right guesses of who knows taste and properties */
    double queries, same, history; /* mass on movies with the candidate's main property */
} tally;

static int by_score(const void *a, const void *b)
{
    const double x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return x < y ? -1 : x > y;
}

/* The share of pairs of a liked and a disliked movie whose scores are in that order; equal scores
 * count half. Sorts the list. */
static double area_under_curve(scored *list, int64_t n)
{
    double below = 0, wins = 0, liked = 0;
    qsort(list, (size_t)n, sizeof *list, by_score);
    for (int64_t i = 0, end = 0; i < n; i = end) {
        double up = 0, down = 0;
        for (; end < n && list[end].score == list[i].score; end++)
            *(list[end].liked ? &up : &down) += 1;
        wins += up * (below + down / 2);
        below += down;
        liked += up;
    }
    return liked > 0 && below > 0 ? wins / (liked * below) : 0.5;
}

static double accuracy(const scored *list, int64_t n)
{
    double right = 0;
    for (int64_t i = 0; i < n; i++)
        right += (list[i].score > 0) == list[i].liked;
    return right / (double)n;
}

/* Where candidate c of a row looks. */
static void add_looks(const ratings_task *t, const fv_taste_row *r, int64_t c, tally *sum)
{
    const int kind = t->movie[r->candidate[c]].main;
    for (int64_t k = 0; k < r->history_count; k++) {
        if (t->movie[r->history[k]].main != kind) continue;
        sum->same += (double)r->weights[c][k];
        sum->history += 1 / (double)r->history_count;
    }
    sum->queries++;
}

static void add_row(const ratings_task *t, const fv_taste_row *r, fv_made_part who, tally *sum)
{
    const means *m = &t->means;
    fv_viewer v;
    fv_viewer_make(t->seed, t->movies, who, (uint64_t)r->viewer, &v);
    for (int64_t c = 0; c < r->count; c++) {
        const int64_t movie = r->candidate[c];
        const bool liked = r->liked[c] > 0;
        sum->model[sum->count] = (scored){(double)r->score[c], liked};
        if (who == FV_MADE_TRAIN)
            sum->means[sum->count] =
                (scored){m->viewer[r->viewer] + m->movie[movie] - m->all - 0.5, liked};
        sum->best += (fv_viewer_pleasure(&v, &t->movie[movie]) > 0) == liked;
        sum->count++;
        add_looks(t, r, c, sum);
    }
}

/* The held-out ratings of the viewers of a part. */
static fv_status rate_viewers(ratings_task *t, fv_model *model, fv_made_part who, tally *sum)
{
    for (int64_t first = 0; first < t->made.count[who]; first += t->made.batch) {
        t->rows.count = 0;
        for (int64_t i = first; i < t->made.count[who] && i < first + t->made.batch; i++)
            add_viewer(t, who, i, fv_made_held_out(t->made.recipe));
        FV_TRY(fv_taste_batch_rate(&t->rows, model));
        for (int64_t i = 0; i < t->rows.count; i++)
            add_row(t, &t->rows.row[i], who, sum);
    }
    return FV_OK;
}

static fv_status evaluate_in(ratings_task *t, fv_model *model, tally *sum, fv_metric *metrics,
                             int *count)
{
    const bool attends = fv_recommender_attends(fv_model_self(model));
    FV_TRY(rate_viewers(t, model, FV_MADE_TRAIN, sum));
    const int64_t n = sum->count;
    fv_metric_add(metrics, count, "accuracy", accuracy(sum->model, n), true);
    fv_metric_add(metrics, count, "auc", area_under_curve(sum->model, n), true);
    fv_metric_add(metrics, count, "means", accuracy(sum->means, n), true);
    fv_metric_add(metrics, count, "means_auc", area_under_curve(sum->means, n), true);
    fv_metric_add(metrics, count, "best", sum->best / (double)n, true);
    if (!attends) return FV_OK;
    fv_metric_add(metrics, count, "same_kind", sum->same / sum->queries, true);
    fv_metric_add(metrics, count, "in_history", sum->history / sum->queries, true);
    sum->count = 0;
    FV_TRY(rate_viewers(t, model, fv_made_held_out(t->made.recipe), sum));
    fv_metric_add(metrics, count, "new_viewers", accuracy(sum->model, sum->count), true);
    return FV_OK;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    ratings_task *t = self;
    int64_t most = 0;
    for (int i = 0; i < FV_MADE_PARTS; i++)
        if (t->made.count[i] > most) most = t->made.count[i];
    most *= FV_TASTE_HELD_OUT;
    const size_t bytes = 2 * (size_t)most * sizeof(scored);
    scored *list = fv_mem_alloc(&t->made.ctx->mem, bytes);
    FV_RETURN_IF(!list, t->made.ctx, FV_ERR_MEMORY, "no memory for scores");
    tally sum = {.model = list, .means = list + most};
    const fv_status status = evaluate_in(t, model, &sum, metrics, count);
    fv_mem_free(&t->made.ctx->mem, list, bytes);
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_status print_viewer(ratings_task *t, fv_model *model, int64_t number, fv_text *out)
{
    char line[256];
    t->rows.count = 0;
    add_viewer(t, FV_MADE_TRAIN, number, FV_MADE_TRAIN);
    fv_taste_row *r = &t->rows.row[0];
    fv_taste_unrated(r, t->movies);
    FV_TRY(fv_taste_batch_rate(&t->rows, model));
    int n = snprintf(line, sizeof line, "viewer %lld liked", (long long)number);
    for (int64_t i = 0, shown = 0; i < r->history_count && shown < SHOWN; i++) {
        if (r->rating[i] < 0) continue;
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %s", shown++ ? "," : "",
                      t->name[r->history[i]]);
    }
    n += snprintf(line + n, sizeof line - (size_t)n, "; recommended");
    for (int shown = 0; shown < SHOWN; shown++) {
        const int64_t c = fv_taste_take_best(r);
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %s", shown ? "," : "",
                      t->name[r->candidate[c]]);
    }
    n += snprintf(line + n, sizeof line - (size_t)n, "\n");
    return fv_text_append(t->made.ctx, out, line, (size_t)n);
}

static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    ratings_task *t = self;
    for (int64_t i = 0; i < count && i < t->made.count[FV_MADE_TRAIN]; i++)
        FV_TRY(print_viewer(t, model, i, out));
    return FV_OK;
}

const fv_task_kind fv_task_ratings = {
    .struct_size = sizeof fv_task_ratings,
    .name = "ratings",
    .summary = "say which generated movies generated viewers like",
    .model = "recommender",
    .keys = rating_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .begin = begin,
    .batch = step_batch,
    .evaluate = evaluate,
    .show = show,
    .get_position = fv_made_get_position,
    .set_position = fv_made_set_position,
};

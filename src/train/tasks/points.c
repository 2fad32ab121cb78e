/* Problems over points: sorting, convex hulls, Delaunay triangulations, tours. Training instances
 * are drawn by (seed, step, row), so that none comes twice; those of the tests are fixed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/points.h"
#include "text/codepoints.h"
#include "train/step.h"
#include "train/tasks/tasks.h"

enum { DEFAULT_BATCH = 128, EVAL_BATCH = 64, TRAIN_EXACT = 12 };

static const fv_key keys[] = {
    {"points.problem", FV_KEY_CHOICE, "sort", 0, 0, "sort|hull|delaunay|tsp",
     "what is asked of the inputs"},
    {"points.min_size", FV_KEY_INT, "5", 1, FV_POINTS_MAX, NULL, "inputs of the smallest set"},
    {"points.max_size", FV_KEY_INT, "5", 1, FV_POINTS_MAX, NULL, "inputs of the largest set"},
    {"points.test_size", FV_KEY_INT, "0", 0, FV_POINTS_MAX, NULL,
     "inputs of the sets that metrics are computed on; 0: as in training"},
    {"points.seed", FV_KEY_INT, "1", 0, 1e15, NULL,
     "random seed of the instances; part and number say which one"},
    {"points.valid_count", FV_KEY_INT, "1000", 1, 1e7, NULL, "sets for validation"},
    {"points.test_count", FV_KEY_INT, "10000", 1, 1e7, NULL, "sets for the test"},
    {"points.beam", FV_KEY_INT, "1", 1, 1000, NULL, "beam of the search for outputs; 1: greedy"},
};

static fv_key_table points_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* Instances in memory, as rows of batches. */
typedef struct sets {
    fv_instance **list;
    const void **points, **answers;
    int64_t *length, *count;
    int64_t rows;
    size_t list_room, points_room, answers_room, length_room, count_room;
} sets;

typedef struct points_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    fv_points_source train, held_out;
    int64_t batch, valid_count, test_count;
    fv_step_parts parts;
    sets sets;
    char report[160];
} points_task;

/* ---- instances ------------------------------------------------------------------------------ */

static void clear_sets(sets *s)
{
    for (int64_t i = 0; i < s->rows; i++)
        fv_instance_free(&s->list[i]);
    s->rows = 0;
}

static void free_sets(fv_ctx *ctx, sets *s)
{
    fv_mem *mem = &ctx->mem;
    clear_sets(s);
    if (s->list) fv_mem_free(mem, s->list, s->list_room * sizeof *s->list);
    if (s->points) fv_mem_free(mem, s->points, s->points_room * sizeof *s->points);
    if (s->answers) fv_mem_free(mem, s->answers, s->answers_room * sizeof *s->answers);
    if (s->length) fv_mem_free(mem, s->length, s->length_room * sizeof *s->length);
    if (s->count) fv_mem_free(mem, s->count, s->count_room * sizeof *s->count);
}

static fv_status make_room(fv_ctx *ctx, sets *s, size_t need)
{
    fv_mem *mem = &ctx->mem;
    fv_instance **list = fv_mem_grow(mem, s->list, &s->list_room, need, sizeof *list);
    if (list) s->list = list;
    const void **points = fv_mem_grow(mem, s->points, &s->points_room, need, sizeof *points);
    if (points) s->points = points;
    const void **answers = fv_mem_grow(mem, s->answers, &s->answers_room, need, sizeof *answers);
    if (answers) s->answers = answers;
    int64_t *length = fv_mem_grow(mem, s->length, &s->length_room, need, sizeof *length);
    if (length) s->length = length;
    int64_t *count = fv_mem_grow(mem, s->count, &s->count_room, need, sizeof *count);
    if (count) s->count = count;
    FV_RETURN_IF(!list || !points || !answers || !length || !count, ctx, FV_ERR_MEMORY,
                 "no memory for %lld sets", (long long)need);
    return FV_OK;
}

/* Instances first .. first + rows - 1 of a part, in place of those before. */
static fv_status draw_sets(points_task *t, const fv_points_source *from, fv_points_part part,
                           uint64_t first, int64_t rows)
{
    sets *s = &t->sets;
    clear_sets(s);
    FV_TRY(make_room(t->ctx, s, (size_t)rows));
    for (int64_t i = 0; i < rows; i++) {
        FV_TRY(fv_instance_draw(t->ctx, from, part, first + (uint64_t)i, &s->list[i]));
        s->rows++;
        s->points[i] = s->list[i]->values;
        s->answers[i] = s->list[i]->answer;
        s->length[i] = s->list[i]->n;
        s->count[i] = s->list[i]->count;
    }
    return FV_OK;
}

static fv_batch batch_of(const points_task *t, int64_t first, int64_t count)
{
    const sets *s = &t->sets;
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "points",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {fv_problem_width(t->train.problem)},
                                    .row = s->points + first,
                                    .length = s->length + first});
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = s->answers + first,
                                    .length = s->count + first});
    return batch;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    points_task *t = self;
    fv_ctx *ctx = t->ctx;
    free_sets(ctx, &t->sets);
    fv_step_parts_free(ctx, &t->parts);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_status read_recipe(points_task *t)
{
    const fv_recipe *recipe = t->recipe;
    const char *name = fv_recipe_text(recipe, "points.problem");
    const int64_t test = fv_recipe_int(recipe, "points.test_size"),
                  asked = fv_recipe_int(recipe, "train.batch_examples");
    fv_points_source from = {.problem = FV_PROBLEM_SORT,
                             .min = fv_recipe_int(recipe, "points.min_size"),
                             .max = fv_recipe_int(recipe, "points.max_size"),
                             .seed = (uint64_t)fv_recipe_int(recipe, "points.seed")};
    while (strcmp(name, fv_problem_name(from.problem)) != 0)
        from.problem++;
    t->held_out = t->train = from;
    t->train.exact = TRAIN_EXACT;
    if (test > 0) t->held_out.min = t->held_out.max = test;
    t->batch = asked > 0 ? asked : DEFAULT_BATCH;
    t->valid_count = fv_recipe_int(recipe, "points.valid_count");
    t->test_count = fv_recipe_int(recipe, "points.test_count");
    FV_TRY(fv_step_parts_create(t->ctx, recipe, &t->parts));
    FV_TRY(draw_sets(t, &t->train, FV_POINTS_TRAIN, 0, 1)); /* sizes are checked */
    return draw_sets(t, &t->held_out, FV_POINTS_VALID, 0, 1);
}

static fv_status open_parts(points_task *t, fv_data_spec *spec)
{
    FV_TRY(read_recipe(t));
    spec->ability = FV_CAN_POINT;
    const bool fits = fv_data_spec_set(spec, "problem", t->train.problem) &&
                      fv_data_spec_set(spec, "point", fv_problem_width(t->train.problem));
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    points_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->ctx = cfg->ctx;
    t->recipe = cfg->recipe;
    return fv_task_opened(open_parts(t, spec), close_task, t, self);
}

static const char *report(void *self)
{
    points_task *t = self;
    snprintf(t->report, sizeof t->report,
             "%s of %lld to %lld inputs, drawn anew for every step; %lld sets for validation, %lld "
             "for the test",
             fv_problem_name(t->train.problem), (long long)t->train.min, (long long)t->train.max,
             (long long)t->valid_count, (long long)t->test_count);
    return t->report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    points_task *t = self;
    const int64_t rows = fv_step_plan_rows(&t->parts, t->batch, plan);
    double choices = 0;
    (void)model;
    (void)phase;
    FV_TRY(draw_sets(t, &t->train, FV_POINTS_TRAIN, step * (uint64_t)rows, rows));
    for (int64_t i = 0; i < rows; i++)
        choices += (double)t->sets.count[i];
    plan->tokens = choices;
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    const points_task *t = self;
    const int64_t *first = t->parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = batch_of(t, first[0], first[1] - first[0]);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct totals {
    double exact, covered, length, best;
} totals;

static fv_status add_scores(points_task *t, fv_model *model, int64_t rows, totals *sum)
{
    fv_search_config how;
    fv_outputs *outputs = NULL;
    const fv_batch rows_of = batch_of(t, 0, rows);
    fv_search_config_init(&how, sizeof how);
    how.beam = (int)fv_recipe_int(t->recipe, "points.beam");
    FV_TRY(fv_point(model, &rows_of, &how, &outputs));
    fv_status status = FV_OK;
    for (int64_t i = 0; i < rows && status == FV_OK; i++) {
        const fv_instance *set = t->sets.list[i];
        const fv_output *best = fv_outputs_get(outputs, i, 0);
        fv_points_score score = {.exact = false};
        status = fv_points_compare(t->ctx, t->train.problem, set->n, set->values, set->answer,
                                   set->count, best->tokens, best->count, &score);
        sum->exact += score.exact;
        sum->covered += score.covered;
        if (t->train.problem != FV_PROBLEM_TSP) continue;
        sum->length += fv_tour_length(best->count, set->values, best->tokens);
        sum->best += fv_tour_length(set->n, set->values, set->answer);
    }
    fv_outputs_free(&outputs);
    return status;
}

static fv_points_part held_out_part(const points_task *t, int64_t *count)
{
    const bool test = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0;
    const int64_t most = fv_recipe_int(t->recipe, "eval.max_texts"),
                  all = test ? t->test_count : t->valid_count;
    *count = most > 0 && most < all ? most : all;
    return test ? FV_POINTS_TEST : FV_POINTS_VALID;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    points_task *t = self;
    totals sum = {.exact = 0};
    int64_t all = 0;
    const fv_points_part part = held_out_part(t, &all);
    for (int64_t first = 0; first < all; first += EVAL_BATCH) {
        const int64_t rows = all - first < EVAL_BATCH ? all - first : EVAL_BATCH;
        FV_TRY(draw_sets(t, &t->held_out, part, (uint64_t)first, rows));
        FV_TRY(add_scores(t, model, rows, &sum));
    }
    const double n = (double)all;
    switch (t->train.problem) {
    case FV_PROBLEM_TSP:
        fv_metric_add(metrics, count, "above", 100 * (sum.length / sum.best - 1), false);
        fv_metric_add(metrics, count, "length", sum.length / n, false);
        break;
    case FV_PROBLEM_HULL:
        fv_metric_add(metrics, count, "exact", 100 * sum.exact / n, true);
        fv_metric_add(metrics, count, "area", 100 * sum.covered / n, true);
        break;
    case FV_PROBLEM_DELAUNAY:
        fv_metric_add(metrics, count, "exact", 100 * sum.exact / n, true);
        fv_metric_add(metrics, count, "triangles", 100 * sum.covered / n, true);
        break;
    default:
        fv_metric_add(metrics, count, "exact", 100 * sum.exact / n, true);
        fv_metric_add(metrics, count, "places", 100 * sum.covered / n, true);
    }
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_status add_list(fv_ctx *ctx, const char *name, int64_t count, const int64_t *list,
                          fv_text *out)
{
    char word[32];
    FV_TRY(fv_text_append(ctx, out, name, strlen(name)));
    for (int64_t i = 0; i < count; i++) {
        const int n = snprintf(word, sizeof word, " %lld", (long long)list[i]);
        FV_TRY(fv_text_append(ctx, out, word, (size_t)n));
    }
    return fv_text_append(ctx, out, "\n", 1);
}

static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    points_task *t = self;
    int64_t all = 0;
    fv_search_config how;
    fv_outputs *outputs = NULL;
    const fv_points_part part = held_out_part(t, &all);
    const int64_t rows = count < all ? count : all;
    if (rows < 1) return FV_OK;
    FV_TRY(draw_sets(t, &t->held_out, part, 0, rows));
    const fv_batch rows_of = batch_of(t, 0, rows);
    fv_search_config_init(&how, sizeof how);
    how.beam = (int)fv_recipe_int(t->recipe, "points.beam");
    FV_TRY(fv_point(model, &rows_of, &how, &outputs));
    fv_status status = FV_OK;
    for (int64_t i = 0; i < rows && status == FV_OK; i++) {
        const fv_output *best = fv_outputs_get(outputs, i, 0);
        const fv_instance *set = t->sets.list[i];
        status = add_list(t->ctx, "answer", set->count, set->answer, out);
        if (status == FV_OK) status = add_list(t->ctx, "output", best->count, best->tokens, out);
    }
    fv_outputs_free(&outputs);
    return status;
}

const fv_task_kind fv_task_points = {
    .struct_size = sizeof fv_task_points,
    .name = "points",
    .summary = "sort numbers, find hulls, triangulations and tours of points",
    .model = "pointer",
    .keys = points_keys,
    .open = open_task,
    .close = close_task,
    .report = report,
    .begin = begin,
    .batch = batch,
    .evaluate = evaluate,
    .show = show,
};

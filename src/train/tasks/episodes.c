/*
 * Few-shot learning: every row of a batch is an episode with new classes (fovea/shots.h), and the
 * loss is the cross-entropy of its queries. Episodes are drawn by (seed, step, row), so a resumed
 * run draws the same ones.
 *
 * Metrics: the share of right answers over episodes of held-out characters, the same for the
 * nearest class mean of pixels, and for models of twenty classes the error of the twenty one-shot
 * runs. episodes.orders asks every question several times, with the examples in another order and
 * other labels, and answers by the mean of the probabilities.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/shots.h"
#include "text/codepoints.h"
#include "train/step.h"
#include "train/tasks/tasks.h"

enum { USUAL_BATCH = 16, MOST_BATCH = 1024, EVAL_BATCH = 8, MOST_ORDERS = 64 };

static const fv_key keys[] = {
    {"episodes.source", FV_KEY_CHOICE, "drawn", 0, 0, "drawn|omniglot",
     "episodes: characters of random strokes, or those of Omniglot"},
    {"episodes.folder", FV_KEY_PATH, "", 0, 0, NULL, "folder with the files of Omniglot"},
    {"episodes.subset", FV_KEY_INT, "0", 0, 2, NULL,
     "omniglot: 1 or 2 learns from background set small 1 or small 2 alone, 0 from both"},
    {"episodes.ways", FV_KEY_INT, "5", 2, FV_SHOTS_MOST_WAYS, NULL, "classes of an episode"},
    {"episodes.shots", FV_KEY_INT, "1", 1, 64, NULL, "examples of each class"},
    {"episodes.queries", FV_KEY_INT, "5", 1, FV_SHOTS_MOST, NULL,
     "drawings to classify in each training episode"},
    {"episodes.curriculum", FV_KEY_INT, "0", 0, 1e12, NULL,
     "steps in which the classes of training episodes grow from two to all; 0: none"},
    {"episodes.within", FV_KEY_REAL, "0", 0, 1, NULL,
     "share of training episodes whose classes are of one alphabet, by the same drawers"},
    {"episodes.shift", FV_KEY_REAL, "0", 0, 14, NULL,
     "training drawings are moved by up to so many pixels"},
    {"episodes.warp", FV_KEY_REAL, "0", 0, 0.99, NULL,
     "w: training drawings are rotated by up to w radians, scaled and sheared by up to w / 2"},
    {"episodes.valid_count", FV_KEY_INT, "200", 1, 1e7, NULL, "episodes for validation"},
    {"episodes.test_count", FV_KEY_INT, "1000", 1, 1e7, NULL, "episodes for the final test"},
    {"episodes.orders", FV_KEY_INT, "1", 1, MOST_ORDERS, NULL,
     "random orders of the one-shot runs' examples that an answer is the mean of"},
};

static fv_key_table episodes_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct episodes_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    fv_shots *shots;
    fv_shots_rule rule; /* of training */
    int64_t batch, valid, test, orders, curriculum;
    fv_step_parts parts;
    /* The episodes of the current step, or of an evaluation's batch. */
    fv_shots_episode *list;
    int64_t count, room;
    const void **pixels, **labels;
    int64_t *length;
    char report[200];
} episodes_task;

/* ---- opening -------------------------------------------------------------------------------- */

static size_t list_bytes(const episodes_task *t)
{
    return (size_t)t->room * (sizeof *t->list + 2 * sizeof(void *) + sizeof(int64_t));
}

static void clear_list(episodes_task *t)
{
    for (int64_t i = 0; i < t->count; i++)
        fv_shots_episode_free(t->ctx, &t->list[i]);
    t->count = 0;
}

static void close_task(void *self)
{
    episodes_task *t = self;
    clear_list(t);
    fv_step_parts_free(t->ctx, &t->parts);
    fv_shots_close(&t->shots);
    if (t->list) fv_mem_free(&t->ctx->mem, t->list, list_bytes(t));
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
}

static fv_status make_room(episodes_task *t, int64_t rows)
{
    t->room = rows;
    t->list = fv_mem_zalloc(&t->ctx->mem, list_bytes(t));
    FV_RETURN_IF(!t->list, t->ctx, FV_ERR_MEMORY, "no memory for %lld episodes", (long long)rows);
    t->pixels = (const void **)(t->list + rows);
    t->labels = t->pixels + rows;
    t->length = (int64_t *)(t->labels + rows);
    return FV_OK;
}

static void read_settings(episodes_task *t)
{
    const fv_recipe *recipe = t->recipe;
    const int64_t asked = fv_recipe_int(recipe, "train.batch_examples");
    t->batch = asked > 0 ? asked : USUAL_BATCH;
    t->valid = fv_recipe_int(recipe, "episodes.valid_count");
    t->test = fv_recipe_int(recipe, "episodes.test_count");
    t->curriculum = fv_recipe_int(recipe, "episodes.curriculum");
    t->orders = fv_recipe_int(recipe, "episodes.orders");
    t->rule = (fv_shots_rule){.ways = fv_recipe_int(recipe, "episodes.ways"),
                              .shots = fv_recipe_int(recipe, "episodes.shots"),
                              .queries = fv_recipe_int(recipe, "episodes.queries"),
                              .seed = (uint64_t)fv_recipe_int(recipe, "train.seed"),
                              .within = fv_recipe_real(recipe, "episodes.within"),
                              .shift = fv_recipe_real(recipe, "episodes.shift"),
                              .warp = fv_recipe_real(recipe, "episodes.warp")};
}

/* What all episodes of held-out characters have: one query, and no changes. */
static fv_shots_rule held_out_rule(const episodes_task *t, fv_shots_part part)
{
    fv_shots_rule rule = t->rule;
    rule.part = part;
    rule.queries = 1;
    rule.within = rule.shift = rule.warp = 0;
    return rule;
}

/* The rule of a training step: fewer classes while the curriculum lasts. */
static fv_shots_rule rule_at(const episodes_task *t, uint64_t step)
{
    fv_shots_rule rule = t->rule;
    if (step < (uint64_t)t->curriculum)
        rule.classes =
            2 + (int64_t)((double)(rule.ways - 2) * ((double)step / (double)t->curriculum));
    return rule;
}

/* Makes one episode of each part, which says whether the settings fit. */
static fv_status try_parts(episodes_task *t)
{
    for (int part = 0; part < FV_SHOTS_PARTS; part++) {
        fv_shots_episode e;
        const fv_shots_rule rule =
            part == FV_SHOTS_TRAIN ? rule_at(t, 0) : held_out_rule(t, (fv_shots_part)part);
        FV_TRY(fv_shots_episode_make(t->shots, &rule, 0, &e));
        fv_shots_episode_free(t->ctx, &e);
    }
    return FV_OK;
}

static fv_status open_parts(episodes_task *t, fv_data_spec *spec)
{
    const fv_shots_config cfg = {.source = fv_recipe_text(t->recipe, "episodes.source"),
                                 .folder = fv_recipe_text(t->recipe, "episodes.folder"),
                                 .subset = fv_recipe_int(t->recipe, "episodes.subset"),
                                 .seed = 1};
    FV_RETURN_IF(t->batch > MOST_BATCH, t->ctx, FV_ERR_ARGUMENT,
                 "train.batch_examples is %lld, expected at most %d", (long long)t->batch,
                 (int)MOST_BATCH);
    FV_TRY(fv_shots_open(t->ctx, &cfg, &t->shots));
    FV_TRY(try_parts(t));
    FV_TRY(fv_step_parts_create(t->ctx, t->recipe, &t->parts));
    spec->ability = FV_CAN_LEARN;
    const bool fits = fv_data_spec_set(spec, "side", FV_SHOTS_SIDE) &&
                      fv_data_spec_set(spec, "ways", t->rule.ways) &&
                      fv_data_spec_set(spec, "shots", t->rule.shots);
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    const int64_t step = t->batch * t->parts.count;
    return make_room(t, step > EVAL_BATCH ? step : EVAL_BATCH);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    episodes_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->ctx = cfg->ctx;
    t->recipe = cfg->recipe;
    read_settings(t);
    return fv_task_opened(open_parts(t, spec), close_task, t, self);
}

static const char *report(void *self)
{
    episodes_task *t = self;
    const fv_shots_facts f = fv_shots_facts_of(t->shots);
    snprintf(t->report, sizeof t->report,
             "%lld-way %lld-shot episodes; characters: %lld for training, %lld for validation, "
             "%lld for the test",
             (long long)t->rule.ways, (long long)t->rule.shots,
             (long long)f.characters[FV_SHOTS_TRAIN], (long long)f.characters[FV_SHOTS_VALID],
             (long long)f.characters[FV_SHOTS_TEST]);
    return t->report;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Takes the episode that has just been made at the end of the list. */
static void take_last(episodes_task *t)
{
    const fv_shots_episode *e = &t->list[t->count];
    t->pixels[t->count] = e->pixels;
    t->labels[t->count] = e->labels;
    t->length[t->count++] = e->examples + e->queries;
}

static fv_status add_episode(episodes_task *t, const fv_shots_rule *rule, uint64_t number)
{
    FV_TRY(fv_shots_episode_make(t->shots, rule, number, &t->list[t->count]));
    take_last(t);
    return FV_OK;
}

static fv_batch batch_of(const episodes_task *t, int64_t first, int64_t count)
{
    fv_batch b;
    fv_batch_init(&b, count);
    fv_batch_add(&b, (fv_field){.name = "pixels",
                                .dtype = FV_F32,
                                .rank = 3,
                                .shape = {1, FV_SHOTS_SIDE, FV_SHOTS_SIDE},
                                .row = t->pixels + first,
                                .length = t->length + first});
    fv_batch_add(&b, (fv_field){.name = "label",
                                .dtype = FV_I64,
                                .row = t->labels + first,
                                .length = t->length + first});
    return b;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    episodes_task *t = self;
    const int64_t all = fv_step_plan_rows(&t->parts, t->batch, plan);
    const fv_shots_rule rule = rule_at(t, step);
    (void)model;
    (void)phase;
    clear_list(t);
    for (int64_t i = 0; i < all; i++)
        FV_TRY(add_episode(t, &rule, step * (uint64_t)all + (uint64_t)i));
    plan->tokens = (double)(all * t->rule.queries);
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    const episodes_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    *out = batch_of(t, part * t->batch, t->batch);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct score {
    double asked, right, nearest, nats;
} score;

/* Probabilities of all queries of the list, [queries][ways]. */
static fv_status answer_list(episodes_task *t, fv_model *model, float *out, size_t bytes)
{
    const fv_batch batch = batch_of(t, 0, t->count);
    fv_scope_begin(t->ctx);
    fv_no_grad_begin(t->ctx);
    fv_tensor *p = fv_softmax(t->ctx, fv_model_classify(model, &batch, NULL), -1);
    const fv_status status = fv_tensor_read(t->ctx, p, out, bytes);
    fv_no_grad_end(t->ctx);
    fv_scope_end(t->ctx);
    return status;
}

static int64_t largest(int64_t n, const float *x)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* The current episodes, each with one query. */
static fv_status add_score(episodes_task *t, fv_model *model, score *s)
{
    float p[EVAL_BATCH * FV_SHOTS_MOST_WAYS];
    const int64_t ways = t->rule.ways;
    FV_TRY(answer_list(t, model, p, (size_t)(t->count * ways) * sizeof *p));
    for (int64_t i = 0; i < t->count; i++) {
        const fv_shots_episode *e = &t->list[i];
        const int64_t label = e->labels[e->examples];
        s->asked++;
        s->right += largest(ways, p + i * ways) == label;
        s->nearest += fv_shots_nearest(e, 0) == label;
        s->nats -= log(fmax((double)p[i * ways + label], 1e-30));
    }
    return FV_OK;
}

static fv_status score_part(episodes_task *t, fv_model *model, fv_shots_part part, int64_t count,
                            score *s)
{
    const fv_shots_rule rule = held_out_rule(t, part);
    for (int64_t first = 0; first < count; first += EVAL_BATCH) {
        const int64_t end = first + EVAL_BATCH < count ? first + EVAL_BATCH : count;
        clear_list(t);
        for (int64_t i = first; i < end; i++)
            FV_TRY(add_episode(t, &rule, (uint64_t)i));
        FV_TRY(add_score(t, model, s));
    }
    return FV_OK;
}

/* One order of a one-shot run: adds each query's probabilities to sum [queries][classes]. */
static fv_status add_order(episodes_task *t, fv_model *model, int64_t run, int64_t order,
                           double *sum)
{
    enum { N = FV_SHOTS_RUN_WAYS };
    float p[N * N];
    clear_list(t);
    FV_TRY(fv_shots_run_make(t->shots, t->rule.seed, run, (uint64_t)order, &t->list[0]));
    take_last(t);
    FV_TRY(answer_list(t, model, p, sizeof p));
    for (int64_t i = 0; i < N * N; i++)
        sum[i / N * N + t->list->classes[i % N]] += (double)p[i];
    return FV_OK;
}

static fv_status score_run(episodes_task *t, fv_model *model, int64_t run, score *s)
{
    enum { N = FV_SHOTS_RUN_WAYS };
    double sum[N * N] = {0};
    for (int64_t order = 0; order < t->orders; order++)
        FV_TRY(add_order(t, model, run, order, sum));
    const fv_shots_episode *e = &t->list[0];
    for (int64_t q = 0; q < N; q++) {
        const int64_t label = e->labels[N + q];
        int64_t best = 0;
        for (int64_t i = 1; i < N; i++)
            if (sum[q * N + i] > sum[q * N + best]) best = i;
        s->asked++;
        s->right += best == e->classes[label];
        s->nearest += fv_shots_nearest(e, q) == label;
    }
    return FV_OK;
}

static fv_status prepare(void *self, fv_model *model)
{
    const episodes_task *t = self;
    FV_RETURN_IF(!fv_model_can(model, FV_CAN_LEARN), t->ctx, FV_ERR_ARGUMENT,
                 "model.kind is %s: such a model does not learn from the examples of an episode",
                 fv_model_kind_of(model)->name);
    return FV_OK;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    episodes_task *t = self;
    const bool test = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0;
    const int64_t runs = fv_shots_facts_of(t->shots).runs;
    score s = {0}, r = {0};
    FV_TRY(
        score_part(t, model, test ? FV_SHOTS_TEST : FV_SHOTS_VALID, test ? t->test : t->valid, &s));
    fv_metric_add(metrics, count, "accuracy", s.right / s.asked, true);
    fv_metric_add(metrics, count, "loss", s.nats / s.asked, false);
    fv_metric_add(metrics, count, "nearest_pixels", s.nearest / s.asked, true);
    if (!test || t->rule.ways != FV_SHOTS_RUN_WAYS || t->rule.shots != 1) return FV_OK;
    for (int64_t run = 0; run < runs; run++)
        FV_TRY(score_run(t, model, run, &r));
    fv_metric_add(metrics, count, "one_shot_error", 1 - r.right / r.asked, false);
    fv_metric_add(metrics, count, "one_shot_error_nearest_pixels", 1 - r.nearest / r.asked, false);
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* "episode 3: class 2, which is right; the nearest pixels say 4" */
static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    episodes_task *t = self;
    const fv_shots_rule rule = held_out_rule(t, FV_SHOTS_VALID);
    for (int i = 0; i < count; i++) {
        float p[FV_SHOTS_MOST_WAYS];
        char line[160];
        clear_list(t);
        FV_TRY(add_episode(t, &rule, (uint64_t)i));
        FV_TRY(answer_list(t, model, p, (size_t)t->rule.ways * sizeof *p));
        const fv_shots_episode *e = &t->list[0];
        const int64_t answer = largest(t->rule.ways, p), label = e->labels[e->examples];
        const int n =
            snprintf(line, sizeof line,
                     "episode %d: class %lld with %.0f %%, %s; the nearest pixels are of "
                     "class %lld\n",
                     i, (long long)answer, 100 * (double)p[answer],
                     answer == label ? "right" : "wrong", (long long)fv_shots_nearest(e, 0));
        FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    }
    return FV_OK;
}

const fv_task_kind fv_task_episodes = {
    .struct_size = sizeof fv_task_episodes,
    .name = "episodes",
    .summary = "few-shot learning: classes of each episode from a few examples of them",
    .model = "few-shot",
    .keys = episodes_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .begin = begin,
    .batch = step_batch,
    .evaluate = evaluate,
    .show = show,
};

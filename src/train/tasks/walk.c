/*
 * Instructions in generated grid worlds (data/worlds.h), for a walker: trained on the right actions
 * and what the agent sees on their way, measured by walks of its own on maps that training never
 * shows.
 */
#include <stdio.h>
#include <string.h>

#include "models/errand_batch.h"
#include "text/codepoints.h"
#include "train/tasks/made.h"
#include "train/tasks/tasks.h"

enum { DEFAULT_BATCH = 64, DEFAULT_TRAIN = 20000, DEFAULT_HELD_OUT = 500 };

typedef struct walk_task {
    fv_made_task made;
    int64_t words[FV_ERRAND_VOCABULARY];
    fv_errand_batch rows; /* of the step, or of a held-out batch */
    char report[160];
} walk_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    walk_task *t = self;
    fv_ctx *ctx = t->made.ctx;
    fv_made_close(&t->made);
    fv_errand_batch_free(&t->rows);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static int64_t length_of(int64_t number)
{
    fv_errand e;
    fv_errand_make(FV_MADE_TRAIN, (uint64_t)number, &e);
    return e.action_count;
}

static fv_status open_in(walk_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    const fv_made_defaults defaults = {.batch = DEFAULT_BATCH,
                                       .train = DEFAULT_TRAIN,
                                       .held_out = DEFAULT_HELD_OUT,
                                       .longest = FV_ERRAND_ACTIONS,
                                       .length = length_of};
    FV_TRY(fv_made_open(&t->made, cfg, &defaults));
    FV_TRY(fv_errand_batch_create(t->made.ctx, t->made.batch * t->made.parts.count, &t->rows));
    FV_TRY(fv_made_tokenizer(t->made.ctx, fv_errand_word, &spec->source));
    spec->target = spec->source;
    FV_TRY(fv_errand_tokens(t->made.ctx, spec->source, t->words));
    spec->ability = FV_CAN_ACT;
    const bool fits = fv_data_spec_set(spec, "seen", FV_WORLD_SEEN) &&
                      fv_data_spec_set(spec, "actions", FV_ACTION_COUNT);
    FV_RETURN_IF(!fits, t->made.ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    walk_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->made.ctx = cfg->ctx;
    return fv_task_opened(open_in(t, cfg, spec), close_task, t, self);
}

static fv_status prepare(void *self, fv_model *model)
{
    const walk_task *t = self;
    return fv_made_check_kind(&t->made, model, "walk", "walker");
}

static const char *report(void *self)
{
    walk_task *t = self;
    snprintf(t->report, sizeof t->report,
             "%lld maps for training, %lld for validation, %lld for the test",
             (long long)t->made.count[FV_MADE_TRAIN], (long long)t->made.count[FV_MADE_VALID],
             (long long)t->made.count[FV_MADE_TEST]);
    return t->report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void add_map(walk_task *t, fv_made_part part, int64_t number)
{
    fv_errand e;
    fv_errand_make(part, (uint64_t)number, &e);
    fv_errand_batch_add(&t->rows, t->words, &e);
}

static void add_example(void *self, int64_t number)
{
    walk_task *t = self;
    add_map(t, FV_MADE_TRAIN, number);
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    walk_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    FV_TRY(fv_made_begin(&t->made, &t->rows.count, add_example, plan));
    plan->tokens = 0;
    for (int64_t i = 0; i < t->rows.count; i++)
        plan->tokens += (double)t->rows.row[i].steps;
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    walk_task *t = self;
    const int64_t *first = t->made.parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = fv_errand_batch_of(&t->rows, first[0], first[1] - first[0]);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

/* Whether the walk ended on the goal's cell, whatever its heading. */
static bool is_at_goal(const fv_errand_row *r)
{
    const fv_agent end = r->agent[r->steps];
    return r->stopped && end.row == r->errand.goal.row && end.col == r->errand.goal.col;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    walk_task *t = self;
    const fv_made_part part = fv_made_held_out(t->made.recipe);
    const int64_t all = t->made.count[part];
    double reached = 0, place = 0;
    for (int64_t first = 0; first < all; first += t->made.batch) {
        t->rows.count = 0;
        for (int64_t i = first; i < all && i < first + t->made.batch; i++)
            add_map(t, part, i);
        FV_TRY(fv_errand_batch_walk(&t->rows, model));
        for (int64_t i = 0; i < t->rows.count; i++) {
            reached += fv_errand_reached(&t->rows.row[i]);
            place += is_at_goal(&t->rows.row[i]);
        }
    }
    fv_metric_add(metrics, count, "success", reached / (double)all, true);
    fv_metric_add(metrics, count, "place", place / (double)all, true);
    return FV_OK;
}

/* "map 3  turn left then go to the wall: left forward forward stop, reached" */
static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    walk_task *t = self;
    const fv_made_part part = fv_made_held_out(t->made.recipe);
    t->rows.count = 0;
    for (int i = 0; i < count && i < t->rows.room && i < t->made.count[part]; i++)
        add_map(t, part, i);
    FV_TRY(fv_errand_batch_walk(&t->rows, model));
    for (int64_t i = 0; i < t->rows.count; i++) {
        const fv_errand_row *r = &t->rows.row[i];
        char line[1024];
        int n = snprintf(line, sizeof line, "map %-4lld", (long long)i);
        for (int64_t k = 0; k < r->words; k++)
            n += snprintf(line + n, sizeof line - (size_t)n, " %s",
                          fv_errand_word(r->errand.word[k]));
        n += snprintf(line + n, sizeof line - (size_t)n, ":");
        for (int64_t k = 0; k < r->steps; k++)
            n += snprintf(line + n, sizeof line - (size_t)n, " %s",
                          fv_action_name((int)r->action[k]));
        n += snprintf(line + n, sizeof line - (size_t)n, ", %s\n",
                      fv_errand_reached(r) ? "reached" : "missed");
        FV_TRY(fv_text_append(t->made.ctx, out, line, (size_t)n));
    }
    return FV_OK;
}

static fv_key_table no_keys(void) { return (fv_key_table){NULL, 0}; }

const fv_task_kind fv_task_walk = {
    .struct_size = sizeof fv_task_walk,
    .name = "walk",
    .summary = "follow instructions in generated grid worlds",
    .model = "walker",
    .keys = no_keys,
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

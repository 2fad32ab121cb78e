/*
 * The tasks of the Neural Turing Machine: copy, repeat, recall, predict and sort sequences of bits
 * (fovea/data.h). Every sequence is new: a step's are drawn by (seed, step, row), so a resumed run
 * draws the same ones. The loss is the cross-entropy of all answers of a sequence; metrics count
 * it in bits.
 *
 * bits.curriculum lets the longest sequences grow from bits.shortest to bits.longest over as many
 * steps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "data/draws.h"
#include "fovea/autograd.h"
#include "fovea/data.h"
#include "text/codepoints.h"
#include "train/step.h"
#include "train/tasks/tasks.h"

#define LENGTH_SITE 0x6c656e67u

enum { MOST_LENGTHS = 5, USUAL_VALID = 100, EVAL_BATCH = 50, MOST_BATCH = 4096 };

static const fv_key keys[] = {
    {"bits.task", FV_KEY_CHOICE, "copy", 0, 0, "copy|repeat-copy|recall|ngrams|sort",
     "bit-sequences: what is learned"},
    {"bits.width", FV_KEY_INT, "0", 0, 256, NULL, "bits of a vector; 0: 8, for recall 6"},
    {"bits.shortest", FV_KEY_INT, "1", 1, FV_BITS_LONGEST, NULL,
     "vectors (recall: items) of the shortest sequence"},
    {"bits.longest", FV_KEY_INT, "20", 1, FV_BITS_LONGEST, NULL, "... of the longest in training"},
    {"bits.repeats", FV_KEY_INT, "10", 1, 1000, NULL, "repeat-copy: most repetitions"},
    {"bits.curriculum", FV_KEY_INT, "0", 0, 1e12, NULL,
     "steps in which the longest sequences grow to bits.longest; 0: none"},
    {"bits.valid_count", FV_KEY_INT, "100", 1, 1e6, NULL, "sequences of an evaluation"},
    {"bits.test_lengths", FV_KEY_TEXT, "", 0, 0, NULL,
     "lengths at which wrong bits are counted, such as \"40,60,120\""},
};

static fv_key_table bits_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct bits_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    fv_bits_config cfg;
    int64_t shortest, longest, curriculum, batch, valid;
    int64_t lengths[MOST_LENGTHS];
    int length_count;
    fv_step_parts parts;
    /* The sequences of the current step, or of an evaluation's batch. */
    fv_bits_example *examples;
    int64_t count, room;
    const void **input_row, **target_row;
    int64_t *input_length, *target_length;
    char report[160];
} bits_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void clear_examples(bits_task *t)
{
    for (int64_t i = 0; i < t->count; i++)
        fv_bits_free(t->ctx, &t->examples[i]);
    t->count = 0;
}

static size_t rows_bytes(const bits_task *t)
{
    return (size_t)t->room * (sizeof *t->examples + 2 * sizeof(void *) + 2 * sizeof(int64_t));
}

static void close_task(void *self)
{
    bits_task *t = self;
    clear_examples(t);
    fv_step_parts_free(t->ctx, &t->parts);
    if (t->examples) fv_mem_free(&t->ctx->mem, t->examples, rows_bytes(t));
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
}

static fv_status make_room(bits_task *t, int64_t rows)
{
    t->room = rows;
    t->examples = fv_mem_zalloc(&t->ctx->mem, rows_bytes(t));
    FV_RETURN_IF(!t->examples, t->ctx, FV_ERR_MEMORY, "no memory for %lld sequences",
                 (long long)rows);
    t->input_row = (const void **)(t->examples + rows);
    t->target_row = t->input_row + rows;
    t->input_length = (int64_t *)(t->target_row + rows);
    t->target_length = t->input_length + rows;
    return FV_OK;
}

/* Lengths separated by commas. */
static fv_status read_lengths(bits_task *t, const char *text)
{
    while (*text) {
        char *end = NULL;
        const long long n = strtoll(text, &end, 10);
        FV_RETURN_IF(end == text || n < 1 || n > FV_BITS_LONGEST || (*end && *end != ','), t->ctx,
                     FV_ERR_ARGUMENT,
                     "bits.test_lengths: expected numbers from 1 to %d, such as \"40,60\"",
                     FV_BITS_LONGEST);
        FV_RETURN_IF(t->length_count == MOST_LENGTHS, t->ctx, FV_ERR_ARGUMENT,
                     "bits.test_lengths: expected at most %d lengths", MOST_LENGTHS);
        t->lengths[t->length_count++] = n;
        text = *end ? end + 1 : end;
    }
    return FV_OK;
}

/* Makes one of the longest sequences of each kind, which says whether the settings fit. */
static fv_status try_lengths(bits_task *t)
{
    for (int i = -1; i < t->length_count; i++) {
        fv_bits_example e = {0};
        t->cfg.length = i < 0 ? t->longest : t->lengths[i];
        FV_TRY(fv_bits_make(t->ctx, &t->cfg, FV_BITS_TEST, 0, &e));
        fv_bits_free(t->ctx, &e);
    }
    return FV_OK;
}

static fv_status read_settings(bits_task *t, fv_data_spec *spec)
{
    const fv_recipe *recipe = t->recipe;
    const int64_t asked = fv_recipe_int(recipe, "train.batch_examples");
    int64_t inputs = 0, outputs = 0;
    t->cfg = (fv_bits_config){.task = fv_recipe_text(recipe, "bits.task"),
                              .width = fv_recipe_int(recipe, "bits.width"),
                              .repeats = fv_recipe_int(recipe, "bits.repeats"),
                              .seed = (uint64_t)fv_recipe_int(recipe, "train.seed")};
    t->shortest = fv_recipe_int(recipe, "bits.shortest");
    t->longest = fv_recipe_int(recipe, "bits.longest");
    t->curriculum = fv_recipe_int(recipe, "bits.curriculum");
    t->valid = fv_recipe_int(recipe, "bits.valid_count");
    t->batch = asked > 0 ? asked : 1;
    FV_RETURN_IF(t->batch > MOST_BATCH, t->ctx, FV_ERR_ARGUMENT,
                 "train.batch_examples is %lld, expected at most %d", (long long)t->batch,
                 MOST_BATCH);
    FV_RETURN_IF(t->shortest > t->longest, t->ctx, FV_ERR_ARGUMENT,
                 "bits.shortest is %lld, expected at most bits.longest, %lld",
                 (long long)t->shortest, (long long)t->longest);
    FV_TRY(read_lengths(t, fv_recipe_text(recipe, "bits.test_lengths")));
    FV_TRY(try_lengths(t));
    FV_TRY(fv_bits_widths(t->ctx, &t->cfg, &inputs, &outputs));
    FV_TRY(fv_step_parts_create(t->ctx, recipe, &t->parts));
    spec->ability = FV_CAN_PREDICT;
    const bool fits = fv_data_spec_set(spec, "inputs", inputs) &&
                      fv_data_spec_set(spec, "outputs", outputs) &&
                      fv_data_spec_set(spec, "bits_task", fv_recipe_choice(recipe, "bits.task")) &&
                      fv_data_spec_set(spec, "bits_width", t->cfg.width) &&
                      fv_data_spec_set(spec, "bits_repeats", t->cfg.repeats) &&
                      fv_data_spec_set(spec, "bits_longest", t->longest);
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    const int64_t step = t->batch * t->parts.count;
    return make_room(t, step > EVAL_BATCH ? step : EVAL_BATCH);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    bits_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->ctx = cfg->ctx;
    t->recipe = cfg->recipe;
    return fv_task_opened(read_settings(t, spec), close_task, t, self);
}

static const char *report(void *self)
{
    bits_task *t = self;
    snprintf(t->report, sizeof t->report, "%s of bits, lengths %lld to %lld, drawn at every step",
             t->cfg.task, (long long)t->shortest, (long long)t->longest);
    return t->report;
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* The longest length of a step. */
static int64_t longest_at(const bits_task *t, uint64_t step)
{
    if (t->curriculum == 0 || step >= (uint64_t)t->curriculum) return t->longest;
    const double share = (double)(step + 1) / (double)t->curriculum;
    return t->shortest + (int64_t)((double)(t->longest - t->shortest) * share);
}

/* Adds sequence `number` of a part with a length from low to high. */
static fv_status add_example(bits_task *t, fv_bits_part part, uint64_t number, int64_t low,
                             int64_t high)
{
    fv_draws d = fv_draws_begin(fv_rng_key(t->cfg.seed, (uint64_t)part, LENGTH_SITE), number);
    const int64_t i = t->count;
    t->cfg.length = low + fv_draws_below(&d, high - low + 1);
    FV_TRY(fv_bits_make(t->ctx, &t->cfg, part, number, &t->examples[i]));
    t->input_row[i] = t->examples[i].inputs;
    t->target_row[i] = t->examples[i].targets;
    t->input_length[i] = t->examples[i].steps;
    t->target_length[i] = t->examples[i].answers;
    t->count++;
    return FV_OK;
}

static fv_batch batch_of(const bits_task *t, int64_t first, int64_t count)
{
    fv_batch b;
    fv_batch_init(&b, count);
    fv_batch_add(&b, (fv_field){.name = "inputs",
                                .dtype = FV_F32,
                                .rank = 1,
                                .shape = {t->examples->input_width},
                                .row = t->input_row + first,
                                .length = t->input_length + first});
    fv_batch_add(&b, (fv_field){.name = "targets",
                                .dtype = FV_F32,
                                .rank = 1,
                                .shape = {t->examples->output_width},
                                .row = t->target_row + first,
                                .length = t->target_length + first});
    return b;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    bits_task *t = self;
    const int64_t high = longest_at(t, step), all = fv_step_plan_rows(&t->parts, t->batch, plan);
    (void)model;
    (void)phase;
    clear_examples(t);
    for (int64_t i = 0; i < all; i++)
        FV_TRY(
            add_example(t, FV_BITS_TRAIN, step * (uint64_t)all + (uint64_t)i, t->shortest, high));
    plan->tokens = (double)all;
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    const bits_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    *out = batch_of(t, part * t->batch, t->batch);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct score {
    double nats, wrong, optimal;
} score;

/* Cross-entropy and wrong bits of the current sequences. */
static fv_status add_score(bits_task *t, fv_model *model, score *s)
{
    fv_ctx *ctx = t->ctx;
    const fv_batch batch = batch_of(t, 0, t->count);
    fv_tensor *logits = fv_model_kind_of(model)->predict(ctx, fv_model_self(model), &batch, NULL);
    const int64_t width = t->examples->output_width;
    int64_t rows = 0;
    for (int64_t i = 0; i < t->count; i++)
        rows += t->target_length[i];
    const size_t bytes = (size_t)(rows * width) * sizeof(float);
    float *x = fv_mem_alloc(&ctx->mem, bytes), *at = x;
    FV_RETURN_IF(!x, ctx, FV_ERR_MEMORY, "no memory for an evaluation");
    const fv_status status = fv_tensor_read(ctx, logits, x, bytes);
    for (int64_t i = 0; i < t->count && status == FV_OK; i++) {
        const fv_bits_example *e = &t->examples[i];
        for (int64_t k = 0; k < e->answers * width; k++) {
            const double z = (double)*at++, y = (double)e->targets[k], size = fabs(z);
            s->nats += (z > 0 ? z : 0) - z * y + log1p(exp(-size));
            s->wrong += (z > 0) != (y > 0.5);
        }
        s->optimal += e->optimal_bits;
    }
    fv_mem_free(&ctx->mem, x, bytes);
    return status;
}

/* The means over `count` fresh sequences with lengths from low to high. */
static fv_status score_lengths(bits_task *t, fv_model *model, fv_bits_part part, int64_t low,
                               int64_t high, score *out)
{
    score s = {0};
    for (int64_t first = 0; first < t->valid; first += EVAL_BATCH) {
        const int64_t end = first + EVAL_BATCH < t->valid ? first + EVAL_BATCH : t->valid;
        clear_examples(t);
        for (int64_t i = first; i < end; i++)
            FV_TRY(add_example(t, part, (uint64_t)i, low, high));
        fv_scope_begin(t->ctx);
        fv_no_grad_begin(t->ctx);
        const fv_status status = add_score(t, model, &s);
        fv_no_grad_end(t->ctx);
        fv_scope_end(t->ctx);
        FV_TRY(status);
    }
    const double n = (double)t->valid, bit = log(2);
    *out = (score){s.nats / n / bit, s.wrong / n, s.optimal / n};
    return FV_OK;
}

static fv_status check_model(const bits_task *t, fv_model *model)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    FV_RETURN_IF(!kind->predict, t->ctx, FV_ERR_ARGUMENT,
                 "model.kind is %s: such a model gives no outputs for the steps of a sequence",
                 kind->name);
    return FV_OK;
}

static fv_status prepare(void *self, fv_model *model) { return check_model(self, model); }

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    bits_task *t = self;
    const bool test = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0;
    const fv_bits_part part = test ? FV_BITS_TEST : FV_BITS_VALID;
    score s;
    FV_TRY(score_lengths(t, model, part, t->shortest, t->longest, &s));
    fv_metric_add(metrics, count, "bits", s.nats, false);
    fv_metric_add(metrics, count, "wrong", s.wrong, false);
    if (s.optimal > 0) fv_metric_add(metrics, count, "optimal", s.optimal, false);
    for (int i = 0; i < t->length_count; i++) {
        char name[32];
        FV_TRY(score_lengths(t, model, part, t->lengths[i], t->lengths[i], &s));
        snprintf(name, sizeof name, "wrong_%lld", (long long)t->lengths[i]);
        fv_metric_add(metrics, count, name, s.wrong, false);
    }
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* "length 5: 3 of 40 bits wrong, 4.21 bits" */
static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    bits_task *t = self;
    for (int i = 0; i < count; i++) {
        score s = {0};
        char line[128];
        clear_examples(t);
        FV_TRY(add_example(t, FV_BITS_VALID, (uint64_t)i, t->shortest, t->longest));
        FV_TRY(add_score(t, model, &s));
        const int64_t bits = t->examples->answers * t->examples->output_width;
        const int n =
            snprintf(line, sizeof line, "length %lld: %.0f of %lld bits wrong, %.2f bits\n",
                     (long long)t->cfg.length, s.wrong, (long long)bits, s.nats / log(2));
        FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    }
    return FV_OK;
}

const fv_task_kind fv_task_bit_sequences = {
    .struct_size = sizeof fv_task_bit_sequences,
    .name = "bit-sequences",
    .summary = "copy, repeat, recall, predict or sort sequences of bits",
    .model = "ntm",
    .keys = bits_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .begin = begin,
    .batch = step_batch,
    .evaluate = evaluate,
    .show = show,
};

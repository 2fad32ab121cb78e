/*
 * Questions about generated stories (data/stories.h), for a reader.
 *
 * Stories are generated when they are needed: the training part is the first data.train_count
 * stories of their numbers, so a run sees each of them once an epoch and no others.
 */
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/kind_reader.h"
#include "models/story_batch.h"
#include "text/codepoints.h"
#include "train/tasks/made.h"
#include "train/tasks/tasks.h"

enum { DEFAULT_BATCH = 32, DEFAULT_TRAIN = 10000, DEFAULT_HELD_OUT = 1000 };

static const fv_key keys[] = {
    {"data.facts", FV_KEY_INT, "1", 1, FV_STORY_FACTS, NULL,
     "stories: sentences that support an answer"},
};

static fv_key_table story_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct stories_task {
    fv_made_task made;
    int facts;
    int64_t words[FV_STORY_VOCABULARY];
    const char *answers[FV_STORY_VOCABULARY];
    fv_story_batch rows; /* of the step, or of a held-out batch */
    char report[160];
} stories_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    stories_task *t = self;
    fv_ctx *ctx = t->made.ctx;
    fv_made_close(&t->made);
    fv_story_batch_free(&t->rows);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_status open_in(stories_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    const fv_made_defaults defaults = {
        .batch = DEFAULT_BATCH, .train = DEFAULT_TRAIN, .held_out = DEFAULT_HELD_OUT, .longest = 1};
    t->facts = (int)fv_recipe_int(cfg->recipe, "data.facts");
    FV_TRY(fv_made_open(&t->made, cfg, &defaults));
    FV_TRY(fv_story_batch_create(t->made.ctx, t->made.batch * t->made.parts.count, &t->rows));
    FV_TRY(fv_made_tokenizer(t->made.ctx, fv_story_word, &spec->source));
    spec->target = spec->source;
    FV_TRY(fv_story_tokens(t->made.ctx, spec->source, t->words));
    for (int i = 0; i < fv_story_answers(); i++)
        t->answers[i] = fv_story_answer(i);
    spec->labels = t->answers;
    spec->label_count = fv_story_answers();
    spec->ability = FV_CAN_ANSWER;
    const bool fits = fv_data_spec_set(spec, "words", FV_STORY_WORDS) &&
                      fv_data_spec_set(spec, "sentences", fv_story_most(t->facts)) &&
                      fv_data_spec_set(spec, "facts", t->facts);
    FV_RETURN_IF(!fits, t->made.ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    stories_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->made.ctx = cfg->ctx;
    return fv_task_opened(open_in(t, cfg, spec), close_task, t, self);
}

static fv_status prepare(void *self, fv_model *model)
{
    const stories_task *t = self;
    return fv_made_check_kind(&t->made, model, "stories", "reader");
}

static const char *report(void *self)
{
    stories_task *t = self;
    snprintf(t->report, sizeof t->report,
             "%lld stories for training, %lld for validation, %lld for the test; %d facts",
             (long long)t->made.count[FV_MADE_TRAIN], (long long)t->made.count[FV_MADE_VALID],
             (long long)t->made.count[FV_MADE_TEST], t->facts);
    return t->report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void add_story(stories_task *t, fv_made_part part, int64_t number)
{
    fv_story story;
    fv_story_make(t->facts, part, (uint64_t)number, &story);
    fv_story_batch_add(&t->rows, t->words, &story);
}

static void add_example(void *self, int64_t number)
{
    stories_task *t = self;
    add_story(t, FV_MADE_TRAIN, number);
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    stories_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    FV_TRY(fv_made_begin(&t->made, &t->rows.count, add_example, plan));
    plan->tokens = 0;
    for (int64_t i = 0; i < t->rows.count; i++)
        plan->tokens += (double)t->rows.row[i].questions;
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    stories_task *t = self;
    const int64_t *first = t->made.parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = fv_story_batch_of(&t->rows, first[0], first[1] - first[0]);
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct tally {
    double asked[2], right[2];               /* questions, follow-ups */
    double stories, exact, hit, chosen, due; /* of summaries */
} tally;

static void count_answers(const stories_task *t, int64_t (*answer)[FV_STORY_QUESTIONS], tally *sum)
{
    for (int64_t i = 0; i < t->rows.count; i++) {
        const fv_story_row *r = &t->rows.row[i];
        for (int64_t k = 0; k < r->questions; k++) {
            sum->asked[r->follow_up[k]]++;
            sum->right[r->follow_up[k]] += answer[i][k] == r->answer[k];
        }
    }
}

static fv_status count_summaries(stories_task *t, fv_model *model, tally *sum)
{
    fv_ctx *ctx = t->made.ctx;
    fv_tensor *logits = NULL;
    const fv_batch batch = fv_story_batch_of(&t->rows, 0, t->rows.count);
    fv_reader_run(ctx, fv_model_self(model), &batch, NULL, &logits);
    if (!logits) return FV_OK;
    const int64_t most = fv_tensor_size(logits, 1);
    const size_t bytes = (size_t)(t->rows.count * most) * sizeof(float);
    float *values = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!values, ctx, FV_ERR_MEMORY, "no memory for summaries");
    const fv_status status = fv_tensor_read(ctx, logits, values, bytes);
    for (int64_t i = 0; status == FV_OK && i < t->rows.count; i++) {
        const fv_story_row *r = &t->rows.row[i];
        bool exact = true;
        for (int64_t k = 0; k < r->sentences; k++) {
            const bool chosen = values[i * most + k] > 0, due = r->summary[k] != 0;
            exact = exact && chosen == due;
            sum->hit += chosen && due;
            sum->chosen += chosen;
            sum->due += due;
        }
        sum->exact += exact;
        sum->stories++;
    }
    fv_mem_free(&ctx->mem, values, bytes);
    return status;
}

static fv_status evaluate_batch(stories_task *t, fv_model *model, tally *sum)
{
    const size_t bytes = (size_t)t->rows.count * FV_STORY_QUESTIONS * sizeof(int64_t);
    int64_t(*answer)[FV_STORY_QUESTIONS] = fv_mem_alloc(&t->made.ctx->mem, bytes);
    FV_RETURN_IF(!answer, t->made.ctx, FV_ERR_MEMORY, "no memory for answers");
    fv_status status = fv_story_batch_answer(&t->rows, model, answer, NULL);
    if (status == FV_OK) count_answers(t, answer, sum);
    fv_mem_free(&t->made.ctx->mem, answer, bytes);
    FV_TRY(status);
    fv_scope_begin(t->made.ctx);
    fv_no_grad_begin(t->made.ctx);
    status = count_summaries(t, model, sum);
    fv_no_grad_end(t->made.ctx);
    fv_scope_end(t->made.ctx);
    return status;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    stories_task *t = self;
    const fv_made_part part = fv_made_held_out(t->made.recipe);
    tally sum = {.stories = 0};
    for (int64_t first = 0; first < t->made.count[part]; first += t->made.batch) {
        t->rows.count = 0;
        for (int64_t i = first; i < t->made.count[part] && i < first + t->made.batch; i++)
            add_story(t, part, i);
        FV_TRY(evaluate_batch(t, model, &sum));
    }
    fv_metric_add(metrics, count, "accuracy", sum.right[0] / sum.asked[0], true);
    if (sum.asked[1] > 0)
        fv_metric_add(metrics, count, "follow_up", sum.right[1] / sum.asked[1], true);
    if (sum.stories > 0) {
        fv_metric_add(metrics, count, "summary_f1", 2 * sum.hit / (sum.chosen + sum.due), true);
        fv_metric_add(metrics, count, "summary_exact", sum.exact / sum.stories, true);
    }
    return FV_OK;
}

/* "where is mary ?  kitchen" for each question, or with what was right. */
static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    stories_task *t = self;
    int64_t answer[16][FV_STORY_QUESTIONS];
    const fv_made_part part = fv_made_held_out(t->made.recipe);
    t->rows.count = 0;
    for (int i = 0; i < count && i < 16 && i < t->rows.room && i < t->made.count[part]; i++)
        add_story(t, part, i);
    if (t->rows.count == 0) return FV_OK;
    FV_TRY(fv_story_batch_answer(&t->rows, model, answer, NULL));
    for (int64_t i = 0; i < t->rows.count; i++) {
        fv_story story;
        fv_story_make(t->facts, part, (uint64_t)i, &story);
        for (int k = 0; k < story.question_count; k++) {
            char line[FV_STORY_TEXT + 120], text[FV_STORY_TEXT];
            const fv_story_question *q = &story.question[k];
            fv_story_text(&q->words, text);
            const bool right = answer[i][k] == q->answer;
            const int n =
                snprintf(line, sizeof line, "story %-4lld %s  %s%s%s\n", (long long)i, text,
                         fv_story_answer((int)answer[i][k]), right ? "" : ", expected ",
                         right ? "" : fv_story_answer(q->answer));
            FV_TRY(fv_text_append(t->made.ctx, out, line, (size_t)n));
        }
    }
    return FV_OK;
}

const fv_task_kind fv_task_stories = {
    .struct_size = sizeof fv_task_stories,
    .name = "stories",
    .summary = "answer questions about generated stories",
    .model = "reader",
    .keys = story_keys,
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

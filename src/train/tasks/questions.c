/* The questions task: data, its tokenizer, steps. */
#include "train/tasks/questions.h"

#include <string.h>

#include "data/draws.h"
#include "fovea/encode.h"
#include "io/file.h"
#include "models/question.h"
#include "text/codepoints.h"
#include "train/tasks/tasks.h"
#include "train/tokenizer.h"

/* A random site that no op uses. */
#define UNKNOWN_SITE 0x756e6b6e6f776eu

static const fv_key keys[] = {
    {"questions.unknown", FV_KEY_REAL, "0.02", 0, 0.9, NULL,
     "share of question words that training replaces by <unk>, for words that are asked later"},
};

static fv_key_table task_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- training questions --------------------------------------------------------------------- */

static fv_status add_example(fv_questions_task *run, const fv_media_example *e, int64_t *last)
{
    fv_ctx *ctx = run->media.ctx;
    char words[FV_QUESTION_BYTES];
    int64_t *label =
        fv_mem_grow(&ctx->mem, run->label, &run->label_room, (size_t)run->count + 1, sizeof *label);
    if (label) run->label = label;
    int64_t *of_picture = fv_mem_grow(&ctx->mem, run->of_picture, &run->picture_room,
                                      (size_t)run->pictures + 2, sizeof *of_picture);
    if (of_picture) run->of_picture = of_picture;
    FV_RETURN_IF(!label || !of_picture, ctx, FV_ERR_MEMORY, "no memory for %lld questions",
                 (long long)run->count);
    FV_TRY(fv_question_clean(ctx, e->question, words));
    FV_TRY(fv_text_append(ctx, &run->texts, words, strlen(words) + 1));
    if (run->count == 0 || e->picture != *last) of_picture[run->pictures++] = run->count;
    *last = e->picture;
    label[run->count++] = e->label;
    of_picture[run->pictures] = run->count;
    return FV_OK;
}

static fv_status read_questions(fv_questions_task *run)
{
    fv_ctx *ctx = run->media.ctx;
    int64_t last = 0;
    for (int64_t i = 0; i < run->media.facts->count[FV_MEDIA_TRAIN]; i++) {
        fv_media_example e;
        FV_RETURN_IF(fv_cancelled(ctx), ctx, FV_ERR_CANCELLED, "interrupted while reading");
        FV_TRY(fv_media_get(run->media.set, FV_MEDIA_TRAIN, i, NULL, &e));
        FV_TRY(add_example(run, &e, &last));
    }
    return FV_OK;
}

/* The order of training is one of pictures: a batch is filled with their questions. */
static fv_status make_order(fv_questions_task *run)
{
    fv_ctx *ctx = run->media.ctx;
    const size_t bytes = (size_t)run->pictures * sizeof(int64_t);
    int64_t *counts = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!counts, ctx, FV_ERR_MEMORY, "no memory for %lld pictures",
                 (long long)run->pictures);
    for (int64_t i = 0; i < run->pictures; i++)
        counts[i] = run->of_picture[i + 1] - run->of_picture[i];
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.tokens = run->media.batch;
    cfg.pool = 1;
    cfg.seed = run->media.seed;
    fv_batches_destroy(&run->media.order);
    const fv_status status = fv_batches_create(ctx, run->pictures, counts, &cfg, &run->media.order);
    fv_mem_free(&ctx->mem, counts, bytes);
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

static fv_status learn_tokenizer(fv_questions_task *run, fv_tokenizer **out)
{
    fv_tokenizer_trainer *trainer = NULL;
    const int kind = fv_recipe_choice(run->media.recipe, "tokens.kind");
    FV_TRY(fv_tokenizer_trainer_from(run->media.ctx, run->media.recipe, kind, NULL, &trainer));
    fv_status status = FV_OK;
    const char *text = run->texts.data, *end = text + run->texts.bytes;
    for (; status == FV_OK && text < end; text += strlen(text) + 1)
        status = fv_tokenizer_trainer_add(trainer, text, strlen(text));
    if (status == FV_OK) status = fv_tokenizer_trainer_finish(trainer, out);
    fv_tokenizer_trainer_destroy(&trainer);
    return status;
}

/* That of the folder if it has one, else that of the model to start from, else learned. */
static fv_status find_tokenizer(fv_questions_task *run, fv_tokenizer **out)
{
    fv_ctx *ctx = run->media.ctx;
    char path[FV_PATH_BYTES];
    const char *first = fv_recipe_text(run->media.recipe, "train.init_from");
    FV_TRY(fv_path_join(ctx, path, run->folder, "tokenizer.json"));
    if (fv_file_exists(ctx, path)) return fv_tokenizer_load(ctx, path, out);
    return *first ? fv_tokenizer_load(ctx, first, out) : learn_tokenizer(run, out);
}

static fv_status add_tokens(fv_questions_task *run, const fv_question_words *words, int64_t i)
{
    fv_mem *mem = &run->media.ctx->mem;
    const size_t used = (size_t)run->first[i];
    int64_t *token =
        fv_mem_grow(mem, run->token, &run->token_room, used + (size_t)words->count, sizeof *token);
    FV_RETURN_IF(!token, run->media.ctx, FV_ERR_MEMORY, "no memory for questions");
    run->token = token;
    memcpy(token + used, words->id, (size_t)words->count * sizeof *token);
    run->first[i + 1] = run->first[i] + words->count;
    return FV_OK;
}

static fv_status prepare(void *self, fv_model *model)
{
    fv_questions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    const char *text = run->texts.data;
    run->first = fv_mem_grow(&ctx->mem, run->first, &run->first_room, (size_t)run->count + 1,
                             sizeof *run->first);
    FV_RETURN_IF(!run->first, ctx, FV_ERR_MEMORY, "no memory for questions");
    run->first[0] = 0;
    for (int64_t i = 0; i < run->count; i++, text += strlen(text) + 1) {
        fv_question_words words;
        FV_TRY(fv_question_read(model, text, &words));
        FV_TRY(add_tokens(run, &words, i));
    }
    run->unknown = fv_tokenizer_token_to_id(fv_model_spec(model)->source, "<unk>", 5);
    fv_text_free(ctx, &run->texts);
    return FV_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Adds question i with some of its words replaced, by the row that it gets. */
static fv_status add_question(fv_questions_task *run, int64_t i, uint64_t step)
{
    fv_question_rows *rows = &run->rows;
    const int64_t count = run->first[i + 1] - run->first[i];
    fv_draws d =
        fv_draws_begin(fv_rng_key(run->media.seed, step, UNKNOWN_SITE), (uint64_t)rows->count);
    FV_TRY(fv_question_rows_add(rows, run->media.rows.count - 1, run->label[i], 0, count,
                                run->token + run->first[i]));
    for (int64_t k = 0; k < count && run->unknown >= 0; k++)
        if (fv_draws_unit(&d) < run->unknown_share)
            rows->token[rows->used - count + k] = run->unknown;
    return FV_OK;
}

static fv_status add_picture(fv_questions_task *run, int64_t picture, uint64_t step)
{
    fv_media_task *t = &run->media;
    fv_media_example e;
    const fv_media_draw draw = {.seed = t->seed, .step = step, .row = (uint64_t)t->rows.count};
    const int64_t first = run->of_picture[picture];
    FV_TRY(fv_media_get(t->set, FV_MEDIA_TRAIN, first, &draw, &e));
    FV_TRY(fv_media_rows_add(&t->rows, &e, first));
    for (int64_t i = first; i < run->of_picture[picture + 1]; i++)
        FV_TRY(add_question(run, i, step));
    return FV_OK;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    fv_questions_task *run = self;
    fv_media_task *t = &run->media;
    (void)model;
    (void)phase;
    fv_media_rows_clear(&t->rows);
    fv_question_rows_clear(&run->rows);
    for (int64_t part = 0; part < t->parts.count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(t->order, &picked));
        for (int64_t i = 0; i < picked.count; i++)
            FV_TRY(add_picture(run, picked.example[i], step));
        t->parts.first[part + 1] = run->rows.count;
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    fv_media_rows_point(&t->rows);
    fv_question_rows_point(&run->rows, &t->rows);
    plan->parts = t->parts.count;
    plan->first_row = t->parts.first;
    plan->tokens = (double)run->rows.count;
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    const fv_questions_task *run = self;
    const int64_t *first = run->media.parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = fv_question_rows_batch(&run->rows, &run->media.rows, first[0], first[1] - first[0]);
    return FV_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    fv_questions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    fv_mem *mem = &ctx->mem;
    fv_text_free(ctx, &run->texts);
    if (run->token) fv_mem_free(mem, run->token, run->token_room * sizeof *run->token);
    if (run->first) fv_mem_free(mem, run->first, run->first_room * sizeof *run->first);
    if (run->label) fv_mem_free(mem, run->label, run->label_room * sizeof *run->label);
    if (run->of_picture)
        fv_mem_free(mem, run->of_picture, run->picture_room * sizeof *run->of_picture);
    fv_question_rows_free(&run->rows);
    fv_media_task_free(&run->media);
    fv_mem_free(mem, run, sizeof *run);
}

static fv_status find_data(fv_questions_task *run, const fv_task_config *cfg, fv_data_spec *spec)
{
    FV_TRY(fv_media_task_open(&run->media, cfg, spec));
    FV_RETURN_IF(!run->media.facts->has_questions, cfg->ctx, FV_ERR_ARGUMENT,
                 "data.media: %s has no questions", fv_recipe_text(cfg->recipe, "data.media"));
    run->rows.ctx = cfg->ctx;
    run->unknown_share = fv_recipe_real(cfg->recipe, "questions.unknown");
    FV_TRY(read_questions(run));
    FV_TRY(make_order(run));
    const fv_status status = find_tokenizer(run, &spec->source);
    spec->target = spec->source;
    return status;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    fv_questions_task *run = fv_mem_zalloc(&cfg->ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->media.ctx = cfg->ctx;
    run->folder = cfg->folder;
    spec->ability = FV_CAN_ANSWER;
    return fv_task_opened(find_data(run, cfg, spec), close_task, run, self);
}

const fv_task_kind fv_task_questions = {
    .struct_size = sizeof fv_task_questions,
    .name = "questions",
    .summary = "answer questions about pictures",
    .model = "vqa",
    .keys = task_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = fv_media_task_report,
    .begin = begin,
    .batch = batch,
    .evaluate = fv_questions_evaluate,
    .show = fv_questions_show,
    .get_position = fv_media_task_get_position,
    .set_position = fv_media_task_set_position,
};

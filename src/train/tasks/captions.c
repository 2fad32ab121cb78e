/* The captions task: data, its tokenizer, steps. */
#include "train/tasks/captions.h"

#include <string.h>

#include "io/file.h"
#include "models/model.h"
#include "text/codepoints.h"
#include "train/tasks/tasks.h"
#include "train/tokenizer.h"

static fv_key_table no_keys(void) { return (fv_key_table){NULL, 0}; }

/* ---- texts and their tokenizer -------------------------------------------------------------- */

static fv_status read_texts(fv_captions_task *run)
{
    fv_ctx *ctx = run->media.ctx;
    for (int64_t i = 0; i < run->media.facts->count[FV_MEDIA_TRAIN]; i++) {
        fv_media_example e;
        FV_RETURN_IF(fv_cancelled(ctx), ctx, FV_ERR_CANCELLED, "interrupted while reading");
        FV_TRY(fv_media_text(run->media.set, FV_MEDIA_TRAIN, i, &e));
        FV_TRY(fv_text_append(ctx, &run->texts, e.text, strlen(e.text) + 1));
    }
    return FV_OK;
}

static fv_status learn_tokenizer(fv_captions_task *run, fv_tokenizer **out)
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
static fv_status find_tokenizer(fv_captions_task *run, fv_tokenizer **out)
{
    fv_ctx *ctx = run->media.ctx;
    char path[FV_PATH_BYTES];
    const char *first = fv_recipe_text(run->media.recipe, "train.init_from");
    FV_TRY(fv_path_join(ctx, path, run->folder, "tokenizer.json"));
    if (fv_file_exists(ctx, path)) return fv_tokenizer_load(ctx, path, out);
    return *first ? fv_tokenizer_load(ctx, first, out) : learn_tokenizer(run, out);
}

fv_status fv_captions_encode(fv_captions_task *run, const char *text, fv_caption_tokens *to)
{
    fv_ctx *ctx = run->media.ctx;
    fv_encoding e = {.struct_size = sizeof e};
    FV_TRY(fv_tokenizer_encode(run->encoder, text, strlen(text), 0, &e));
    const size_t used = to->count ? (size_t)to->first[to->count] : 0;
    int64_t *first =
        fv_mem_grow(&ctx->mem, to->first, &to->first_room, (size_t)to->count + 2, sizeof *first);
    if (first) to->first = first;
    int64_t *token =
        fv_mem_grow(&ctx->mem, to->token, &to->token_room, used + e.count + 1, sizeof *token);
    if (token) to->token = token;
    FV_RETURN_IF(!first || !token, ctx, FV_ERR_MEMORY, "no memory for texts");
    if (e.count > 0) memcpy(token + used, e.ids, e.count * sizeof *token);
    first[0] = 0;
    first[++to->count] = (int64_t)(used + e.count);
    if ((int64_t)e.count > to->longest) to->longest = (int64_t)e.count;
    return FV_OK;
}

static fv_status prepare(void *self, fv_model *model)
{
    fv_captions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    FV_TRY(fv_tokenizer_encoder_create(ctx, fv_model_spec(model)->target, &run->encoder));
    const char *text = run->texts.data, *end = text + run->texts.bytes;
    for (; text < end; text += strlen(text) + 1)
        FV_TRY(fv_captions_encode(run, text, &run->train));
    fv_text_free(ctx, &run->texts);
    return FV_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

fv_status fv_captions_batch_of(fv_captions_task *run, const fv_caption_tokens *tokens,
                               const int64_t *which, int64_t first, int64_t count, fv_batch *out)
{
    fv_mem *mem = &run->media.ctx->mem;
    const void **row =
        fv_mem_grow(mem, run->target_row, &run->row_room, (size_t)count + 1, sizeof *row);
    if (row) run->target_row = row;
    int64_t *length =
        fv_mem_grow(mem, run->target_count, &run->count_room, (size_t)count + 1, sizeof *length);
    if (length) run->target_count = length;
    FV_RETURN_IF(!row || !length, run->media.ctx, FV_ERR_MEMORY, "no memory for a batch");
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = tokens->first[which[i]];
        row[i] = tokens->token + at;
        length[i] = tokens->first[which[i] + 1] - at;
    }
    *out = fv_media_rows_batch(&run->media.rows, first, count);
    fv_batch_add(out, (fv_field){.name = "target", .dtype = FV_I64, .row = row, .length = length});
    return FV_OK;
}

/* The loss is divided by the tokens of the step's texts and one end each. */
static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    fv_captions_task *run = self;
    FV_TRY(fv_media_task_begin(self, model, step, phase, plan));
    const fv_media_rows *rows = &run->media.rows;
    for (int64_t i = 0; i < rows->count; i++)
        plan->tokens +=
            (double)(run->train.first[rows->number[i] + 1] - run->train.first[rows->number[i]]);
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    fv_captions_task *run = self;
    (void)model;
    (void)step;
    (void)phase;
    const int64_t *first = run->media.parts.first + part;
    return fv_captions_batch_of(run, &run->train, run->media.rows.number + first[0], first[0],
                                first[1] - first[0], out);
}

/* ---- making --------------------------------------------------------------------------------- */

static void free_tokens(fv_mem *mem, fv_caption_tokens *t)
{
    if (t->token) fv_mem_free(mem, t->token, t->token_room * sizeof *t->token);
    if (t->first) fv_mem_free(mem, t->first, t->first_room * sizeof *t->first);
}

static void close_task(void *self)
{
    fv_captions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    fv_mem *mem = &ctx->mem;
    fv_tokenizer_encoder_destroy(&run->encoder);
    fv_text_free(ctx, &run->texts);
    free_tokens(mem, &run->train);
    free_tokens(mem, &run->held_out);
    if (run->target_row) fv_mem_free(mem, run->target_row, run->row_room * sizeof *run->target_row);
    if (run->target_count)
        fv_mem_free(mem, run->target_count, run->count_room * sizeof *run->target_count);
    fv_media_task_free(&run->media);
    fv_mem_free(mem, run, sizeof *run);
}

static fv_status find_data(fv_captions_task *run, const fv_task_config *cfg, fv_data_spec *spec)
{
    FV_TRY(fv_media_task_open(&run->media, cfg, spec));
    FV_RETURN_IF(!run->media.facts->has_text, cfg->ctx, FV_ERR_ARGUMENT,
                 "data.media: %s has no texts to predict",
                 fv_recipe_text(cfg->recipe, "data.media"));
    spec->labels = NULL;
    spec->label_count = 0;
    FV_TRY(read_texts(run));
    const fv_status status = find_tokenizer(run, &spec->target);
    spec->source = spec->target;
    return status;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    fv_captions_task *run = fv_mem_zalloc(&cfg->ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->folder = cfg->folder;
    spec->ability = FV_CAN_DESCRIBE;
    return fv_task_opened(find_data(run, cfg, spec), close_task, run, self);
}

const fv_task_kind fv_task_captions = {
    .struct_size = sizeof fv_task_captions,
    .name = "captions",
    .summary = "write the texts of pictures or recordings",
    .model = "recurrent",
    .keys = no_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = fv_media_task_report,
    .begin = begin,
    .batch = batch,
    .evaluate = fv_captions_evaluate,
    .show = fv_captions_show,
    .get_position = fv_media_task_get_position,
    .set_position = fv_media_task_set_position,
};

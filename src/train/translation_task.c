/* A translation run as the training loop sees it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fovea/score.h"
#include "fovea/tensor.h"
#include "train/translation.h"

/* ---- steps -------------------------------------------------------------------------- */

/* The examples of a part lie one after the other, since a batch lives only until the next. */
static fv_status keep_batch(fv_translation_run *run, int64_t part, const fv_batch *batch)
{
    const int64_t first = run->parts.first[part];
    int64_t *room = fv_mem_grow(&run->ctx->mem, run->example, &run->example_room,
                                (size_t)(first + batch->count), sizeof *room);
    FV_RETURN_IF(!room, run->ctx, FV_ERR_MEMORY, "no memory for a batch");
    run->example = room;
    memcpy(room + first, batch->example, (size_t)batch->count * sizeof *room);
    run->parts.first[part + 1] = first + batch->count;
    return FV_OK;
}

static fv_status begin(void *user, uint64_t step, int64_t *parts, double *tokens, double *epoch)
{
    (void)step;
    fv_translation_run *run = user;
    *parts = run->parts.count;
    *tokens = 0;
    for (int64_t part = 0; part < run->parts.count; part++) {
        fv_batch batch;
        FV_FORWARD(fv_batches_next(run->order[FV_PART_TRAIN], &batch));
        FV_FORWARD(keep_batch(run, part, &batch));
        for (int64_t i = 0; i < batch.count; i++) {
            fv_token_pairs one;
            FV_FORWARD(fv_parallel_pick(run->pairs[FV_PART_TRAIN], 1, &batch.example[i], &one));
            *tokens += (double)fv_token_pairs_tokens(&one);
        }
        *epoch = (double)batch.epoch + (double)(batch.index + 1) / (double)batch.batches;
    }
    return FV_OK;
}

static fv_tensor *loss(void *user, fv_ctx *ctx, int64_t part)
{
    fv_translation_run *run = user;
    const int64_t first = run->parts.first[part], count = run->parts.first[part + 1] - first;
    fv_token_pairs batch;
    const fv_teaching teaching = {.sampling = fv_recipe_real(run->recipe, "train.sampling"),
                                  .checkpoint = run->train.recompute};
    const fv_status status =
        fv_parallel_pick(run->pairs[FV_PART_TRAIN], count, run->example + first, &batch);
    if (status != FV_OK) {
        fv_poison_last(ctx, status);
        return ctx->invalid;
    }
    const fv_pair_model *model = fv_translator_model(run->translator);
    return model->loss(ctx, model->self, &batch, &teaching);
}

/* A place has two numbers of the order of batches, then the model's. */
enum { MODEL_NUMBERS = 2 };
_Static_assert(MODEL_NUMBERS + FV_PAIR_NUMBERS <= FV_POSITION, "a state holds them all");

static void get_position(void *user, int64_t position[FV_POSITION])
{
    const fv_translation_run *run = user;
    fv_batches_place(run->order[FV_PART_TRAIN], &position[0], &position[1]);
    const fv_pair_model *model = fv_translator_model(run->translator);
    if (model->get_numbers) model->get_numbers(model->self, position + MODEL_NUMBERS);
}

static fv_status set_position(void *user, const int64_t position[FV_POSITION])
{
    const fv_translation_run *run = user;
    const fv_pair_model *model = fv_translator_model(run->translator);
    if (model->set_numbers) FV_FORWARD(model->set_numbers(model->self, position + MODEL_NUMBERS));
    return fv_batches_seek(run->order[FV_PART_TRAIN], position[0], position[1]);
}

/* ---- evaluation ---------------------------------------------------------------------- */

/* Mean loss of a validation token. */
static fv_status validation_loss(fv_translation_run *run, double *out)
{
    fv_ctx *ctx = run->ctx;
    fv_batches *order = run->order[FV_PART_VALID];
    const fv_pair_model *model = fv_translator_model(run->translator);
    double sum = 0, tokens = 0;
    FV_FORWARD(fv_batches_seek(order, 0, 0));
    for (int64_t i = 0, batches = 1; i < batches; i++) {
        fv_batch batch;
        fv_token_pairs pairs;
        double value = 0;
        FV_FORWARD(fv_batches_next(order, &batch));
        batches = batch.batches;
        FV_FORWARD(fv_parallel_pick(run->pairs[FV_PART_VALID], batch.count, batch.example, &pairs));
        fv_scope_begin(ctx);
        fv_tensor *part = model->loss(ctx, model->self, &pairs, NULL);
        const fv_status status = fv_tensor_item(ctx, part, &value);
        fv_scope_end(ctx);
        FV_FORWARD(status);
        sum += value;
        tokens += (double)fv_token_pairs_tokens(&pairs);
    }
    *out = sum / tokens;
    return FV_OK;
}

typedef struct quality {
    double bleu, exact; /* in percent */
} quality;

static fv_status compare(fv_translation_run *run, const fv_translations *all, int64_t count,
                         fv_scorer *scorer, quality *out)
{
    int64_t exact = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string found = {text, strlen(text)};
        const fv_string wanted = fv_parallel_target(run->pairs[FV_PART_VALID], i);
        exact += found.bytes == wanted.bytes && memcmp(text, wanted.text, wanted.bytes) == 0;
        FV_FORWARD(fv_scorer_add(scorer, found, &wanted, 1));
    }
    fv_score_result result = {.struct_size = sizeof result};
    FV_FORWARD(fv_scorer_finish(scorer, &result));
    *out = (quality){.bleu = result.score, .exact = 100.0 * (double)exact / (double)count};
    return FV_OK;
}

static fv_status translate_validation(fv_translation_run *run, int64_t count, fv_translations **out)
{
    fv_ctx *ctx = run->ctx;
    const size_t bytes = (size_t)count * sizeof(fv_string);
    fv_string *sources = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!sources, ctx, FV_ERR_MEMORY, "no memory for a validation");
    for (int64_t i = 0; i < count; i++)
        sources[i] = fv_parallel_source(run->pairs[FV_PART_VALID], i);
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.decode.beam = (int)fv_recipe_int(run->recipe, "eval.beam");
    how.decode.no_scores = true; /* texts are compared, nothing else */
    const fv_status status = fv_translate(run->translator, count, sources, &how, out);
    fv_mem_free(&ctx->mem, sources, bytes);
    return status;
}

static fv_status decoded_quality(fv_translation_run *run, quality *out)
{
    const int64_t most = fv_recipe_int(run->recipe, "eval.most"),
                  have = fv_parallel_count(run->pairs[FV_PART_VALID]);
    const int64_t count = most > 0 && most < have ? most : have;
    fv_translations *all = NULL;
    fv_scorer *scorer = NULL;
    fv_score_config cfg;
    fv_score_config_init(&cfg, sizeof cfg, FV_SCORE_BLEU);
    cfg.lowercase = fv_recipe_bool(run->recipe, "eval.lowercase");
    FV_FORWARD(translate_validation(run, count, &all));
    fv_status status = fv_scorer_create(run->ctx, &cfg, &scorer);
    if (status == FV_OK) status = compare(run, all, count, scorer, out);
    fv_scorer_destroy(&scorer);
    fv_translations_free(&all);
    return status;
}

static void put(fv_metric *metric, const char *name, double value)
{
    snprintf(metric->name, sizeof metric->name, "%s", name);
    metric->value = value;
}

/* The deciding metric comes first. */
static fv_status evaluate(void *user, fv_metric *metrics, int *count)
{
    fv_translation_run *run = user;
    static const char *const names[] = {"loss", "bleu", "exact"};
    double values[3] = {0};
    quality q = {0, 0};
    FV_FORWARD(validation_loss(run, &values[0]));
    FV_FORWARD(decoded_quality(run, &q));
    values[1] = q.bleu;
    values[2] = q.exact;
    const int first = fv_recipe_choice(run->recipe, "eval.metric");
    put(&metrics[0], names[first], values[first]);
    *count = 1;
    for (int i = 0; i < 3; i++)
        if (i != first) put(&metrics[(*count)++], names[i], values[i]);
    return FV_OK;
}

fv_task fv_translation_task(fv_translation_run *run)
{
    return (fv_task){.user = run,
                     .begin = begin,
                     .loss = loss,
                     .evaluate = run->pairs[FV_PART_VALID] ? evaluate : NULL,
                     .get_position = get_position,
                     .set_position = set_position};
}

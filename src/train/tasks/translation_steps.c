/* Batches and metrics of the translation task. */
#include <string.h>

#include "fovea/tensor.h"
#include "fovea/text_metric.h"
#include "text/codepoints.h"
#include "train/tasks/translation.h"

/* ---- steps -------------------------------------------------------------------------- */

/* Copies a batch's examples, since a batch lives only until the next one. */
static fv_status keep_batch(fv_translation_task *run, int64_t part, const fv_picked *batch)
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

fv_status fv_translation_begin(void *self, fv_model *model, uint64_t step, int phase,
                               fv_step_plan *plan)
{
    fv_translation_task *run = self;
    (void)model;
    (void)step;
    (void)phase;
    plan->parts = run->parts.count;
    plan->first_row = run->parts.first;
    plan->tokens = 0;
    for (int64_t part = 0; part < run->parts.count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(run->order[FV_PART_TRAIN], &picked));
        FV_TRY(keep_batch(run, part, &picked));
        for (int64_t i = 0; i < picked.count; i++) {
            fv_batch one;
            FV_TRY(fv_parallel_pick(run->pairs[FV_PART_TRAIN], 1, &picked.example[i], &one));
            plan->tokens += (double)fv_batch_target_tokens(&one);
        }
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    return FV_OK;
}

fv_status fv_translation_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                               fv_batch *out)
{
    (void)step;
    fv_translation_task *run = self;
    (void)model;
    (void)phase;
    const int64_t first = run->parts.first[part], count = run->parts.first[part + 1] - first;
    return fv_parallel_pick(run->pairs[FV_PART_TRAIN], count, run->example + first, out);
}

void fv_translation_get_position(void *self, int64_t position[FV_TASK_POSITION])
{
    const fv_translation_task *run = self;
    fv_batches_place(run->order[FV_PART_TRAIN], &position[0], &position[1]);
}

fv_status fv_translation_set_position(void *self, const int64_t position[FV_TASK_POSITION])
{
    const fv_translation_task *run = self;
    return fv_batches_seek(run->order[FV_PART_TRAIN], position[0], position[1]);
}

/* ---- evaluation ---------------------------------------------------------------------- */

/* Mean loss of a validation token. */
static fv_status validation_loss(fv_translation_task *run, fv_model *model, double *out)
{
    fv_ctx *ctx = run->ctx;
    fv_batches *order = run->order[FV_PART_VALID];
    const fv_model_kind *kind = fv_model_kind_of(model);
    double sum = 0, tokens = 0;
    FV_TRY(fv_batches_seek(order, 0, 0));
    for (int64_t i = 0, batches = 1; i < batches; i++) {
        fv_picked picked;
        fv_batch batch;
        double value = 0;
        FV_TRY(fv_batches_next(order, &picked));
        batches = picked.batches;
        FV_TRY(fv_parallel_pick(run->pairs[FV_PART_VALID], picked.count, picked.example, &batch));
        fv_scope_begin(ctx);
        fv_tensor *part = kind->loss(ctx, fv_model_self(model), &batch, NULL);
        const fv_status status = fv_tensor_item(ctx, part, &value);
        fv_scope_end(ctx);
        FV_TRY(status);
        sum += value;
        tokens += (double)fv_batch_target_tokens(&batch);
    }
    *out = sum / tokens;
    return FV_OK;
}

typedef struct quality {
    double bleu, exact; /* in percent */
} quality;

static fv_status compare(fv_translation_task *run, const fv_translations *all, int64_t count,
                         fv_text_metric *scorer, quality *out)
{
    int64_t exact = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string found = {text, strlen(text)};
        const fv_string reference = fv_parallel_target(run->pairs[FV_PART_VALID], i);
        exact +=
            found.bytes == reference.bytes && memcmp(text, reference.text, reference.bytes) == 0;
        FV_TRY(fv_text_metric_add(scorer, found, &reference, 1));
    }
    fv_text_metric_result result = {.struct_size = sizeof result};
    FV_TRY(fv_text_metric_compute(scorer, &result));
    *out = (quality){.bleu = result.score, .exact = 100.0 * (double)exact / (double)count};
    return FV_OK;
}

static fv_status translate_validation(fv_translation_task *run, fv_model *model, int64_t count,
                                      fv_translations **out)
{
    fv_ctx *ctx = run->ctx;
    const size_t bytes = (size_t)count * sizeof(fv_string);
    fv_string *sources = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!sources, ctx, FV_ERR_MEMORY, "no memory for a validation");
    for (int64_t i = 0; i < count; i++)
        sources[i] = fv_parallel_source(run->pairs[FV_PART_VALID], i);
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.beam = (int)fv_recipe_int(run->recipe, "eval.beam");
    how.search.no_scores = true; /* texts are compared, nothing else */
    if (fv_recipe_int(run->recipe, "eval.max_tokens") > 0) {
        how.length_ratio = 0;
        how.length_extra = fv_recipe_int(run->recipe, "eval.max_tokens");
    }
    const fv_status status = fv_translate(model, count, sources, &how, out);
    fv_mem_free(&ctx->mem, sources, bytes);
    return status;
}

static fv_status decoded_quality(fv_translation_task *run, fv_model *model, quality *out)
{
    const int64_t most = fv_recipe_int(run->recipe, "eval.max_texts"),
                  have = fv_parallel_count(run->pairs[FV_PART_VALID]);
    const int64_t count = most > 0 && most < have ? most : have;
    fv_translations *all = NULL;
    fv_text_metric *scorer = NULL;
    fv_text_metric_config cfg;
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
    cfg.lowercase = fv_recipe_bool(run->recipe, "eval.lowercase");
    FV_TRY(translate_validation(run, model, count, &all));
    fv_status status = fv_text_metric_create(run->ctx, &cfg, &scorer);
    if (status == FV_OK) status = compare(run, all, count, scorer, out);
    fv_text_metric_destroy(&scorer);
    fv_translations_free(&all);
    return status;
}

/* The deciding metric comes first. */
fv_status fv_translation_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_translation_task *run = self;
    static const char *const names[] = {
        [FV_METRIC_LOSS] = "loss", [FV_METRIC_BLEU] = "bleu", [FV_METRIC_EXACT] = "exact"};
    double values[3] = {0};
    quality q = {0, 0};
    if (!run->pairs[FV_PART_VALID]) return FV_OK;
    FV_TRY(validation_loss(run, model, &values[FV_METRIC_LOSS]));
    FV_TRY(decoded_quality(run, model, &q));
    values[FV_METRIC_BLEU] = q.bleu;
    values[FV_METRIC_EXACT] = q.exact;
    const int first = fv_recipe_choice(run->recipe, "eval.metric");
    fv_metric_add(metrics, count, names[first], values[first], first != FV_METRIC_LOSS);
    for (int i = 0; i < 3; i++)
        if (i != first) fv_metric_add(metrics, count, names[i], values[i], i != FV_METRIC_LOSS);
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_status append(fv_ctx *ctx, fv_text *out, const char *text)
{
    return fv_text_append(ctx, out, text, strlen(text));
}

/* Source, reference and the model's translation of the first validation pairs, a line each. */
fv_status fv_translation_show(void *self, fv_model *model, int count, fv_text *out)
{
    fv_translation_task *run = self;
    fv_ctx *ctx = run->ctx;
    const fv_parallel *pairs = run->pairs[FV_PART_VALID];
    if (!pairs) return FV_OK;
    const int64_t have = fv_parallel_count(pairs), n = count < have ? count : have;
    fv_translations *all = NULL;
    FV_TRY(translate_validation(run, model, n, &all));
    fv_status status = FV_OK;
    for (int64_t i = 0; i < n && status == FV_OK; i++) {
        const char *line[] = {"source      ",
                              fv_parallel_source(pairs, i).text,
                              "\nreference   ",
                              fv_parallel_target(pairs, i).text,
                              "\nhypothesis  ",
                              fv_translations_get(all, i, 0)->text,
                              "\n"};
        for (size_t k = 0; k < sizeof line / sizeof *line && status == FV_OK; k++)
            status = append(ctx, out, line[k]);
    }
    fv_translations_free(&all);
    return status;
}

/* Batches and metrics of the tasks over plain text. */
#include "base/rng.h"
#include "fovea/autograd.h"
#include "train/tasks/text.h"

/* A random site that no op uses. */
#define WINDOW_SITE 0x77696e646f77u

/* ---- examples --------------------------------------------------------------------------- */

fv_status fv_text_add_example(fv_text_task *run, const int64_t *tokens, int64_t length)
{
    fv_mem *mem = &run->ctx->mem;
    const size_t need = (size_t)run->count + 1;
    const int64_t **list = fv_mem_grow(mem, run->tokens, &run->example_room, need, sizeof *list);
    if (list) run->tokens = list;
    int64_t *lengths = fv_mem_grow(mem, run->length, &run->length_room, need, sizeof *lengths);
    if (lengths) run->length = lengths;
    FV_RETURN_IF(!list || !lengths, run->ctx, FV_ERR_MEMORY, "no memory for a batch");
    run->tokens[run->count] = tokens;
    run->length[run->count++] = length;
    return FV_OK;
}

/* An encoder's examples are drawn by step and position in it; for validation by the piece's index,
 * so that every evaluation masks the same tokens. */
static fv_status add_batch(fv_text_task *run, const fv_text_part *p, const fv_picked *batch,
                           uint64_t step, bool by_piece)
{
    const uint64_t key = fv_text_mask_key(run, step);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t number = batch->example[i];
        const fv_text_piece *piece = &p->pieces[number];
        if (run->goal == FV_TEXT_LANGUAGE)
            FV_TRY(fv_text_add_example(run, p->tokens + piece->at, piece->length));
        else
            FV_TRY(
                fv_text_add_made(run, p, number, key, (uint64_t)(by_piece ? number : run->count)));
    }
    return FV_OK;
}

/* Windows at random positions of the stream, by seed, step and index. */
static fv_status draw_windows(fv_text_task *run, uint64_t step, int64_t part)
{
    const fv_text_part *p = &run->part[FV_TEXT_TRAIN];
    const uint64_t seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    const uint64_t key = fv_rng_key(seed, step, WINDOW_SITE),
                   places = (uint64_t)(p->count - run->window);
    for (int64_t i = 0; i < run->examples; i++) {
        uint32_t r[4];
        fv_rng_draw(key, (uint64_t)part, (uint64_t)i, r);
        const uint64_t at = (((uint64_t)r[0] << 32) | r[1]) % places;
        FV_TRY(fv_text_add_example(run, p->tokens + at, run->window + 1));
    }
    return FV_OK;
}

double fv_text_predicted(const fv_text_task *run)
{
    double tokens = 0;
    if (run->goal == FV_TEXT_MASKED) return (double)run->masked;
    if (run->goal == FV_TEXT_CLASSIFY) return (double)run->count;
    for (int64_t i = 0; i < run->count; i++)
        tokens += (double)(run->length[i] - 1);
    return tokens;
}

fv_status fv_text_begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    fv_text_task *run = self;
    fv_text_part *p = &run->part[FV_TEXT_TRAIN];
    (void)model;
    (void)phase;
    run->count = run->masked = 0;
    for (int64_t part = 0; part < run->parts.count; part++) {
        if (run->stream) {
            FV_TRY(draw_windows(run, step, part));
        } else {
            fv_picked picked;
            FV_TRY(fv_batches_next(p->order, &picked));
            FV_TRY(add_batch(run, p, &picked, step, false));
            plan->epoch =
                (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
        }
        run->parts.first[part + 1] = run->count;
    }
    if (run->goal != FV_TEXT_LANGUAGE) fv_text_point(run);
    plan->parts = run->parts.count;
    plan->first_row = run->parts.first;
    plan->tokens = fv_text_predicted(run);
    if (run->stream) plan->epoch = (double)(step + 1) * plan->tokens / (double)p->count;
    return FV_OK;
}

static void add_field(fv_batch *batch, const char *name, const int64_t *const *rows,
                      const int64_t *length, double weight)
{
    fv_batch_add(batch, (fv_field){.name = name,
                                   .dtype = FV_I64,
                                   .row = (const void *const *)rows,
                                   .length = length,
                                   .weight = weight});
}

/* The mean over masked tokens and the mean over text pairs have equal weight. */
fv_batch fv_text_batch(const fv_text_task *run, int64_t first, int64_t count)
{
    const fv_sequences texts = {.count = count,
                                .tokens = run->tokens + first,
                                .length = run->length + first,
                                .types =
                                    run->next_sentence || run->pairs ? run->types + first : NULL};
    fv_batch batch = fv_batch_of_tokens(&texts);
    if (run->goal == FV_TEXT_MASKED)
        add_field(&batch, "masked", run->targets + first, run->length + first, 1);
    if (run->goal == FV_TEXT_CLASSIFY) add_field(&batch, "label", run->label_row + first, NULL, 1);
    if (run->next_sentence)
        add_field(&batch, "next_sentence", run->label_row + first, NULL,
                  (double)run->masked / (double)run->count);
    return batch;
}

fv_status fv_text_step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                             fv_batch *out)
{
    (void)step;
    const fv_text_task *run = self;
    (void)model;
    (void)phase;
    const int64_t first = run->parts.first[part];
    *out = fv_text_batch(run, first, run->parts.first[part + 1] - first);
    return FV_OK;
}

void fv_text_get_position(void *self, int64_t position[FV_TASK_POSITION])
{
    const fv_text_task *run = self;
    if (!run->stream) fv_batches_place(run->part[FV_TEXT_TRAIN].order, &position[0], &position[1]);
}

fv_status fv_text_set_position(void *self, const int64_t position[FV_TASK_POSITION])
{
    const fv_text_task *run = self;
    return run->stream ? FV_OK
                       : fv_batches_seek(run->part[FV_TEXT_TRAIN].order, position[0], position[1]);
}

/* ---- evaluation ------------------------------------------------------------------------- */

/* Batch `number` of the held-out text; *more is false after the last. */
static fv_status held_out(fv_text_task *run, int64_t number, bool *more)
{
    const fv_text_part *p = &run->part[FV_TEXT_VALID];
    run->count = run->masked = 0;
    if (!run->stream) {
        fv_picked batch;
        FV_TRY(fv_batches_next(p->order, &batch));
        *more = batch.index + 1 < batch.batches;
        FV_TRY(add_batch(run, p, &batch, UINT64_MAX, true));
        if (run->goal != FV_TEXT_LANGUAGE) fv_text_point(run);
        return FV_OK;
    }
    const int64_t most = fv_recipe_int(run->recipe, "eval.max_texts");
    int64_t windows = (p->count - 1) / run->window;
    if (most > 0 && most < windows) windows = most;
    const int64_t first = number * run->examples;
    for (int64_t i = first; i < first + run->examples && i < windows; i++)
        FV_TRY(fv_text_add_example(run, p->tokens + i * run->window, run->window + 1));
    *more = first + run->examples < windows;
    return FV_OK;
}

fv_status fv_text_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_text_task *run = self;
    fv_ctx *ctx = run->ctx;
    double sum = 0, tokens = 0;
    bool more = true;
    if (!run->stream) FV_TRY(fv_batches_seek(run->part[FV_TEXT_VALID].order, 0, 0));
    for (int64_t number = 0; more; number++) {
        double value = 0;
        FV_TRY(held_out(run, number, &more));
        const fv_batch batch = fv_text_batch(run, 0, run->count);
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &batch, NULL);
        const fv_status status = fv_tensor_item(ctx, loss, &value);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        FV_TRY(status);
        sum += value;
        tokens += fv_text_predicted(run);
    }
    fv_metric_add(metrics, count, "loss", sum / tokens, false);
    return FV_OK;
}

/* The deciding metric comes first. */
fv_status fv_text_evaluate_encoder(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_text_task *run = self;
    fv_text_score main = {0}, pairs = {0};
    bool more = true;
    FV_TRY(fv_batches_seek(run->part[FV_TEXT_VALID].order, 0, 0));
    while (more) {
        FV_TRY(held_out(run, 0, &more));
        FV_TRY(fv_text_add_scores(run, model, &main, &pairs));
    }
    const double loss = main.loss / main.count, accuracy = main.right / main.count;
    const bool classes = run->goal == FV_TEXT_CLASSIFY;
    if (!classes) fv_metric_add(metrics, count, "loss", loss, false);
    fv_metric_add(metrics, count, "accuracy", accuracy, true);
    if (classes) fv_metric_add(metrics, count, "loss", loss, false);
    if (run->next_sentence)
        fv_metric_add(metrics, count, "next_sentence", pairs.right / pairs.count, true);
    return FV_OK;
}

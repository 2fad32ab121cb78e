/* A run on plain text as the training loop sees it. */
#include <stdio.h>

#include "base/rng.h"
#include "fovea/autograd.h"
#include "train/text.h"

/* Draws of windows are kept apart from those of dropout by a site no op ever has. */
#define WINDOW_SITE 0x77696e646f77u

/* ---- examples --------------------------------------------------------------------------- */

fv_status fv_text_add_example(fv_text_run *run, const int64_t *tokens, int64_t length)
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

/* An encoder's examples are drawn by step and place in it, or, to be the same whenever they are
 * judged, by the number of the piece. */
static fv_status add_batch(fv_text_run *run, const fv_text_part *p, const fv_batch *batch,
                           uint64_t step, bool by_piece)
{
    const uint64_t key = fv_text_mask_key(run, step);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t number = batch->example[i];
        const fv_text_piece *piece = &p->pieces[number];
        if (run->task == FV_TASK_LANGUAGE)
            FV_FORWARD(fv_text_add_example(run, p->tokens + piece->at, piece->length));
        else
            FV_FORWARD(
                fv_text_add_made(run, p, number, key, (uint64_t)(by_piece ? number : run->count)));
    }
    return FV_OK;
}

/* Windows at random places of the stream, by seed, step and number alone. */
static fv_status draw_windows(fv_text_run *run, uint64_t step, int64_t part)
{
    const fv_text_part *p = &run->part[FV_TEXT_TRAIN];
    const uint64_t seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    const uint64_t key = fv_rng_key(seed, step, WINDOW_SITE),
                   places = (uint64_t)(p->count - run->window);
    for (int64_t i = 0; i < run->examples; i++) {
        uint32_t r[4];
        fv_rng_draw(key, (uint64_t)part, (uint64_t)i, r);
        const uint64_t at = (((uint64_t)r[0] << 32) | r[1]) % places;
        FV_FORWARD(fv_text_add_example(run, p->tokens + at, run->window + 1));
    }
    return FV_OK;
}

static double predicted(const fv_text_run *run)
{
    double tokens = 0;
    if (run->task == FV_TASK_MASKED) return (double)run->wishes;
    if (run->task == FV_TASK_CLASSIFY) return (double)run->count;
    for (int64_t i = 0; i < run->count; i++)
        tokens += (double)(run->length[i] - 1);
    return tokens;
}

static fv_status begin(void *user, uint64_t step, int64_t *parts, double *tokens, double *epoch)
{
    fv_text_run *run = user;
    fv_text_part *p = &run->part[FV_TEXT_TRAIN];
    run->count = run->wishes = 0;
    for (int64_t part = 0; part < run->parts.count; part++) {
        if (run->stream) {
            FV_FORWARD(draw_windows(run, step, part));
        } else {
            fv_batch batch;
            FV_FORWARD(fv_batches_next(p->order, &batch));
            FV_FORWARD(add_batch(run, p, &batch, step, false));
            *epoch = (double)batch.epoch + (double)(batch.index + 1) / (double)batch.batches;
        }
        run->parts.first[part + 1] = run->count;
    }
    if (run->task != FV_TASK_LANGUAGE) fv_text_point(run);
    *parts = run->parts.count;
    *tokens = predicted(run);
    if (run->stream) *epoch = (double)(step + 1) * *tokens / (double)p->count;
    return FV_OK;
}

static fv_tensor *loss_of(const fv_text_run *run, fv_ctx *ctx, int64_t first, int64_t count,
                          bool training)
{
    const fv_sequences texts = {
        .count = count, .tokens = run->tokens + first, .length = run->length + first};
    const fv_pass pass = {.training = training, .checkpoint = training && run->train.recompute};
    return fv_transformer_next_loss(ctx, run->model, &texts, &pass);
}

static fv_tensor *loss(void *user, fv_ctx *ctx, int64_t part)
{
    const fv_text_run *run = user;
    const int64_t first = run->parts.first[part];
    if (run->task != FV_TASK_LANGUAGE)
        return fv_text_encoder_loss(run, ctx, first, run->parts.first[part + 1] - first);
    return loss_of(run, ctx, first, run->parts.first[part + 1] - first, true);
}

static void get_position(void *user, int64_t position[FV_POSITION])
{
    const fv_text_run *run = user;
    if (!run->stream) fv_batches_place(run->part[FV_TEXT_TRAIN].order, &position[0], &position[1]);
}

static fv_status set_position(void *user, const int64_t position[FV_POSITION])
{
    const fv_text_run *run = user;
    return run->stream ? FV_OK
                       : fv_batches_seek(run->part[FV_TEXT_TRAIN].order, position[0], position[1]);
}

/* ---- evaluation ------------------------------------------------------------------------- */

/* Batch `number` of the held-out text; *more is false after the last. */
static fv_status held_out(fv_text_run *run, int64_t number, bool *more)
{
    const fv_text_part *p = &run->part[FV_TEXT_VALID];
    run->count = run->wishes = 0;
    if (!run->stream) {
        fv_batch batch;
        FV_FORWARD(fv_batches_next(p->order, &batch));
        *more = batch.index + 1 < batch.batches;
        FV_FORWARD(add_batch(run, p, &batch, UINT64_MAX, true));
        if (run->task != FV_TASK_LANGUAGE) fv_text_point(run);
        return FV_OK;
    }
    const int64_t most = fv_recipe_int(run->recipe, "eval.most");
    int64_t windows = (p->count - 1) / run->window;
    if (most > 0 && most < windows) windows = most;
    const int64_t first = number * run->examples;
    for (int64_t i = first; i < first + run->examples && i < windows; i++)
        FV_FORWARD(fv_text_add_example(run, p->tokens + i * run->window, run->window + 1));
    *more = first + run->examples < windows;
    return FV_OK;
}

static fv_status evaluate(void *user, fv_metric *metrics, int *count)
{
    fv_text_run *run = user;
    fv_ctx *ctx = run->ctx;
    double sum = 0, tokens = 0;
    bool more = true;
    if (!run->stream) FV_FORWARD(fv_batches_seek(run->part[FV_TEXT_VALID].order, 0, 0));
    for (int64_t number = 0; more; number++) {
        double value = 0;
        FV_FORWARD(held_out(run, number, &more));
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_status status =
            fv_tensor_item(ctx, loss_of(run, ctx, 0, run->count, false), &value);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        FV_FORWARD(status);
        sum += value;
        tokens += predicted(run);
    }
    snprintf(metrics->name, sizeof metrics->name, "loss");
    metrics->value = sum / tokens;
    *count = 1;
    return FV_OK;
}

static void set_metric(fv_metric *metrics, int *count, const char *name, double value)
{
    snprintf(metrics[*count].name, sizeof metrics->name, "%s", name);
    metrics[(*count)++].value = value;
}

/* Encoders: the deciding figure first. */
static fv_status evaluate_encoder(void *user, fv_metric *metrics, int *count)
{
    fv_text_run *run = user;
    fv_text_score main = {0}, pairs = {0};
    bool more = true;
    FV_FORWARD(fv_batches_seek(run->part[FV_TEXT_VALID].order, 0, 0));
    while (more) {
        FV_FORWARD(held_out(run, 0, &more));
        FV_FORWARD(fv_text_judge(run, &main, &pairs));
    }
    const double loss = main.loss / main.count, accuracy = main.right / main.count;
    const bool classes = run->task == FV_TASK_CLASSIFY;
    *count = 0;
    set_metric(metrics, count, classes ? "accuracy" : "loss", classes ? accuracy : loss);
    set_metric(metrics, count, classes ? "loss" : "accuracy", classes ? loss : accuracy);
    if (run->next_sentence) set_metric(metrics, count, "next_sentence", pairs.right / pairs.count);
    return FV_OK;
}

fv_task fv_text_task(fv_text_run *run)
{
    return (fv_task){.user = run,
                     .begin = begin,
                     .loss = loss,
                     .evaluate = run->task == FV_TASK_LANGUAGE ? evaluate : evaluate_encoder,
                     .get_position = get_position,
                     .set_position = set_position};
}

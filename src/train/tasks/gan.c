/*
 * Adversarial training: a step has two phases, the discriminator's with pictures of the set, then
 * the generator's. Which loss a phase has follows from the fields of its batch (kind_sagan.c): the
 * discriminator's has "pixels". Noise is drawn by the model with the step of the phase, so it is
 * keyed by (seed, step, phase, row).
 */
#include <math.h>

#include "data/draws.h"
#include "train/tasks/gan.h"
#include "train/tasks/tasks.h"

/* A random site that no op uses. */
#define LABEL_SITE 0x67616e6c6162u

enum { DISCRIMINATOR, GENERATOR, PHASES };

static const fv_key keys[] = {
    {"gan.noise", FV_KEY_INT, "64", 1, 4096, NULL, "numbers that a picture is made of"},
    {"gan.generator_lr", FV_KEY_REAL, "0.0001", 0, 100, NULL,
     "learning rate of the generator, in place of train.lr"},
    {"gan.discriminator_lr", FV_KEY_REAL, "0.0004", 0, 100, NULL,
     "learning rate of the discriminator, in place of train.lr"},
    {"eval.classifier", FV_KEY_PATH, "", 0, 0, NULL,
     "gan: folder of a classifier of the same pictures: its features give the Frechet distance"},
};

static fv_key_table gan_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    fv_gan_task *t = self;
    fv_ctx *ctx = t->media.ctx;
    fv_gan_free_metrics(t);
    if (t->label) fv_mem_free(&ctx->mem, t->label, t->label_room * sizeof *t->label);
    if (t->label_row)
        fv_mem_free(&ctx->mem, t->label_row, t->label_row_room * sizeof *t->label_row);
    fv_media_task_free(&t->media);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_status open_set(fv_gan_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    FV_TRY(fv_media_task_open(&t->media, cfg, spec));
    FV_RETURN_IF(t->media.facts->rank != 3, cfg->ctx, FV_ERR_ARGUMENT,
                 "data.media: %s has no pictures to learn from",
                 fv_recipe_text(cfg->recipe, "data.media"));
    FV_RETURN_IF(!fv_data_spec_set(spec, "noise", fv_recipe_int(cfg->recipe, "gan.noise")),
                 cfg->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return fv_gan_open_classifier(t);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    fv_gan_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    t->media.ctx = cfg->ctx;
    spec->ability = FV_CAN_DRAW;
    return fv_task_opened(open_set(t, cfg, spec), close_task, t, self);
}

/* ---- phases --------------------------------------------------------------------------------- */

static const char *group(void *self, int phase)
{
    (void)self;
    return phase == GENERATOR ? "generator." : "discriminator.";
}

static void optimizer(void *self, int phase, fv_optim_config *optim, fv_schedule *schedule)
{
    const fv_gan_task *t = self;
    const double lr = fv_recipe_real(t->media.recipe, phase == GENERATOR ? "gan.generator_lr"
                                                                         : "gan.discriminator_lr");
    (void)optim;
    /* The last rate keeps its ratio to the first. */
    if (schedule->lr > 0) schedule->floor *= lr / schedule->lr;
    schedule->lr = lr;
}

/* Classes to generate, all equally likely: a function of (seed, step, row), so that a run that
 * resumes between the phases needs nothing of the first one. */
static fv_status draw_labels(fv_gan_task *t, uint64_t step, int64_t rows)
{
    const fv_media_task *media = &t->media;
    const uint64_t key = fv_rng_key(media->seed, step, LABEL_SITE);
    fv_mem *mem = &media->ctx->mem;
    int64_t *label = fv_mem_grow(mem, t->label, &t->label_room, (size_t)rows, sizeof *label);
    if (label) t->label = label;
    const void **row =
        fv_mem_grow(mem, t->label_row, &t->label_row_room, (size_t)rows, sizeof *row);
    if (row) t->label_row = row;
    FV_RETURN_IF(!label || !row, media->ctx, FV_ERR_MEMORY, "no memory for a batch");
    for (int64_t i = 0; i < rows; i++) {
        fv_draws d = fv_draws_begin(key, (uint64_t)i);
        label[i] = fv_draws_below(&d, media->facts->label_count);
        row[i] = &label[i];
    }
    return FV_OK;
}

/* The share of the training part that was read so far. */
static double epoch_of(const fv_media_task *t)
{
    int64_t epoch = 0, index = 0;
    fv_batches_place(t->order, &epoch, &index);
    const double batches = ceil((double)t->facts->count[FV_MEDIA_TRAIN] / (double)t->batch);
    return (double)epoch + (double)index / batches;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    fv_gan_task *t = self;
    fv_media_task *media = &t->media;
    if (phase == DISCRIMINATOR) return fv_media_task_begin(self, model, step, phase, plan);
    const int64_t rows = fv_step_plan_rows(&media->parts, media->batch, plan);
    if (media->facts->label_count > 0) FV_TRY(draw_labels(t, step, rows));
    plan->tokens = (double)rows;
    plan->epoch = epoch_of(media);
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    const fv_gan_task *t = self;
    if (phase == DISCRIMINATOR) return fv_media_task_batch(self, model, step, phase, part, out);
    const int64_t first = part * t->media.batch;
    fv_batch_init(out, t->media.batch);
    if (t->media.facts->label_count > 0)
        fv_batch_add(out,
                     (fv_field){.name = "label", .dtype = FV_I64, .row = t->label_row + first});
    return FV_OK;
}

const fv_task_kind fv_task_gan = {
    .struct_size = sizeof fv_task_gan,
    .name = "gan",
    .summary = "generate pictures, against a discriminator",
    .model = "sagan",
    .keys = gan_keys,
    .open = open_task,
    .close = close_task,
    .report = fv_media_task_report,
    .phases = PHASES,
    .group = group,
    .optimizer = optimizer,
    .begin = begin,
    .batch = batch,
    .evaluate = fv_gan_evaluate,
    .get_position = fv_media_task_get_position,
    .set_position = fv_media_task_set_position,
};

/*
 * How good samples are: the Frechet distance between features of samples and of held-out pictures,
 * beside that between two halves of the held-out pictures, and the share of samples that a
 * classifier reads as the class they were made for. Samples are as many as the second half, with
 * its classes, and are compared with the first half: both distances have the same reference and the
 * same number of vectors. Features are the classifier's vectors, or without one the means of a grid
 * of cells.
 */
#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/ops.h"
#include "tensor/tensor.h"
#include "train/tasks/gan.h"

enum { CELLS = 7 };

/* ---- the classifier ------------------------------------------------------------------------- */

static fv_status check_classifier(const fv_gan_task *t, const char *folder)
{
    fv_ctx *ctx = t->media.ctx;
    const fv_data_spec *spec = fv_model_spec(t->classifier);
    const fv_media_facts *facts = t->media.facts;
    FV_RETURN_IF(!fv_model_can(t->classifier, FV_CAN_CLASSIFY) ||
                     !fv_model_kind_of(t->classifier)->embed,
                 ctx, FV_ERR_ARGUMENT, "eval.classifier: %.150s: a %s model has no features",
                 folder, fv_model_type(t->classifier));
    FV_RETURN_IF(fv_data_spec_get(spec, "channels", 0) != facts->shape[0] ||
                     fv_data_spec_get(spec, "height", 0) != facts->shape[1] ||
                     fv_data_spec_get(spec, "width", 0) != facts->shape[2] ||
                     (facts->label_count > 0 && spec->label_count != facts->label_count),
                 ctx, FV_ERR_ARGUMENT,
                 "eval.classifier: %.150s reads other pictures or classes than the run's set",
                 folder);
    return FV_OK;
}

fv_status fv_gan_open_classifier(fv_gan_task *t)
{
    const char *folder = fv_recipe_text(t->media.recipe, "eval.classifier");
    if (!*folder) return FV_OK;
    FV_TRY(fv_model_open(t->media.ctx, folder, &t->classifier));
    return check_classifier(t, folder);
}

void fv_gan_free_metrics(fv_gan_task *t)
{
    fv_moments_free(&t->real[0]);
    fv_moments_free(&t->real[1]);
    fv_model_close(&t->classifier);
}

/* ---- features ------------------------------------------------------------------------------- */

/* Features [rows, width] of pictures. */
static fv_tensor *features_of(fv_gan_task *t, fv_tensor *pictures, const fv_batch *batch)
{
    fv_ctx *ctx = t->media.ctx;
    if (t->classifier)
        return fv_model_kind_of(t->classifier)
            ->embed(ctx, fv_model_self(t->classifier), batch, NULL);
    fv_tensor *cells = fv_adaptive_avg_pool2d(ctx, pictures, CELLS, CELLS);
    return fv_reshape(ctx, cells, 2, (int64_t[]){batch->rows, -1});
}

static fv_status add_features(fv_gan_task *t, fv_tensor *features, fv_moments *out)
{
    fv_ctx *ctx = t->media.ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t rows = fv_tensor_size(features, 0), width = fv_tensor_size(features, 1);
    if (!out->sum) FV_TRY(fv_moments_create(ctx, width, out));
    const size_t bytes = (size_t)(rows * width) * sizeof(float);
    float *values = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!values, ctx, FV_ERR_MEMORY, "no memory for %lld features", (long long)width);
    const fv_status status = fv_tensor_read(ctx, features, values, bytes);
    if (status == FV_OK) fv_moments_add(out, values, rows);
    fv_mem_free(&ctx->mem, values, bytes);
    return status;
}

/* A walk over examples first .. end - 1 of the held-out part, a batch at a time. */
typedef struct walk {
    fv_gan_task *task;
    fv_model *model; /* NULL: the pictures themselves */
    fv_moments *out;
    double right;
} walk;

static fv_status add_real(walk *w, const fv_batch *batch)
{
    fv_ctx *ctx = w->task->media.ctx;
    fv_tensor *pictures = fv_batch_tensor(ctx, batch, "pixels", NULL);
    return add_features(w->task, features_of(w->task, pictures, batch), w->out);
}

/* How many samples of the batch's classes the classifier reads as their class. */
static fv_status add_right(walk *w, const fv_batch *samples)
{
    fv_ctx *ctx = w->task->media.ctx;
    double right = 0;
    fv_tensor *logits = fv_model_classify(w->task->classifier, samples, NULL);
    fv_tensor *same =
        fv_eq(ctx, fv_argmax(ctx, logits, -1, false), fv_batch_tensor(ctx, samples, "label", NULL));
    FV_TRY(fv_tensor_item(ctx, fv_sum(ctx, fv_cast(ctx, same, FV_F32), 0, NULL, false), &right));
    w->right += right;
    return FV_OK;
}

/* The samples, read back into the rows of the pictures whose classes they have. */
static fv_status add_samples(walk *w, const fv_batch *batch, int64_t first)
{
    fv_media_task *media = &w->task->media;
    fv_ctx *ctx = media->ctx;
    /* The same noise at every evaluation. */
    fv_ctx_set_step(ctx, UINT64_MAX, (uint64_t)first);
    fv_tensor *made =
        fv_model_kind_of(w->model)->draw(ctx, fv_model_self(w->model), batch->rows, batch);
    FV_TRY(fv_tensor_read(ctx, made, media->rows.values, media->rows.used * sizeof(float)));
    FV_TRY(add_features(w->task, features_of(w->task, made, batch), w->out));
    return w->task->classifier && media->facts->label_count > 0 ? add_right(w, batch) : FV_OK;
}

static fv_status walk_over(walk *w, fv_media_part part, int64_t first, int64_t end)
{
    fv_media_task *media = &w->task->media;
    fv_ctx *ctx = media->ctx;
    for (; first < end; first += media->batch) {
        const int64_t n = end - first < media->batch ? end - first : media->batch;
        FV_TRY(fv_media_task_read(media, part, first, n));
        const fv_batch batch = fv_media_rows_batch(&media->rows, 0, n);
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_status status = w->model ? add_samples(w, &batch, first) : add_real(w, &batch);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        FV_TRY(status);
    }
    return FV_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

static fv_status read_halves(fv_gan_task *t, fv_media_part part, int64_t half)
{
    for (int i = 0; i < 2; i++) {
        walk real = {.task = t, .out = &t->real[i]};
        fv_moments_free(&t->real[i]);
        FV_TRY(walk_over(&real, part, i * half, (i + 1) * half));
    }
    return FV_OK;
}

static fv_status measure(fv_gan_task *t, fv_model *model, fv_media_part part, int64_t half,
                         fv_moments *made, fv_metric *metrics, int *count)
{
    double distance = 0, real = 0;
    walk samples = {.task = t, .model = model, .out = made};
    FV_TRY(walk_over(&samples, part, half, 2 * half));
    FV_TRY(fv_frechet_distance(&t->real[0], made, &distance));
    FV_TRY(fv_frechet_distance(&t->real[0], &t->real[1], &real));
    fv_metric_add(metrics, count, "frechet", distance, false);
    fv_metric_add(metrics, count, "frechet_real", real, false);
    if (t->classifier && t->media.facts->label_count > 0)
        fv_metric_add(metrics, count, "read_as_class", samples.right / (double)half, true);
    return FV_OK;
}

fv_status fv_gan_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_gan_task *t = self;
    int64_t all = 0;
    const fv_media_part part = fv_media_task_held_out(&t->media, &all);
    const int64_t half = all / 2;
    FV_RETURN_IF(half < 2, t->media.ctx, FV_ERR_ARGUMENT,
                 "%lld held-out pictures, expected four or more", (long long)all);
    if (t->real[1].count != half) FV_TRY(read_halves(t, part, half));
    fv_moments made = {0};
    const fv_status status = measure(t, model, part, half, &made, metrics, count);
    fv_moments_free(&made);
    return status;
}

/* Classes of pictures and recordings. */
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "text/codepoints.h"
#include "train/tasks/media.h"
#include "train/tasks/tasks.h"

static void close_task(void *self)
{
    fv_media_task *t = self;
    fv_ctx *ctx = t->ctx;
    fv_media_task_free(t);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_status open_classes(fv_media_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    const char *name = fv_recipe_text(cfg->recipe, "data.media");
    FV_TRY(fv_media_task_open(t, cfg, spec));
    FV_RETURN_IF(spec->label_count < 2, cfg->ctx, FV_ERR_ARGUMENT,
                 "data.media: %s has no classes to predict", name);
    FV_RETURN_IF(t->facts->has_questions, cfg->ctx, FV_ERR_ARGUMENT,
                 "data.media: %s has questions: expected train.task questions", name);
    spec->ability = FV_CAN_CLASSIFY;
    return FV_OK;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    fv_media_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    return fv_task_opened(open_classes(t, cfg, spec), close_task, t, self);
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct score {
    double loss, right;
} score;

static fv_status add_score(fv_ctx *ctx, fv_model *model, const fv_batch *batch, score *s)
{
    double loss = 0, right = 0;
    fv_tensor *label = fv_batch_tensor(ctx, batch, "label", NULL);
    fv_tensor *logits = fv_model_classify(model, batch, NULL);
    fv_tensor *same = fv_eq(ctx, fv_argmax(ctx, logits, -1, false), label);
    fv_tensor *sum = fv_cross_entropy(ctx, logits, label, -1, 0, FV_REDUCTION_SUM);
    FV_TRY(fv_tensor_item(ctx, sum, &loss));
    FV_TRY(fv_tensor_item(ctx, fv_sum(ctx, fv_cast(ctx, same, FV_F32), 0, NULL, false), &right));
    s->loss += loss;
    s->right += right;
    return FV_OK;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_media_task *t = self;
    fv_ctx *ctx = t->ctx;
    score s = {0};
    int64_t all = 0;
    const fv_media_part part = fv_media_task_held_out(t, &all);
    for (int64_t first = 0; first < all; first += t->batch) {
        const int64_t n = all - first < t->batch ? all - first : t->batch;
        FV_TRY(fv_media_task_read(t, part, first, n));
        const fv_batch batch = fv_media_rows_batch(&t->rows, 0, n);
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_status status = add_score(ctx, model, &batch, &s);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        FV_TRY(status);
    }
    fv_metric_add(metrics, count, "accuracy", s.right / (double)all, true);
    fv_metric_add(metrics, count, "loss", s.loss / (double)all, false);
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* "example 3   7, predicted 7 with 0.99" */
static fv_status add_sample(const fv_media_task *t, int64_t i, int64_t best, double share,
                            fv_text *out)
{
    char line[512];
    const char *const *names = t->facts->labels;
    const int n =
        snprintf(line, sizeof line, "example %-4lld %.200s, predicted %.200s with %.3f\n",
                 (long long)t->rows.number[i], names[t->rows.label[i]], names[best], share);
    return fv_text_append(t->ctx, out, line, (size_t)n);
}

static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    enum { MOST = 100 };
    fv_media_task *t = self;
    fv_ctx *ctx = t->ctx;
    int64_t all = 0, best[MOST];
    float share[MOST];
    const fv_media_part part = fv_media_task_held_out(t, &all);
    const int64_t asked = count < MOST ? count : MOST, n = asked < all ? asked : all;
    if (n < 1) return FV_OK;
    FV_TRY(fv_media_task_read(t, part, 0, n));
    const fv_batch batch = fv_media_rows_batch(&t->rows, 0, n);
    fv_tensor *p = fv_softmax(ctx, fv_model_classify(model, &batch, NULL), -1);
    FV_TRY(fv_tensor_read(ctx, fv_argmax(ctx, p, -1, false), best, (size_t)n * sizeof *best));
    FV_TRY(fv_tensor_read(ctx, fv_max(ctx, p, 1, (int[]){-1}, false), share,
                          (size_t)n * sizeof *share));
    for (int64_t i = 0; i < n; i++)
        FV_TRY(add_sample(t, i, best[i], (double)share[i], out));
    return FV_OK;
}

const fv_task_kind fv_task_media_classes = {
    .struct_size = sizeof fv_task_media_classes,
    .name = "media-classes",
    .summary = "classify pictures or recordings",
    .model = "cnn",
    .keys = fv_media_keys,
    .open = open_task,
    .close = close_task,
    .report = fv_media_task_report,
    .begin = fv_media_task_begin,
    .batch = fv_media_task_batch,
    .evaluate = evaluate,
    .show = show,
    .get_position = fv_media_task_get_position,
    .set_position = fv_media_task_set_position,
};

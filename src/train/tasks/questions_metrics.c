/* Metrics of the questions task on held-out data, and samples. */
#include <stdio.h>

#include "fovea/autograd.h"
#include "fovea/encode.h"
#include "fovea/ops.h"
#include "text/codepoints.h"
#include "train/tasks/questions.h"

enum { MAX_GROUPS = 4 };

/* Sums over the examples so far. */
typedef struct sums {
    double loss, right, count, right_of[MAX_GROUPS], count_of[MAX_GROUPS];
} sums;

/* Reads held-out examples into the rows; a picture once for all of its questions. */
static fv_status read_rows(fv_questions_task *run, fv_model *model, fv_media_part part,
                           int64_t first, int64_t count)
{
    fv_media_task *t = &run->media;
    int64_t last = -1;
    fv_media_rows_clear(&t->rows);
    fv_question_rows_clear(&run->rows);
    for (int64_t i = first; i < first + count; i++) {
        fv_media_example e;
        fv_question_words words;
        FV_TRY(fv_media_get(t->set, part, i, NULL, &e));
        if (i == first || e.picture != last) FV_TRY(fv_media_rows_add(&t->rows, &e, i));
        last = e.picture;
        FV_TRY(fv_question_read(model, e.question, &words));
        FV_TRY(fv_question_rows_add(&run->rows, t->rows.count - 1, e.label, e.group, words.count,
                                    words.id));
    }
    fv_media_rows_point(&t->rows);
    fv_question_rows_point(&run->rows, &t->rows);
    return FV_OK;
}

static fv_status count_right(const fv_questions_task *run, const int64_t *best, sums *s)
{
    const fv_question_rows *rows = &run->rows;
    for (int64_t i = 0; i < rows->count; i++) {
        const double right = best[i] == rows->label[i] ? 1 : 0;
        s->right += right;
        s->count++;
        if (rows->group[i] >= MAX_GROUPS) continue;
        s->right_of[rows->group[i]] += right;
        s->count_of[rows->group[i]]++;
    }
    return FV_OK;
}

static fv_status add_batch(fv_questions_task *run, fv_model *model, sums *s)
{
    fv_ctx *ctx = run->media.ctx;
    const int64_t n = run->rows.count;
    const fv_batch batch = fv_question_rows_batch(&run->rows, &run->media.rows, 0, n);
    double loss = 0;
    fv_tensor *logits = fv_model_classify(model, &batch, NULL);
    fv_tensor *label = fv_batch_tensor(ctx, &batch, "label", NULL);
    FV_TRY(
        fv_tensor_item(ctx, fv_cross_entropy(ctx, logits, label, -1, 0, FV_REDUCTION_SUM), &loss));
    s->loss += loss;
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *best = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!best, ctx, FV_ERR_MEMORY, "no memory for answers");
    fv_status status = fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), best, bytes);
    if (status == FV_OK) status = count_right(run, best, s);
    fv_mem_free(&ctx->mem, best, bytes);
    return status;
}

fv_status fv_questions_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_questions_task *run = self;
    fv_media_task *t = &run->media;
    fv_ctx *ctx = t->ctx;
    sums s = {0};
    int64_t all = 0;
    const fv_media_part part = fv_media_task_held_out(t, &all);
    for (int64_t first = 0; first < all; first += t->batch) {
        const int64_t n = all - first < t->batch ? all - first : t->batch;
        FV_TRY(read_rows(run, model, part, first, n));
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_status status = add_batch(run, model, &s);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        FV_TRY(status);
    }
    fv_metric_add(metrics, count, "accuracy", s.right / s.count, true);
    for (int i = 0; i < t->facts->group_count && i < MAX_GROUPS; i++)
        if (s.count_of[i] > 0)
            fv_metric_add(metrics, count, t->facts->groups[i], s.right_of[i] / s.count_of[i], true);
    fv_metric_add(metrics, count, "loss", s.loss / s.count, false);
    return FV_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* "example 3   what color is the shape?   blue, predicted blue with 0.990" */
static fv_status add_sample(const fv_questions_task *run, fv_media_part part, int64_t i,
                            int64_t best, double p, fv_text *out)
{
    char line[FV_MEDIA_TEXT + 512];
    fv_media_example e;
    const fv_media_task *t = &run->media;
    const char *const *names = t->facts->labels;
    FV_TRY(fv_media_get(t->set, part, i, NULL, &e));
    const int n =
        snprintf(line, sizeof line, "example %-4lld %s   %.100s, predicted %.100s with %.3f\n",
                 (long long)i, e.question, names[e.label], names[best], p);
    return fv_text_append(t->ctx, out, line, (size_t)n);
}

fv_status fv_questions_show(void *self, fv_model *model, int count, fv_text *out)
{
    enum { MOST = 100 };
    fv_questions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    int64_t all = 0, best[MOST];
    float p[MOST];
    const fv_media_part part = fv_media_task_held_out(&run->media, &all);
    const int64_t asked = count < MOST ? count : MOST, n = asked < all ? asked : all;
    if (n < 1) return FV_OK;
    FV_TRY(read_rows(run, model, part, 0, n));
    const fv_batch batch = fv_question_rows_batch(&run->rows, &run->media.rows, 0, n);
    fv_tensor *answers = fv_softmax(ctx, fv_model_classify(model, &batch, NULL), -1);
    FV_TRY(fv_tensor_read(ctx, fv_argmax(ctx, answers, -1, false), best, (size_t)n * sizeof *best));
    FV_TRY(
        fv_tensor_read(ctx, fv_max(ctx, answers, 1, (int[]){-1}, false), p, (size_t)n * sizeof *p));
    for (int64_t i = 0; i < n; i++)
        FV_TRY(add_sample(run, part, i, best[i], (double)p[i], out));
    return FV_OK;
}

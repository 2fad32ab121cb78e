/* Sequences of vectors as packed steps, and where their answers are. */
#include <string.h>

#include "base/checked_math.h"
#include "models/ntm.h"

static fv_status find_field(fv_ctx *ctx, const fv_batch *batch, const char *name, int64_t width,
                            const fv_field **out)
{
    const fv_field *f = fv_batch_find(batch, name);
    FV_RETURN_IF(f && (!f->length || f->dtype != FV_F32 || f->rank != 1 || f->shape[0] != width),
                 ctx, FV_ERR_ARGUMENT, "ntm: \"%s\" must be sequences of %lld floats", name,
                 (long long)width);
    *out = f;
    return FV_OK;
}

/* All vectors in packed order. */
static fv_status pack_inputs(fv_ctx *ctx, const fv_field *f, int64_t width, fv_ntm_rows *rows)
{
    const fv_packed_sequences *p = &rows->packed;
    const int64_t shape[] = {p->total, width};
    size_t bytes = 0;
    float *all = NULL;
    if (fv_checked_mul_size((size_t)p->total, (size_t)width * sizeof *all, &bytes))
        all = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!all, ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)p->total);
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            memcpy(all + (p->first[t] + i) * width, (const float *)f->row[p->order[i]] + t * width,
                   (size_t)width * sizeof *all);
    rows->inputs = fv_from_host(ctx, FV_F32, 2, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return ctx->error;
}

/* A row's answers are its last `count` steps. */
static fv_status place_answers(fv_ctx *ctx, const fv_field *inputs, const fv_field *targets,
                               int64_t count, fv_ntm_rows *rows)
{
    const fv_packed_sequences *p = &rows->packed;
    const int64_t *answers = targets ? targets->length : inputs->length;
    rows->first_answer = p->steps;
    for (int64_t r = 0; r < count; r++) {
        const int64_t steps = inputs->length[r];
        FV_RETURN_IF(answers[r] < 1 || answers[r] > steps, ctx, FV_ERR_ARGUMENT,
                     "ntm: %lld answers for %lld steps", (long long)answers[r], (long long)steps);
        rows->answers += answers[r];
        if (steps - answers[r] < rows->first_answer) rows->first_answer = steps - answers[r];
    }
    rows->answer = fv_mem_alloc(&ctx->mem, (size_t)rows->answers * sizeof *rows->answer);
    FV_RETURN_IF(!rows->answer, ctx, FV_ERR_MEMORY, "no memory for %lld answers",
                 (long long)rows->answers);
    int64_t at = 0;
    for (int64_t r = 0; r < count; r++)
        for (int64_t t = inputs->length[r] - answers[r]; t < inputs->length[r]; t++)
            rows->answer[at++] = p->first[t] - p->first[rows->first_answer] + p->rank[r];
    return FV_OK;
}

fv_status fv_ntm_rows_make(fv_ctx *ctx, const fv_ntm *m, const fv_batch *batch, fv_ntm_rows *out)
{
    enum { MOST_STEPS = 4096 }; /* as many results are joined at the end */
    const fv_field *inputs = NULL, *targets = NULL;
    *out = (fv_ntm_rows){.answers = 0};
    FV_TRY(find_field(ctx, batch, "inputs", m->inputs, &inputs));
    FV_TRY(find_field(ctx, batch, "targets", m->outputs, &targets));
    FV_RETURN_IF(!inputs || batch->rows < 1, ctx, FV_ERR_ARGUMENT,
                 "ntm: the batch has no \"inputs\", sequences of vectors");
    for (int64_t r = 0; r < batch->rows; r++)
        FV_RETURN_IF(inputs->length[r] > MOST_STEPS, ctx, FV_ERR_LIMIT,
                     "ntm: a sequence of %lld steps, expected at most %d",
                     (long long)inputs->length[r], MOST_STEPS);
    FV_TRY(fv_pack_sequences(ctx, batch->rows, inputs->length, &out->packed));
    FV_TRY(place_answers(ctx, inputs, targets, batch->rows, out));
    return pack_inputs(ctx, inputs, m->inputs, out);
}

void fv_ntm_rows_free(fv_ctx *ctx, fv_ntm_rows *rows)
{
    if (rows->answer)
        fv_mem_free(&ctx->mem, rows->answer, (size_t)rows->answers * sizeof *rows->answer);
    if (rows->packed.ctx) fv_packed_free(&rows->packed);
}

/* What encoders are trained and judged by: hidden words, pairs of texts, classes. */
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"
#include "train/text.h"

/* ---- a pass over some of the examples --------------------------------------------------- */

typedef struct pass {
    fv_sequences texts;
    fv_rows rows;
    fv_tensor *states;
} pass;

static pass encode(const fv_text_run *run, fv_ctx *ctx, int64_t first, int64_t count,
                   const fv_pass *how)
{
    pass p = {.texts = {.count = count,
                        .tokens = run->tokens + first,
                        .length = run->length + first,
                        .types = run->next_sentence ? run->types + first : NULL}};
    p.rows = fv_rows_pack(ctx, &p.texts);
    p.states = fv_transformer_encode(ctx, run->model, &p.rows, how);
    return p;
}

static fv_tensor *numbers(fv_ctx *ctx, const int64_t *from, int64_t count)
{
    int64_t *x = fv_host_room(ctx, FV_I64, 1, &count);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = from[i];
    return fv_host_tensor(ctx, FV_I64, x, 1, &count, FV_I64);
}

static fv_tensor *class_loss(fv_ctx *ctx, fv_tensor *logits, fv_tensor *wanted)
{
    return fv_cross_entropy(ctx, logits, wanted, -1, 0, FV_REDUCTION_SUM);
}

/* The mean over hidden words and the mean over pairs count the same. */
static fv_tensor *masked_loss(const fv_text_run *run, fv_ctx *ctx, int64_t first, int64_t count,
                              const fv_pass *how)
{
    const pass p = encode(run, ctx, first, count, how);
    fv_tensor *words = fv_transformer_word_loss(ctx, run->model, &p.texts, &p.rows, p.states,
                                                run->wanted + first, how);
    if (!run->next_sentence) return words;
    fv_tensor *logits = fv_transformer_next_sentence(ctx, run->model, &p.rows, p.states);
    fv_tensor *pairs = class_loss(ctx, logits, numbers(ctx, run->label + first, count));
    return fv_add(ctx, words, fv_scale(ctx, pairs, (double)run->wishes / (double)run->count));
}

fv_tensor *fv_text_encoder_loss(const fv_text_run *run, fv_ctx *ctx, int64_t first, int64_t count)
{
    const fv_pass how = {.training = true, .checkpoint = run->train.recompute};
    if (run->task == FV_TASK_MASKED) return masked_loss(run, ctx, first, count, &how);
    const pass p = encode(run, ctx, first, count, &how);
    fv_tensor *logits = fv_transformer_labels(ctx, run->model, &p.rows, p.states, &how);
    return class_loss(ctx, logits, numbers(ctx, run->label + first, count));
}

/* ---- judging ---------------------------------------------------------------------------- */

static fv_status score(fv_ctx *ctx, fv_tensor *logits, fv_tensor *wanted, fv_text_score *s)
{
    double loss = 0, right = 0;
    fv_tensor *best = fv_argmax(ctx, logits, -1, false);
    fv_tensor *same = fv_cast(ctx, fv_eq(ctx, best, wanted), FV_F32);
    FV_FORWARD(fv_tensor_item(ctx, class_loss(ctx, logits, wanted), &loss));
    FV_FORWARD(fv_tensor_item(ctx, fv_sum(ctx, same, 1, (int[]){0}, false), &right));
    s->loss += loss;
    s->right += right;
    s->count += (double)wanted->shape[0];
    return FV_OK;
}

/* Logits at the hidden places alone. */
static fv_status score_words(const fv_text_run *run, fv_ctx *ctx, const pass *p, fv_text_score *s)
{
    int64_t *place = fv_host_room(ctx, FV_I64, 1, &run->wishes);
    int64_t *token = fv_host_room(ctx, FV_I64, 1, &run->wishes);
    int64_t found = 0, packed = 0;
    for (int64_t i = 0; place && token && i < run->count; packed += run->length[i++])
        for (int64_t t = 0; t < run->length[i]; t++)
            if (run->wanted[i][t] != -1) {
                place[found] = packed + t;
                token[found++] = run->wanted[i][t];
            }
    fv_tensor *at = fv_host_tensor(ctx, FV_I64, place, 1, &run->wishes, FV_I64);
    fv_tensor *wanted = fv_host_tensor(ctx, FV_I64, token, 1, &run->wishes, FV_I64);
    const int64_t width = fv_transformer_settings(run->model)->width;
    fv_tensor *flat = fv_reshape(ctx, p->states, 2, (int64_t[]){-1, width});
    flat = fv_index_select(ctx, flat, 0, at);
    return score(ctx, fv_transformer_logits(ctx, run->model, flat), wanted, s);
}

static fv_status judge(const fv_text_run *run, fv_ctx *ctx, fv_text_score *main,
                       fv_text_score *pairs)
{
    const pass p = encode(run, ctx, 0, run->count, NULL);
    fv_tensor *wanted = numbers(ctx, run->label, run->count);
    if (run->task == FV_TASK_CLASSIFY)
        return score(ctx, fv_transformer_labels(ctx, run->model, &p.rows, p.states, NULL), wanted,
                     main);
    FV_FORWARD(score_words(run, ctx, &p, main));
    if (!run->next_sentence) return FV_OK;
    return score(ctx, fv_transformer_next_sentence(ctx, run->model, &p.rows, p.states), wanted,
                 pairs);
}

fv_status fv_text_judge(fv_text_run *run, fv_text_score *main, fv_text_score *pairs)
{
    fv_ctx *ctx = run->ctx;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status = judge(run, ctx, main, pairs);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

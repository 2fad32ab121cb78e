/* Metrics of encoders: loss and accuracy of masked tokens, pairs of texts and classes. */
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "io/arena.h"
#include "tensor/tensor.h"
#include "text/codepoints.h"
#include "train/tasks/text.h"

static fv_tensor *numbers(fv_ctx *ctx, const int64_t *from, int64_t count)
{
    return fv_from_host(ctx, FV_I64, 1, &count, from);
}

static fv_status score(fv_ctx *ctx, fv_tensor *logits, fv_tensor *targets, fv_text_score *s)
{
    double loss = 0, right = 0;
    fv_tensor *best = fv_argmax(ctx, logits, -1, false);
    fv_tensor *same = fv_cast(ctx, fv_eq(ctx, best, targets), FV_F32);
    fv_tensor *sum = fv_cross_entropy(ctx, logits, targets, -1, 0, FV_REDUCTION_SUM);
    FV_TRY(fv_tensor_item(ctx, sum, &loss));
    FV_TRY(fv_tensor_item(ctx, fv_sum(ctx, same, 1, (int[]){0}, false), &right));
    s->loss += loss;
    s->right += right;
    s->count += (double)targets->shape[0];
    return FV_OK;
}

/* Positions and tokens of everything that is masked, by example. */
typedef struct masked_list {
    int64_t *place, *token, *length;
    const int64_t **row;
} masked_list;

static fv_status list_masked(const fv_text_task *run, fv_arena *arena, masked_list *out)
{
    const size_t count = (size_t)run->count, masked = (size_t)run->masked;
    *out = (masked_list){.place = fv_arena_array(arena, masked, sizeof *out->place),
                         .token = fv_arena_array(arena, masked, sizeof *out->token),
                         .length = fv_arena_array(arena, count, sizeof *out->length),
                         .row = fv_arena_array(arena, count, sizeof *out->row)};
    FV_RETURN_IF(!out->place || !out->token || !out->length || !out->row, run->ctx, FV_ERR_MEMORY,
                 "no memory for a validation");
    int64_t found = 0;
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t first = found;
        for (int64_t t = 0; t < run->length[i]; t++)
            if (run->targets[i][t] != -1) {
                out->place[found] = t;
                out->token[found++] = run->targets[i][t];
            }
        out->row[i] = out->place + first;
        out->length[i] = found - first;
    }
    return FV_OK;
}

static fv_status score_masked(const fv_text_task *run, fv_model *model, fv_arena *arena,
                              fv_text_score *s)
{
    fv_ctx *ctx = run->ctx;
    masked_list list;
    FV_TRY(list_masked(run, arena, &list));
    fv_batch batch = fv_text_batch(run, 0, run->count);
    fv_batch_add(&batch, (fv_field){.name = "positions",
                                    .dtype = FV_I64,
                                    .row = (const void *const *)list.row,
                                    .length = list.length});
    fv_tensor *logits = fv_model_kind_of(model)->fill_mask(ctx, fv_model_self(model), &batch, NULL);
    return score(ctx, logits, numbers(ctx, list.token, run->masked), s);
}

static fv_status score_classes(const fv_text_task *run, fv_model *model, fv_text_score *s)
{
    fv_ctx *ctx = run->ctx;
    const fv_batch batch = fv_text_batch(run, 0, run->count);
    fv_tensor *logits = fv_model_kind_of(model)->classify(ctx, fv_model_self(model), &batch, NULL);
    return score(ctx, logits, numbers(ctx, run->label, run->count), s);
}

static fv_status add_scores(const fv_text_task *run, fv_model *model, fv_arena *arena,
                            fv_text_score *main, fv_text_score *pairs)
{
    if (run->goal == FV_TEXT_CLASSIFY) return score_classes(run, model, main);
    FV_TRY(score_masked(run, model, arena, main));
    return run->next_sentence ? score_classes(run, model, pairs) : FV_OK;
}

fv_status fv_text_add_scores(const fv_text_task *run, fv_model *model, fv_text_score *main,
                             fv_text_score *pairs)
{
    fv_ctx *ctx = run->ctx;
    fv_arena arena;
    fv_arena_init(&arena, &ctx->mem);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status = add_scores(run, model, &arena, main, pairs);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    fv_arena_free(&arena);
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_status add_line(fv_ctx *ctx, fv_text *out, const char *name, const char *text)
{
    FV_TRY(fv_text_append(ctx, out, name, strlen(name)));
    FV_TRY(fv_text_append(ctx, out, text, strlen(text)));
    return fv_text_append(ctx, out, "\n", 1);
}

static fv_status add_tokens(const fv_text_task *run, fv_text *out, const char *name,
                            const int64_t *ids, int64_t count)
{
    fv_text text = {0};
    fv_status status = fv_tokenizer_decode(run->ctx, run->tokenizer, ids, (size_t)count, 0, &text);
    if (status == FV_OK) status = add_line(run->ctx, out, name, text.data ? text.data : "");
    fv_text_free(run->ctx, &text);
    return status;
}

/* Text or texts, class and the model's class of example i, a line each. */
static fv_status add_sample(const fv_text_task *run, int64_t i, int64_t predicted, fv_text *out)
{
    const fv_text_piece *piece = &run->part[FV_TEXT_VALID].pieces[i];
    const int64_t *ids = run->part[FV_TEXT_VALID].tokens + piece->at,
                  first = piece->length - piece->second;
    FV_TRY(add_tokens(run, out, "text        ", ids, first));
    if (piece->second) FV_TRY(add_tokens(run, out, "second text ", ids + first, piece->second));
    FV_TRY(add_line(run->ctx, out, "class       ", run->label_names[piece->label]));
    return add_line(run->ctx, out, "prediction  ", run->label_names[predicted]);
}

fv_status fv_text_show_classes(void *self, fv_model *model, int count, fv_text *out)
{
    fv_text_task *run = self;
    fv_ctx *ctx = run->ctx;
    const fv_text_part *p = &run->part[FV_TEXT_VALID];
    int64_t found[100];
    const int64_t most = count < 100 ? count : 100,
                  n = most < p->piece_count ? most : p->piece_count;
    run->count = run->masked = 0;
    for (int64_t i = 0; i < n; i++)
        FV_TRY(fv_text_add_made(run, p, i, 0, (uint64_t)i));
    fv_text_point(run);
    const fv_batch batch = fv_text_batch(run, 0, n);
    fv_tensor *logits = fv_model_kind_of(model)->classify(ctx, fv_model_self(model), &batch, NULL);
    fv_tensor *best = fv_argmax(ctx, logits, -1, false);
    FV_TRY(fv_tensor_read(ctx, best, found, (size_t)n * sizeof *found));
    for (int64_t i = 0; i < n; i++)
        FV_TRY(add_sample(run, i, found[i], out));
    return FV_OK;
}

/* Samples of a language model: beginnings of held-out texts and how the model continues them. */
#include <string.h>

#include "fovea/search.h"
#include "text/codepoints.h"
#include "train/tasks/text.h"

/* Tokens of a beginning and of its continuation, where the model's context has room for them. */
enum { SHOWN = 24, CONTINUED = 48, MOST_SAMPLES = 100 };

typedef struct beginnings {
    int64_t count;
    const int64_t *tokens[MOST_SAMPLES];
    int64_t length[MOST_SAMPLES]; /* of the beginning */
    int64_t rest[MOST_SAMPLES];   /* tokens that follow it in the text */
    int64_t max_tokens[MOST_SAMPLES];
} beginnings;

/* At even distances: places of a stream, or whole documents. */
static void choose(const fv_text_task *run, int64_t count, beginnings *b)
{
    const fv_text_part *p = &run->part[FV_TEXT_VALID];
    const int64_t half = run->window / 2, shown = half < SHOWN ? half : SHOWN,
                  left = run->window - shown;
    const int64_t places = run->stream ? (p->count - 1) / run->window : p->piece_count;
    if (count > MOST_SAMPLES) count = MOST_SAMPLES;
    if (count > places) count = places;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i * (places / count);
        const int64_t first = run->stream ? at * run->window : p->pieces[at].at;
        const int64_t length = run->stream ? run->window : p->pieces[at].length;
        const int64_t begin = length / 2 < shown ? length / 2 : shown;
        if (begin < 1) continue;
        b->tokens[b->count] = p->tokens + first;
        b->length[b->count] = begin;
        b->rest[b->count] = length - begin < CONTINUED ? length - begin : CONTINUED;
        b->max_tokens[b->count++] = left < CONTINUED ? left : CONTINUED;
    }
}

/* Appends a line; line breaks of the text become "\n" in it. */
static fv_status add_line(const fv_text_task *run, const char *name, const int64_t *tokens,
                          int64_t count, fv_text *out)
{
    fv_ctx *ctx = run->ctx;
    fv_text text = {0};
    FV_TRY(fv_text_append(ctx, out, name, strlen(name)));
    FV_TRY(fv_tokenizer_decode(ctx, run->tokenizer, tokens, (size_t)count, 0, &text));
    fv_status status = FV_OK;
    for (size_t at = 0; at < text.bytes && status == FV_OK;) {
        const char *end = memchr(text.data + at, '\n', text.bytes - at);
        const size_t bytes = end ? (size_t)(end - text.data) - at : text.bytes - at;
        status = fv_text_append(ctx, out, text.data + at, bytes);
        if (status == FV_OK && end) status = fv_text_append(ctx, out, "\\n", 2);
        at += bytes + (end ? 1 : 0);
    }
    fv_text_free(ctx, &text);
    return status == FV_OK ? fv_text_append(ctx, out, "\n", 1) : status;
}

static fv_status add_samples(const fv_text_task *run, const beginnings *b,
                             const fv_outputs *outputs, fv_text *out)
{
    for (int64_t i = 0; i < b->count; i++) {
        const fv_output *o = fv_outputs_get(outputs, i, 0);
        FV_TRY(add_line(run, "text        ", b->tokens[i], b->length[i], out));
        FV_TRY(add_line(run, "reference   ", b->tokens[i] + b->length[i], b->rest[i], out));
        FV_TRY(add_line(run, "sample      ", o->tokens, o->count, out));
    }
    return FV_OK;
}

/* Sampled, since the most likely continuation of a model that has learned little is one word again
 * and again; the same draws at every evaluation. */
fv_status fv_text_show_continuations(void *self, fv_model *model, int count, fv_text *out)
{
    fv_text_task *run = self;
    fv_ctx *ctx = run->ctx;
    const fv_model_kind *kind = fv_model_kind_of(model);
    beginnings b = {.count = 0};
    fv_stepper stepper;
    fv_outputs *outputs = NULL;
    if (!kind->make_stepper) return FV_OK;
    choose(run, count, &b);
    if (b.count == 0) return FV_OK;
    fv_batch batch;
    fv_batch_init(&batch, b.count);
    fv_batch_add(&batch, (fv_field){.name = "tokens",
                                    .dtype = FV_I64,
                                    .row = (const void *const *)b.tokens,
                                    .length = b.length});
    FV_TRY(kind->make_stepper(fv_model_self(model), &batch, &stepper));
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.sample = true;
    how.top_p = 0.9;
    how.seed = 1;
    FV_TRY(fv_search(ctx, &stepper, b.count, b.max_tokens, &how, &outputs));
    const fv_status status = add_samples(run, &b, outputs, out);
    fv_outputs_free(&outputs);
    return status;
}

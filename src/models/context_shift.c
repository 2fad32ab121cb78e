/* Drops the older half of a full context and encodes the rest again, each row on its own. */
#include "models/context_shift.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/ctx.h"

int64_t fv_context_kept(int64_t context) { return context > 1 ? context / 2 : 1; }

int64_t fv_context_shorten(const int64_t *tokens, int64_t count, int64_t context, int64_t bos,
                           int64_t *to)
{
    const int64_t kept = fv_context_kept(context);
    /* With room for one token only, that is the last one. */
    const int64_t head = kept > 1 && bos >= 0 && tokens[0] == bos ? 1 : 0;
    if (head) to[0] = bos;
    memmove(to + head, tokens + count - (kept - head), (size_t)(kept - head) * sizeof *to);
    return kept;
}

/* Tokens that a row has room for: a context of one token is full already when the next is added. */
static int64_t stride(const fv_context_shift *s) { return s->context + 1; }

/* ---- memory ----------------------------------------------------------------------------- */

static void free_array(fv_ctx *ctx, int64_t **array, int64_t count)
{
    if (*array) fv_mem_free(&ctx->mem, *array, (size_t)count * sizeof **array);
    *array = NULL;
}

void fv_context_shift_free(fv_context_shift *s)
{
    fv_ctx *ctx = s->ctx;
    free_array(ctx, &s->tokens, s->room * stride(s));
    free_array(ctx, &s->moved, s->room * stride(s));
    free_array(ctx, &s->length, s->room);
    free_array(ctx, &s->moved_length, s->room);
    s->room = 0;
}

/* Makes room for `rows` rows; those in use keep their tokens. */
static fv_status reserve(fv_context_shift *s, int64_t rows)
{
    fv_ctx *ctx = s->ctx;
    if (rows <= s->room) return FV_OK;
    fv_context_shift larger = *s;
    larger.tokens = larger.moved = larger.length = larger.moved_length = NULL;
    larger.room = rows;
    size_t tokens, bytes;
    const bool fits = fv_checked_mul_size((size_t)rows, (size_t)stride(s), &tokens) &&
                      fv_checked_mul_size(tokens, sizeof *s->tokens, &bytes);
    if (fits) {
        larger.tokens = fv_mem_alloc(&ctx->mem, bytes);
        larger.moved = fv_mem_alloc(&ctx->mem, bytes);
        larger.length = fv_mem_alloc(&ctx->mem, (size_t)rows * sizeof *s->length);
        larger.moved_length = fv_mem_alloc(&ctx->mem, (size_t)rows * sizeof *s->length);
    }
    if (!larger.tokens || !larger.moved || !larger.length || !larger.moved_length) {
        fv_context_shift_free(&larger);
        return fv_fail(ctx, FV_ERR_MEMORY, "generate: no memory for the tokens of %lld rows",
                       (long long)rows);
    }
    if (s->rows > 0) {
        memcpy(larger.tokens, s->tokens, (size_t)(s->rows * stride(s)) * sizeof *s->tokens);
        memcpy(larger.length, s->length, (size_t)s->rows * sizeof *s->length);
    }
    fv_context_shift_free(s);
    *s = larger;
    return FV_OK;
}

/* ---- as a stepper ----------------------------------------------------------------------- */

/* The decoder begins with all tokens of a prompt but the last, which the first step adds. */
static fv_status begin(void *user, int64_t sources)
{
    fv_context_shift *s = user;
    const fv_sequences *prompts = &s->prompts;
    FV_TRY(s->inner.begin(s->inner.user, sources));
    FV_TRY(reserve(s, prompts->count));
    s->rows = prompts->count;
    for (int64_t i = 0; i < s->rows; i++) {
        s->length[i] = prompts->length[i] - 1;
        memcpy(s->tokens + i * stride(s), prompts->tokens[i],
               (size_t)s->length[i] * sizeof *s->tokens);
    }
    return FV_OK;
}

/* Adds the next token of every row to its context. */
static void feed(void *user, int64_t rows, const int64_t *tokens)
{
    fv_context_shift *s = user;
    for (int64_t i = 0; i < rows; i++)
        s->tokens[i * stride(s) + s->length[i]++] = tokens[i];
}

/* Shortens every full context and lets the decoder read what is left. */
static fv_status shift_full_rows(fv_context_shift *s)
{
    fv_ctx *ctx = s->ctx;
    int64_t count = 0, *const row = s->moved_length;
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->length[i] < s->context) continue;
        int64_t *tokens = s->tokens + i * stride(s);
        s->length[i] = fv_context_shorten(tokens, s->length[i], s->context, s->bos, tokens);
        row[count++] = i;
    }
    if (count == 0) return FV_OK;
    for (int64_t i = 0; s->refills_all && i < s->rows; i++)
        row[i] = i;
    if (s->refills_all) count = s->rows;
    const size_t bytes = (size_t)count * (sizeof(int64_t *) + sizeof(int64_t));
    char *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "generate: no memory for %lld rows", (long long)count);
    const int64_t **tokens = (const int64_t **)(void *)room;
    int64_t *length = (int64_t *)(void *)(tokens + count);
    for (int64_t i = 0; i < count; i++) {
        tokens[i] = s->tokens + row[i] * stride(s);
        length[i] = s->length[row[i]];
    }
    const fv_sequences rest = {.count = count, .tokens = tokens, .length = length};
    const fv_status status = s->refill(s->user, &rest, row, &s->inner);
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_context_shift *s = user;
    FV_TRY(shift_full_rows(s));
    if (s->inner.feed) {
        int64_t *const last = s->moved_length; /* is free between selections */
        for (int64_t i = 0; i < s->rows; i++)
            last[i] = s->tokens[i * stride(s) + s->length[i] - 1];
        s->inner.feed(s->inner.user, s->rows, last);
    }
    return s->inner.step(s->inner.user, ctx, tokens, want_weights, out);
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    fv_context_shift *s = user;
    FV_TRY(s->inner.select(s->inner.user, rows, from));
    FV_TRY(reserve(s, rows));
    for (int64_t i = 0; i < rows; i++) {
        s->moved_length[i] = s->length[from[i]];
        memcpy(s->moved + i * stride(s), s->tokens + from[i] * stride(s),
               (size_t)s->moved_length[i] * sizeof *s->tokens);
    }
    int64_t *const tokens = s->tokens, *const length = s->length;
    s->tokens = s->moved;
    s->length = s->moved_length;
    s->moved = tokens;
    s->moved_length = length;
    s->rows = rows;
    return FV_OK;
}

fv_stepper fv_context_shift_stepper(fv_context_shift *s)
{
    fv_stepper stepper = s->inner;
    stepper.user = s;
    stepper.begin = begin;
    stepper.step = step;
    stepper.select = select_rows;
    stepper.best = NULL;
    stepper.feed = feed;
    return stepper;
}

/* Losses, summed over tokens. Logits are computed only where the loss needs them. */
#include <string.h>

#include "base/checked_math.h"
#include "models/token_pairs.h"
#include "models/transformer.h"
#include "tensor/host_table.h"

/* ---- predictions -------------------------------------------------------------------- */

/* Rows of the flattened states, and the token that each should predict. */
typedef struct predictions {
    int64_t count, filled;
    int64_t *row, *token;
} predictions;

static predictions room_for(fv_ctx *ctx, int64_t count)
{
    return (predictions){.count = count,
                         .row = fv_host_alloc(ctx, FV_I64, 1, &count),
                         .token = fv_host_alloc(ctx, FV_I64, 1, &count)};
}

static void expect(predictions *w, int64_t row, int64_t token)
{
    if (!w->row || !w->token || w->filled == w->count) return;
    w->row[w->filled] = row;
    w->token[w->filled++] = token;
}

/* The loss over all predictions, which it frees. */
static fv_tensor *sum_losses(fv_ctx *ctx, const fv_transformer *m, fv_tensor *states,
                             predictions *w, const fv_pass *pass)
{
    fv_tensor *row = fv_host_tensor(ctx, FV_I64, w->row, 1, &w->count, FV_I64);
    fv_tensor *token = fv_host_tensor(ctx, FV_I64, w->token, 1, &w->count, FV_I64);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *flat = fv_reshape(ctx, states, 2, (int64_t[]){-1, m->cfg.width});
    if (w->count < flat->shape[0]) flat = fv_index_select(ctx, flat, row, 0);
    return fv_cross_entropy(ctx, fv_transformer_logits(ctx, m, flat), token, -1,
                            pass && pass->training ? m->cfg.smoothing : 0, FV_REDUCTION_SUM);
}

/* The first row of sequence i in the flattened states; `varlen` is that row in varlen layout. */
static int64_t first_row(const fv_token_rows *rows, int64_t i, int64_t varlen)
{
    return rows->begin ? varlen : i * rows->ids->shape[1];
}

/* ---- edited sequences ------------------------------------------------------- */

/* Sequences that point into the caller's tokens, or into memory of their own. */
typedef struct list {
    fv_ctx *ctx;
    fv_sequences as;
    const int64_t **tokens;
    int64_t *length, *own;
    size_t own_bytes;
} list;

static void list_free(list *l)
{
    fv_mem *mem = &l->ctx->mem;
    const size_t n = (size_t)l->as.count;
    if (l->tokens) fv_mem_free(mem, l->tokens, n * sizeof *l->tokens);
    if (l->length) fv_mem_free(mem, l->length, n * sizeof *l->length);
    if (l->own) fv_mem_free(mem, l->own, l->own_bytes);
}

/* Memory for `count` sequences and for `own` tokens. False: the context is poisoned. */
static bool list_make(fv_ctx *ctx, int64_t count, int64_t own, list *l)
{
    *l = (list){.ctx = ctx, .as = {.count = count}};
    size_t pointers = 0, numbers = 0;
    if (ctx->error != FV_OK) return false;
    const bool sound = count > 0 && own >= 0 &&
                       fv_checked_mul_size((size_t)count, sizeof *l->tokens, &pointers) &&
                       fv_checked_mul_size((size_t)count, sizeof *l->length, &numbers) &&
                       fv_checked_mul_size((size_t)own, sizeof *l->own, &l->own_bytes);
    if (!sound) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: %lld sequences", (long long)count);
        l->as.count = 0;
        return false;
    }
    l->tokens = fv_mem_alloc(&ctx->mem, pointers);
    l->length = fv_mem_alloc(&ctx->mem, numbers);
    if (own) l->own = fv_mem_alloc(&ctx->mem, l->own_bytes);
    l->as.tokens = l->tokens;
    l->as.length = l->length;
    if (!l->tokens || !l->length || (own && !l->own))
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld sequences", (long long)count);
    return ctx->error == FV_OK;
}

/* ---- next tokens --------------------------------------------------------------------- */

/* All but the last token of each, which has no next one. */
static bool without_last(fv_ctx *ctx, const fv_sequences *s, list *l, int64_t *total)
{
    *total = 0;
    if (!list_make(ctx, s->count, 0, l)) return false;
    for (int64_t i = 0; i < s->count; i++) {
        if (s->length[i] < 2) {
            fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: sequence %lld has no next token",
                      (long long)i);
            return false;
        }
        l->tokens[i] = s->tokens[i];
        l->length[i] = s->length[i] - 1;
        *total += l->length[i];
    }
    return true;
}

fv_tensor *fv_transformer_lm_loss(fv_ctx *ctx, const fv_transformer *model,
                                  const fv_sequences *sequences, const fv_pass *pass)
{
    list inputs;
    int64_t total, varlen = 0;
    fv_tensor *loss = ctx->invalid;
    if (without_last(ctx, sequences, &inputs, &total)) {
        const fv_token_rows rows = fv_transformer_rows(ctx, model, &inputs.as);
        fv_tensor *states = fv_transformer_decode(ctx, model, &rows, NULL, NULL, pass);
        predictions w = room_for(ctx, total);
        for (int64_t i = 0; ctx->error == FV_OK && i < sequences->count; i++) {
            const int64_t from = first_row(&rows, i, varlen);
            for (int64_t t = 0; t < inputs.length[i]; t++)
                expect(&w, from + t, sequences->tokens[i][t + 1]);
            varlen += inputs.length[i];
        }
        loss = sum_losses(ctx, model, states, &w, pass);
    }
    list_free(&inputs);
    return loss;
}

/* ---- pairs --------------------------------------------------------------------------- */

/* BOS and the target, of each pair. */
static bool with_bos(fv_ctx *ctx, const fv_transformer *m, const fv_token_pairs *batch, list *l)
{
    if (!batch->target) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: a batch without targets");
        *l = (list){.ctx = ctx};
        return false;
    }
    const int64_t total = fv_token_pairs_tokens(batch);
    if (!list_make(ctx, batch->count, total, l)) return false;
    if (m->cfg.bos < 0 || m->cfg.eos < 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: sentence pairs need BOS and EOS tokens");
        return false;
    }
    int64_t *to = l->own;
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t n = batch->target_length[i];
        l->tokens[i] = to;
        l->length[i] = n + 1;
        *to++ = m->cfg.bos;
        if (n > 0) memcpy(to, batch->target[i], (size_t)n * sizeof *to);
        to += n;
    }
    return true;
}

fv_tensor *fv_transformer_pair_loss(fv_ctx *ctx, const fv_transformer *model, const fv_batch *given,
                                    const fv_pass *pass)
{
    const fv_token_pairs pairs = fv_token_pairs_of(given), *batch = &pairs;
    list inputs;
    fv_tensor *loss = ctx->invalid;
    int64_t varlen = 0;
    if (with_bos(ctx, model, batch, &inputs)) {
        const fv_sequences sources = {
            .count = batch->count, .tokens = batch->source, .length = batch->source_length};
        const fv_token_rows source = fv_transformer_rows(ctx, model, &sources);
        const fv_token_rows target = fv_transformer_rows(ctx, model, &inputs.as);
        fv_tensor *memory = fv_transformer_encode(ctx, model, &source, pass);
        fv_tensor *states = fv_transformer_decode(ctx, model, &target, memory, &source, pass);
        predictions w = room_for(ctx, fv_token_pairs_tokens(batch));
        for (int64_t i = 0; ctx->error == FV_OK && i < batch->count; i++) {
            const int64_t from = first_row(&target, i, varlen), n = batch->target_length[i];
            for (int64_t t = 0; t <= n; t++)
                expect(&w, from + t, t < n ? batch->target[i][t] : model->cfg.eos);
            varlen += n + 1;
        }
        loss = sum_losses(ctx, model, states, &w, pass);
    }
    list_free(&inputs);
    return loss;
}

/* ---- masked tokens -------------------------------------------------------------------- */

static int64_t count_expected(const fv_sequences *s, const int64_t *const *expected)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->count; i++)
        for (int64_t t = 0; t < s->length[i]; t++)
            n += expected[i][t] != -1;
    return n;
}

fv_tensor *fv_transformer_mlm_loss(fv_ctx *ctx, const fv_transformer *model,
                                   const fv_sequences *sequences, const fv_token_rows *rows,
                                   fv_tensor *states, const int64_t *const *expected,
                                   const fv_pass *pass)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    predictions w = room_for(ctx, count_expected(sequences, expected));
    int64_t varlen = 0;
    for (int64_t i = 0; i < sequences->count; i++) {
        const int64_t from = first_row(rows, i, varlen);
        for (int64_t t = 0; t < sequences->length[i]; t++)
            if (expected[i][t] != -1) expect(&w, from + t, expected[i][t]);
        varlen += sequences->length[i];
    }
    return sum_losses(ctx, model, states, &w, pass);
}

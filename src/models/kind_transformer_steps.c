/*
 * Encoder-decoder Transformers: alignment and search. An alignment is the mean attention over the
 * heads of the last layer but one: the last one already attends to the next word (Garg et al.
 * 2019).
 */
#include <stdio.h>
#include <string.h>

#include "models/kind_transformer.h"
#include "tensor/host_table.h"

/* ---- alignments ------------------------------------------------------------------------ */

/* The BOS token before each target, or alone where there are no targets. */
static fv_status shifted(fv_ctx *ctx, int64_t bos, const fv_token_pairs *batch, fv_arena *room,
                         fv_sequences *out)
{
    const int64_t **tokens = fv_arena_array(room, (size_t)batch->count, sizeof *tokens);
    int64_t *length = fv_arena_array(room, (size_t)batch->count, sizeof *length);
    const int64_t total = batch->target ? fv_token_pairs_tokens(batch) : batch->count;
    int64_t *all = fv_arena_array(room, (size_t)total, sizeof *all);
    FV_RETURN_IF(!tokens || !length || !all, ctx, FV_ERR_MEMORY, "no memory for %lld pairs",
                 (long long)batch->count);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t n = batch->target ? batch->target_length[i] : 0;
        tokens[i] = all;
        length[i] = n + 1;
        *all++ = bos;
        if (n > 0) memcpy(all, batch->target[i], (size_t)n * sizeof *all);
        all += n;
    }
    *out = (fv_sequences){.count = batch->count, .tokens = tokens, .length = length};
    return FV_OK;
}

/* The captured weights of one site: the mean over heads, 0 past the end of a target. */
typedef struct head_mean {
    const fv_sequences *targets;
    fv_tensor *out; /* [count, most target tokens + 1, most source tokens] */
} head_mean;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    head_mean *s = user;
    const int64_t rows = fv_tensor_size(site->captured.weights, 2);
    const int64_t shape[] = {s->targets->count, rows, 1};
    float *inside = fv_host_alloc(ctx, FV_F32, 3, shape);
    for (int64_t i = 0; inside && i < s->targets->count; i++)
        for (int64_t t = 0; t < rows; t++)
            inside[i * rows + t] = t < s->targets->length[i] ? 1.0F : 0.0F;
    fv_tensor *mean = fv_mean(ctx, site->captured.weights, 1, (int[]){1}, false);
    fv_tensor *kept = fv_mul(ctx, mean, fv_host_tensor(ctx, FV_F32, inside, 3, shape, FV_F32));
    s->out = fv_scope_keep(ctx, kept);
    return ctx->error;
}

static fv_tensor *align_in(fv_ctx *ctx, const fv_transformer_self *p, const fv_batch *inputs,
                           fv_arena *room)
{
    const fv_token_pairs pairs = fv_token_pairs_of(inputs);
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_sequences targets;
    const fv_status status = shifted(ctx, c->bos, &pairs, room, &targets);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    char site[40];
    snprintf(site, sizeof site, "decoder.%lld.cross",
             (long long)(c->decoder_layers > 1 ? c->decoder_layers - 2 : 0));
    head_mean mean = {.targets = &targets, .out = ctx->invalid};
    const fv_capture capture = {
        .sites = site, .options = {.weights = true}, .on_weights = take, .user = &mean};
    const fv_pass capturing = {.capture = &capture};
    const fv_encode_call call = {.padded = true};
    fv_memory memory;
    if (fv_encoder_transformer.encode(ctx, p->model, inputs, &call, &memory) != FV_OK)
        return ctx->invalid;
    const fv_token_rows target = fv_token_rows_pad(ctx, &targets, c->pad < 0 ? c->eos : c->pad);
    fv_transformer_decode(ctx, p->model, &target, memory.states, &memory.rows, &capturing);
    return ctx->error == FV_OK ? mean.out : ctx->invalid;
}

fv_tensor *fv_transformer_kind_align(fv_ctx *ctx, void *self, const fv_batch *batch)
{
    fv_arena room;
    fv_arena_init(&room, &ctx->mem);
    fv_tensor *out = align_in(ctx, self, batch, &room);
    fv_arena_free(&room);
    return out;
}

/* ---- search ----------------------------------------------------------------------------- */

/* The first step of each row is fed the last token of its prompt. */
static fv_status set_first_tokens(fv_transformer_self *p, fv_ctx *ctx)
{
    const fv_sequences *prompts = &p->decoder.prompts;
    int64_t *last = fv_arena_array(&p->room, (size_t)prompts->count, sizeof *last);
    FV_RETURN_IF(!last, ctx, FV_ERR_MEMORY, "no memory for %lld prompts",
                 (long long)prompts->count);
    for (int64_t i = 0; i < prompts->count; i++)
        last[i] = prompts->tokens[i][prompts->length[i] - 1];
    p->decoder.first_tokens = last;
    return FV_OK;
}

/* With "source": an encoder-decoder translates each. Without: a decoder continues "tokens". */
fv_status fv_transformer_kind_steps(void *self, const fv_batch *inputs, fv_stepper *out)
{
    fv_transformer_self *p = self;
    fv_transformer_decoder *d = &p->decoder;
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_ctx *ctx = p->model->ctx;
    const bool pairs = c->encoder_layers > 0;
    d->sources = fv_batch_sequences(inputs, "source");
    d->prompts = fv_batch_sequences(inputs, "tokens");
    d->first_tokens = NULL;
    FV_RETURN_IF((pairs ? d->sources.count : d->prompts.count) < 1 || c->decoder_layers < 1, ctx,
                 FV_ERR_ARGUMENT, "transformer: steps need a decoder and the field %s",
                 pairs ? "source" : "tokens");
    if (!d->cache) FV_TRY(fv_cache_create(p->model, &d->cache));
    fv_arena_free(&p->room);
    fv_arena_init(&p->room, &ctx->mem);
    if (pairs) {
        FV_RETURN_IF(c->bos < 0 || c->eos < 0, ctx, FV_ERR_ARGUMENT,
                     "transformer: sentence pairs need BOS and EOS tokens");
        const fv_token_pairs alone = {.count = d->sources.count,
                                      .source = d->sources.tokens,
                                      .source_length = d->sources.length};
        FV_TRY(shifted(ctx, c->bos, &alone, &p->room, &d->prompts));
    } else {
        FV_TRY(set_first_tokens(p, ctx));
    }
    *out = fv_transformer_stepper(d);
    return FV_OK;
}

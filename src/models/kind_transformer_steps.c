/*
 * Transformers with both sides: alignments and search. The attention that stands for an alignment
 * is the mean over the heads of the last layer but one: the last one already attends to the next
 * word (Garg et al. 2019).
 */
#include <stdio.h>
#include <string.h>

#include "models/kind_transformer.h"
#include "tensor/host_table.h"

/* ---- alignments ------------------------------------------------------------------------ */

/* The start token before each target, or alone where there are no targets. */
static fv_status shifted(fv_ctx *ctx, int64_t start, const fv_token_pairs *batch, fv_arena *room,
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
        *all++ = start;
        if (n > 0) memcpy(all, batch->target[i], (size_t)n * sizeof *all);
        all += n;
    }
    *out = (fv_sequences){.count = batch->count, .tokens = tokens, .length = length};
    return FV_OK;
}

/* What a pass shows of one site: the mean over heads, 0 past the end of a target. */
typedef struct sight {
    const fv_sequences *targets;
    fv_tensor *out; /* [count, most target tokens + 1, most source tokens] */
} sight;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    sight *s = user;
    const int64_t rows = fv_tensor_size(site->captured.weights, 2);
    const int64_t shape[] = {s->targets->count, rows, 1};
    float *inside = fv_host_room(ctx, FV_F32, 3, shape);
    for (int64_t i = 0; inside && i < s->targets->count; i++)
        for (int64_t t = 0; t < rows; t++)
            inside[i * rows + t] = t < s->targets->length[i] ? 1.0F : 0.0F;
    fv_tensor *mean = fv_mean(ctx, site->captured.weights, 1, (int[]){1}, false);
    fv_tensor *kept = fv_mul(ctx, mean, fv_host_tensor(ctx, FV_F32, inside, 3, shape, FV_F32));
    s->out = fv_scope_keep(ctx, kept);
    return ctx->error;
}

static fv_tensor *align_in(fv_ctx *ctx, const fv_transformer_self *p, const fv_token_pairs *batch,
                           fv_arena *room)
{
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_sequences targets;
    const fv_status status = shifted(ctx, c->bos, batch, room, &targets);
    if (status != FV_OK) {
        fv_poison_last(ctx, status);
        return ctx->invalid;
    }
    char site[40];
    snprintf(site, sizeof site, "decoder.%lld.cross",
             (long long)(c->decoder_layers > 1 ? c->decoder_layers - 2 : 0));
    sight seen = {.targets = &targets, .out = ctx->invalid};
    const fv_capture capture = {
        .sites = site, .what = {.weights = true}, .take = take, .user = &seen};
    const fv_pass looking = {.capture = &capture};
    const fv_sequences sources = {
        .count = batch->count, .tokens = batch->source, .length = batch->source_length};
    const int64_t fill = c->pad < 0 ? c->eos : c->pad;
    const fv_rows source = fv_rows_pad(ctx, &sources, fill),
                  target = fv_rows_pad(ctx, &targets, fill);
    fv_tensor *memory = fv_transformer_encode(ctx, p->model, &source, NULL);
    fv_transformer_decode(ctx, p->model, &target, memory, &source, &looking);
    return ctx->error == FV_OK ? seen.out : ctx->invalid;
}

fv_tensor *fv_transformer_kind_align(fv_ctx *ctx, void *self, const fv_batch *batch)
{
    const fv_token_pairs pairs = fv_token_pairs_of(batch);
    fv_arena room;
    fv_arena_init(&room, &ctx->mem);
    fv_tensor *out = align_in(ctx, self, &pairs, &room);
    fv_arena_free(&room);
    return out;
}

/* ---- search ----------------------------------------------------------------------------- */

static fv_status begin(void *user, int64_t sources)
{
    fv_transformer_self *p = user;
    (void)sources; /* as many as were given to the stepper */
    return fv_cache_begin(p->cache, &p->prompts, p->sources.count ? &p->sources : NULL, 0);
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_transformer_self *p = user;
    (void)want_weights; /* the cache keeps none */
    out->logits = fv_cache_step(ctx, p->cache, tokens);
    return ctx->error;
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    fv_transformer_self *p = user;
    return fv_cache_select(p->cache, rows, from);
}

/* The last token of each prompt is what the first step is fed. */
static fv_status last_tokens(fv_transformer_self *p, fv_ctx *ctx, fv_stepper *out)
{
    int64_t *last = fv_arena_array(&p->room, (size_t)p->prompts.count, sizeof *last);
    FV_RETURN_IF(!last, ctx, FV_ERR_MEMORY, "no memory for %lld prompts",
                 (long long)p->prompts.count);
    for (int64_t i = 0; i < p->prompts.count; i++)
        last[i] = p->prompts.tokens[i][p->prompts.length[i] - 1];
    out->first_tokens = last;
    return FV_OK;
}

/* With "source": an encoder-decoder answers each. Without: a decoder continues "tokens". */
fv_status fv_transformer_kind_steps(void *self, const fv_batch *inputs, fv_stepper *out)
{
    fv_transformer_self *p = self;
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_ctx *ctx = p->model->ctx;
    const bool pairs = c->encoder_layers > 0;
    p->sources = fv_batch_sequences(inputs, "source");
    p->prompts = fv_batch_sequences(inputs, "tokens");
    FV_RETURN_IF((pairs ? p->sources.count : p->prompts.count) < 1 || c->decoder_layers < 1, ctx,
                 FV_ERR_ARGUMENT, "transformer: steps need a decoder and the field %s",
                 pairs ? "source" : "tokens");
    if (!p->cache) FV_FORWARD(fv_cache_create(p->model, &p->cache));
    fv_arena_free(&p->room);
    fv_arena_init(&p->room, &ctx->mem);
    *out = (fv_stepper){.user = p,
                        .max_choices = c->target_vocabulary ? c->target_vocabulary : c->vocabulary,
                        .bos = c->bos,
                        .eos = c->eos,
                        .begin = begin,
                        .step = step,
                        .select = select_rows};
    if (!pairs) return last_tokens(p, ctx, out);
    FV_RETURN_IF(c->bos < 0 || c->eos < 0, ctx, FV_ERR_ARGUMENT,
                 "pairs need tokens to start and to end with");
    const fv_token_pairs alone = {
        .count = p->sources.count, .source = p->sources.tokens, .source_length = p->sources.length};
    return shifted(ctx, c->bos, &alone, &p->room, &p->prompts);
}

/* Steps through the key-value cache. The cache is the state, so the parts' tensors stay empty. */
#include "models/parts/transformer_parts.h"

#include "fovea/autograd.h"

/* ---- the part ------------------------------------------------------------------------------- */

/* memory->n 0: a decoder without an encoder. */
static fv_status first_state(fv_ctx *ctx, void *self, const fv_memory *memory,
                             fv_decoder_state *out)
{
    fv_transformer_decoder *d = self;
    (void)ctx;
    *out = (fv_decoder_state){.tensor = {NULL}};
    return fv_cache_fill(d->cache, &d->prompts, memory->n > 0 ? memory : NULL, d->more);
}

static fv_decoder_step step(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state)
{
    fv_transformer_decoder *d = self;
    (void)state;
    return (fv_decoder_step){.logits = fv_cache_step(ctx, d->cache, call->tokens)};
}

static fv_status select_rows(void *self, int64_t rows, const int64_t *from)
{
    fv_transformer_decoder *d = self;
    return fv_cache_select(d->cache, rows, from);
}

const fv_decoder_part fv_decoder_transformer = {
    .name = "transformer",
    .summary = "blocks of self-attention and cross-attention",
    .choices = FV_CHOICES_VOCABULARY,
    .first_state = first_state,
    .step = step,
    .select = select_rows,
};

/* ---- as a stepper --------------------------------------------------------------------------- */

/* Encodes the sources and fills the cache from them and the prompts. */
static fv_status begin(void *user, int64_t sources)
{
    fv_transformer_decoder *d = user;
    fv_cache *c = d->cache;
    fv_ctx *ctx = c->ctx;
    const fv_encode_call call = {.training = false};
    const bool reads = d->sources.count > 0;
    fv_memory memory = {.n = 0};
    fv_decoder_state state;
    (void)sources; /* as many as there are prompts */
    FV_TRY(fv_cache_check(c, &d->prompts, reads ? &d->sources : NULL));
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_status status = FV_OK;
    if (reads) status = fv_transformer_memory(ctx, c->model, &d->sources, &call, &memory);
    if (status == FV_OK) status = first_state(ctx, d, &memory, &state);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

fv_status fv_cache_begin(fv_cache *cache, const fv_sequences *prompts, const fv_sequences *sources,
                         int64_t more)
{
    fv_transformer_decoder d = {.cache = cache, .prompts = *prompts, .more = more};
    if (sources) d.sources = *sources;
    return begin(&d, prompts->count);
}

static fv_status take_step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                           fv_step_output *out)
{
    const fv_decoder_call call = {.tokens = tokens};
    fv_decoder_state state;
    (void)want_weights; /* the cache keeps none */
    out->logits = step(ctx, user, &call, &state).logits;
    return ctx->error;
}

fv_stepper fv_transformer_stepper(fv_transformer_decoder *d)
{
    const fv_transformer_config *c = &d->cache->model->cfg;
    return (fv_stepper){.user = d,
                        .max_choices = c->target_vocabulary ? c->target_vocabulary : c->vocabulary,
                        .bos = c->bos,
                        .eos = c->eos,
                        .first_tokens = d->first_tokens,
                        .begin = begin,
                        .step = take_step,
                        .select = select_rows};
}

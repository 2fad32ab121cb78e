/* Generation from tokens: settings, limits, search and results. */
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "models/context_shift.h"
#include "models/generate.h"
#include "models/model.h"
#include "models/parts/transformer_parts.h"

/* ---- settings -------------------------------------------------------------------------- */

static void apply_generation(fv_generate_config *cfg, const fv_generation_defaults *w)
{
    fv_search_config *d = &cfg->search;
    d->as_transformers = true;
    d->early_stopping = w->early_stopping;
    d->sample = w->sample;
    d->beam = w->beams > 0 && w->beams < 1000 ? (int)w->beams : 1;
    d->length_alpha = w->length_penalty;
    d->temperature = w->temperature;
    d->top_k = w->top_k;
    d->top_p = w->top_p;
    d->min_p = w->min_p;
    d->repetition_penalty = w->repetition_penalty;
    d->min_tokens = w->min_new_tokens;
    d->min_length = w->min_length;
    d->no_repeat_ngram = w->no_repeat_ngram;
    d->forced_first = w->forced_first;
    d->forced_last = w->forced_last;
    d->banned = w->banned;
    d->banned_lengths = w->banned_lengths;
    d->banned_count = w->banned_count;
    d->renormalize = w->renormalize;
    d->extra_eos = w->eos;
    d->extra_eos_count = w->eos_count;
    cfg->max_tokens = w->max_new_tokens;
    cfg->max_length = w->max_length;
}

void fv_generate_config_init(fv_generate_config *cfg, size_t struct_size,
                             const fv_generation_defaults *defaults)
{
    fv_generate_config made = {.struct_size = struct_size};
    fv_search_config_init(&made.search, sizeof made.search);
    if (defaults) apply_generation(&made, defaults);
    fv_config_set_defaults(cfg, struct_size, &made, sizeof made);
}

/* ---- one call --------------------------------------------------------------------------- */

typedef struct run {
    fv_model *model;                /* whose stepper continues the prompts; NULL: the decoder's */
    fv_transformer_decoder decoder; /* with a model, only its prompts count */
    fv_ctx *ctx;
    const fv_generate_config *cfg;
    fv_search_config search;   /* as the search gets it */
    const fv_sequences *given; /* the caller's sources, or NULL */
    fv_sequences prompts;      /* whole; those of the decoder fit its context */
    fv_context_shift shift;    /* context 0: prompts and outputs fit */
    fv_arena arena;            /* what follows */
    int64_t *max_tokens, *first;
    fv_text_stream stream;
} run;

/* ---- checks and limits ------------------------------------------------------------------- */

static fv_status check(fv_ctx *ctx, const fv_tokenizer *tok, const fv_generate_config *cfg)
{
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(cfg->max_tokens < 0 || cfg->stop_count < 0 || cfg->max_length < 0, ctx,
                 FV_ERR_ARGUMENT,
                 "generate: %lld tokens at most, %lld with the prompt, %d stop texts",
                 (long long)cfg->max_tokens, (long long)cfg->max_length, cfg->stop_count);
    FV_RETURN_IF((int)cfg->context_full < FV_CONTEXT_FAIL || cfg->context_full > FV_CONTEXT_SHIFT,
                 ctx, FV_ERR_ARGUMENT, "generate: context_full %d", (int)cfg->context_full);
    FV_RETURN_IF(!tok && (cfg->stop_count > 0 || cfg->on_text), ctx, FV_ERR_ARGUMENT,
                 "generate: texts need a tokenizer");
    FV_RETURN_IF(cfg->on_text && !cfg->search.sample && cfg->search.beam > 1, ctx, FV_ERR_ARGUMENT,
                 "generate: on_text needs greedy search or sampling: a beam's best output is known "
                 "at the end");
    return FV_OK;
}

static bool is_empty(const run *r, int64_t i)
{
    return r->given && i < r->given->count && r->given->length[i] < 1;
}

/* Sources of the search. An empty source has an empty output; it still gets a row of one token, so
 * that the others keep their numbers. */
static fv_status fill_sources(run *r)
{
    static const int64_t any = 0;
    const size_t count = (size_t)r->given->count;
    const int64_t **tokens = fv_arena_array(&r->arena, count, sizeof *tokens);
    int64_t *length = fv_arena_array(&r->arena, count, sizeof *length);
    FV_RETURN_IF(!tokens || !length, r->ctx, FV_ERR_MEMORY, "generate: no memory for %zu sources",
                 count);
    r->decoder.sources = *r->given;
    for (int64_t i = 0; i < r->given->count; i++) {
        tokens[i] = is_empty(r, i) ? &any : r->given->tokens[i];
        length[i] = is_empty(r, i) ? 1 : r->given->length[i];
    }
    r->decoder.sources.tokens = tokens;
    r->decoder.sources.length = length;
    return FV_OK;
}

/* With an encoder and without prompts: the BOS token for every source. */
static fv_status bos_prompts(run *r, int64_t count)
{
    const fv_transformer_config *c = fv_transformer_settings(r->decoder.cache->model);
    FV_RETURN_IF(c->bos < 0, r->ctx, FV_ERR_ARGUMENT, "generate: the model has no BOS token");
    const int64_t **tokens = fv_arena_array(&r->arena, (size_t)count, sizeof *tokens);
    int64_t *length = fv_arena_array(&r->arena, (size_t)count, sizeof *length);
    FV_RETURN_IF(!tokens || !length, r->ctx, FV_ERR_MEMORY, "generate: no memory for %lld sources",
                 (long long)count);
    for (int64_t i = 0; i < count; i++) {
        tokens[i] = &c->bos;
        length[i] = 1;
    }
    r->prompts = (fv_sequences){.count = count, .tokens = tokens, .length = length};
    return FV_OK;
}

static int64_t context_of(const run *r)
{
    if (!r->model) return fv_cache_max_tokens(r->decoder.cache->model);
    const int64_t context = fv_generate_context(r->model);
    return context > 0 ? context : FV_CONTEXT_UNBOUNDED;
}

/* The token that stays at the beginning of a context. */
static int64_t bos_of(const run *r)
{
    return r->model ? -1 : fv_transformer_settings(r->decoder.cache->model)->bos;
}

/* With an encoder, prompts of several tokens cannot be encoded again. */
static bool can_shift(const run *r)
{
    return r->cfg->context_full == FV_CONTEXT_SHIFT && !r->given;
}

/* The prompts of the decoder: of one that leaves no room in the context, what a shift keeps. */
static fv_status fit_prompts(run *r)
{
    const int64_t context = context_of(r), bos = bos_of(r);
    r->decoder.prompts = r->prompts;
    if (!can_shift(r)) return FV_OK;
    const size_t count = (size_t)r->prompts.count;
    const int64_t **tokens = fv_arena_array(&r->arena, count, sizeof *tokens);
    int64_t *length = fv_arena_array(&r->arena, count, sizeof *length);
    FV_RETURN_IF(!tokens || !length, r->ctx, FV_ERR_MEMORY, "generate: no memory for %zu prompts",
                 count);
    for (size_t i = 0; i < count; i++) {
        const int64_t *whole = r->prompts.tokens[i];
        length[i] = r->prompts.length[i];
        tokens[i] = whole;
        if (length[i] < context) continue;
        int64_t *part = fv_arena_array(&r->arena, (size_t)fv_context_kept(context), sizeof *part);
        FV_RETURN_IF(!part, r->ctx, FV_ERR_MEMORY, "generate: no memory for a prompt");
        length[i] = fv_context_shorten(whole, length[i], context, bos, part);
        tokens[i] = part;
    }
    r->decoder.prompts.tokens = tokens;
    r->decoder.prompts.length = length;
    return FV_OK;
}

/* Limits the new tokens of prompt i. */
static fv_status set_max_tokens(run *r, int64_t i)
{
    const int64_t context = context_of(r), has = r->decoder.prompts.length[i], left = context - has;
    const int64_t asked = r->cfg->max_tokens;
    const bool fails = r->cfg->context_full == FV_CONTEXT_FAIL, shifts = can_shift(r);
    FV_RETURN_IF(has < 1, r->ctx, FV_ERR_ARGUMENT, "generate: prompt %lld is empty", (long long)i);
    FV_RETURN_IF((!shifts && left < 1) || (fails && asked > left), r->ctx, FV_ERR_LIMIT,
                 "generate: prompt %lld has %lld tokens, and with %lld more it does not fit the "
                 "model's context of %lld",
                 (long long)i, (long long)has, (long long)(asked && fails ? asked : 1),
                 (long long)context);
    int64_t most = asked;
    if (asked == 0 || (asked > left && !shifts)) most = left > 0 ? left : 1;
    if (most > left) r->shift.context = context;
    const int64_t length = asked == 0 ? r->cfg->max_length : 0;
    if (asked == 0 && length == 0 && context == FV_CONTEXT_UNBOUNDED)
        most = r->given ? 2 * r->decoder.sources.length[i] + 10 : 256;
    if (length > 0 && length - r->prompts.length[i] < most)
        most = length > r->prompts.length[i] ? length - r->prompts.length[i] : 1;
    if (is_empty(r, i)) most = 0;
    r->max_tokens[i] = most;
    r->first[i] = r->decoder.prompts.tokens[i][has - 1];
    const int64_t stored = most < left ? most : left;
    if (stored > r->decoder.more) r->decoder.more = stored;
    return FV_OK;
}

static fv_status plan(run *r, const fv_tokenizer *tok)
{
    const int64_t count = r->prompts.count;
    FV_TRY(fit_prompts(r));
    r->max_tokens = fv_arena_array(&r->arena, (size_t)count, sizeof *r->max_tokens);
    r->first = fv_arena_array(&r->arena, (size_t)count, sizeof *r->first);
    r->search = r->cfg->search;
    const int outputs_per_text = r->search.sample ? r->search.nbest : 1;
    size_t all;
    FV_RETURN_IF(outputs_per_text < 1 ||
                     !fv_checked_mul_size((size_t)count, (size_t)outputs_per_text, &all),
                 r->ctx, FV_ERR_ARGUMENT, "generate: %d outputs", outputs_per_text);
    fv_stream_output *stream_outputs = fv_arena_array(&r->arena, all, sizeof *stream_outputs);
    FV_RETURN_IF(!r->max_tokens || !r->first || !stream_outputs, r->ctx, FV_ERR_MEMORY,
                 "generate: no memory for %lld prompts", (long long)count);
    memset(stream_outputs, 0, all * sizeof *stream_outputs);
    for (int64_t i = 0; i < count; i++)
        FV_TRY(set_max_tokens(r, i));
    r->stream = (fv_text_stream){.ctx = r->ctx,
                                 .tok = tok,
                                 .cfg = r->cfg,
                                 .search = &r->search,
                                 .outputs_per_text = outputs_per_text,
                                 .outputs = stream_outputs};
    if (!r->search.prompts) {
        r->search.prompts = r->prompts.tokens;
        r->search.prompt_lengths = r->prompts.length;
    }
    const bool token_by_token = r->search.sample || r->search.beam == 1;
    if (token_by_token && (r->cfg->on_text || r->cfg->stop_count > 0)) {
        r->search.on_token = fv_text_stream_on_token;
        r->search.on_token_user = &r->stream;
    }
    return FV_OK;
}

/* ---- results ------------------------------------------------------------------------------ */

static fv_status make_results(fv_ctx *ctx, int64_t texts, int nbest, fv_generated **out)
{
    fv_generated *g = fv_mem_zalloc(&ctx->mem, sizeof *g);
    FV_RETURN_IF(!g, ctx, FV_ERR_MEMORY, "generate: no memory for results");
    g->ctx = ctx;
    g->texts = texts;
    g->nbest = nbest;
    fv_arena_init(&g->arena, &ctx->mem);
    g->outputs = fv_arena_array(&g->arena, (size_t)texts * (size_t)nbest, sizeof *g->outputs);
    g->found = fv_arena_array(&g->arena, (size_t)texts, sizeof *g->found);
    if (!g->outputs || !g->found) {
        fv_generated_free(&g);
        return fv_fail(ctx, FV_ERR_MEMORY, "generate: no memory for results");
    }
    memset(g->found, 0, (size_t)texts * sizeof *g->found);
    *out = g;
    return FV_OK;
}

void fv_generated_free(fv_generated **generated)
{
    fv_generated *g = *generated;
    if (!g) return;
    fv_ctx *ctx = g->ctx;
    fv_arena_free(&g->arena);
    fv_mem_free(&ctx->mem, g, sizeof *g);
    *generated = NULL;
}

const fv_generated_text *fv_generated_get(const fv_generated *g, int64_t text, int n)
{
    if (text < 0 || text >= g->texts || n < 0 || n >= g->found[text]) return NULL;
    return &g->outputs[text * g->nbest + n];
}

/* Whether tokens were dropped before the last one was chosen. */
static bool is_shifted(const run *r, int64_t text, const fv_output *o)
{
    const int64_t has = r->decoder.prompts.length[text], chosen = o->count + (o->ended ? 1 : 0);
    return has < r->prompts.length[text] || has + chosen > context_of(r);
}

/* What ended an output that no end token, stop text or callback ended. */
static fv_generated_end end_of_tokens(const run *r, int64_t text)
{
    const int64_t has = r->decoder.prompts.length[text], most = r->max_tokens[text];
    const bool all = r->cfg->max_tokens > 0 && most == r->cfg->max_tokens;
    return !all && has + most == context_of(r) ? FV_ENDED_BY_CONTEXT : FV_ENDED_BY_LENGTH;
}

static fv_status add_result(run *r, fv_generated *g, int64_t text, const fv_output *o)
{
    fv_ctx *ctx = r->ctx;
    const size_t count = (size_t)o->count;
    int64_t *tokens = fv_arena_array(&g->arena, count, sizeof *tokens);
    FV_RETURN_IF(!tokens, ctx, FV_ERR_MEMORY, "generate: no memory for a result");
    for (size_t i = 0; i < count; i++)
        tokens[i] = o->tokens[i];
    fv_text text_of = {0};
    bool stopped = false;
    FV_TRY(fv_decode_until_stop(ctx, r->stream.tok, r->cfg, tokens, o->count, &text_of, &stopped));
    const size_t bytes = text_of.data ? text_of.bytes : 0;
    const char *copy = fv_arena_text(&g->arena, bytes ? text_of.data : "", bytes);
    fv_text_free(ctx, &text_of);
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "generate: no memory for a text");
    const bool cut = !o->ended && o->count < r->max_tokens[text];
    const fv_generated_end by = stopped || cut ? FV_ENDED_BY_STOP
                                : o->ended     ? FV_ENDED_BY_EOS
                                               : end_of_tokens(r, text);
    /* Without a limit, the context is what was asked for. */
    const bool short_of_asked = by == FV_ENDED_BY_CONTEXT && r->cfg->max_tokens > 0;
    g->outputs[text * g->nbest + g->found[text]++] =
        (fv_generated_text){.text = copy,
                            .bytes = bytes,
                            .tokens = tokens,
                            .count = o->count,
                            .ended = by == FV_ENDED_BY_EOS,
                            .stopped = by == FV_ENDED_BY_STOP,
                            .score = o->score,
                            .log_prob = o->log_prob,
                            .context_full = is_shifted(r, text, o) || short_of_asked,
                            .ended_by = by};
    return FV_OK;
}

static fv_status collect(run *r, const fv_outputs *outputs, fv_generated *g)
{
    const fv_output nothing = {.ended = true};
    for (int64_t i = 0; i < r->decoder.prompts.count; i++) {
        const fv_output *o;
        if (is_empty(r, i)) FV_TRY(add_result(r, g, i, &nothing));
        for (int n = 0; (o = fv_outputs_get(outputs, i, n)); n++)
            FV_TRY(add_result(r, g, i, o));
    }
    return FV_OK;
}

/* ---- entry points -------------------------------------------------------------------------- */

/* A model of another kind begins again with all rows. */
static fv_status refill_model(void *user, const fv_sequences *contexts, const int64_t *rows,
                              fv_stepper *inner)
{
    const run *r = user;
    const fv_batch batch = fv_batch_of_tokens(contexts);
    (void)rows;
    FV_TRY(fv_model_kind_of(r->model)->make_stepper(fv_model_self(r->model), &batch, inner));
    return inner->begin(inner->user, contexts->count);
}

static fv_status refill_cache(void *user, const fv_sequences *contexts, const int64_t *rows,
                              fv_stepper *inner)
{
    (void)inner;
    return fv_cache_refill(((const run *)user)->decoder.cache, contexts, rows);
}

static fv_status make_stepper(run *r, fv_stepper *out)
{
    r->decoder.first_tokens = r->first;
    if (r->model) {
        const fv_batch batch = fv_batch_of_tokens(&r->decoder.prompts);
        FV_TRY(fv_model_kind_of(r->model)->make_stepper(fv_model_self(r->model), &batch, out));
    } else {
        *out = fv_transformer_stepper(&r->decoder);
    }
    if (r->shift.context) {
        r->shift.ctx = r->ctx;
        r->shift.inner = *out;
        r->shift.prompts = r->decoder.prompts;
        r->shift.bos = bos_of(r);
        r->shift.refill = r->model ? refill_model : refill_cache;
        r->shift.refills_all = r->model != NULL;
        r->shift.user = r;
        *out = fv_context_shift_stepper(&r->shift);
    }
    out->first_tokens = r->first;
    out->bos = r->first[0];
    return FV_OK;
}

static fv_status search(run *r, fv_generated **out)
{
    fv_stepper stepper;
    FV_TRY(make_stepper(r, &stepper));
    r->stream.eos = stepper.eos;
    fv_outputs *outputs = NULL;
    fv_generated *g = NULL;
    fv_status status =
        fv_search(r->ctx, &stepper, r->decoder.prompts.count, r->max_tokens, &r->search, &outputs);
    if (r->shift.context) fv_context_shift_free(&r->shift);
    if (status == FV_OK) status = fv_text_stream_flush(&r->stream, r->decoder.prompts.count);
    if (status == FV_OK)
        status = make_results(r->ctx, r->decoder.prompts.count, r->search.nbest, &g);
    if (status == FV_OK) status = collect(r, outputs, g);
    fv_outputs_free(&outputs);
    if (status == FV_OK)
        *out = g;
    else
        fv_generated_free(&g);
    return status;
}

static void free_stream_outputs(run *r)
{
    const fv_text_stream *stream = &r->stream;
    for (int64_t i = 0; stream->outputs && i < r->decoder.prompts.count * stream->outputs_per_text;
         i++)
        if (stream->outputs[i].ids)
            fv_mem_free(&r->ctx->mem, stream->outputs[i].ids,
                        (size_t)stream->outputs[i].capacity * sizeof *stream->outputs[i].ids);
}

static fv_status generate(run *r, const fv_tokenizer *tok, const fv_sequences *prompts,
                          const fv_generate_config *settings, fv_generated **out)
{
    fv_ctx *ctx = r->ctx;
    const fv_sequences *sources = r->given;
    fv_generate_config full, *cfg = &full;
    fv_generate_config_init(cfg, sizeof *cfg, NULL);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, settings), ctx, FV_ERR_ARGUMENT,
                 "generate: the config was not initialised");
    FV_TRY(check(ctx, tok, cfg));
    FV_RETURN_IF(!prompts && !sources, ctx, FV_ERR_ARGUMENT,
                 "generate: expected prompts or sources");
    r->cfg = cfg;
    fv_arena_init(&r->arena, &ctx->mem);
    fv_status status = FV_OK;
    if (prompts)
        r->prompts = *prompts;
    else
        status = bos_prompts(r, sources->count);
    if (status == FV_OK && sources) status = fill_sources(r);
    if (status == FV_OK && r->prompts.count < 1)
        status = fv_fail(ctx, FV_ERR_ARGUMENT, "generate: no prompts");
    if (status == FV_OK) status = plan(r, tok);
    if (status == FV_OK) status = search(r, out);
    free_stream_outputs(r);
    fv_arena_free(&r->arena);
    return status;
}

fv_status fv_generate_tokens(fv_cache *cache, const fv_tokenizer *tok, const fv_sequences *prompts,
                             const fv_sequences *sources, const fv_generate_config *cfg,
                             fv_generated **out)
{
    run r = {.decoder = {.cache = cache}, .ctx = cache->ctx, .given = sources};
    return generate(&r, tok, prompts, cfg, out);
}

fv_status fv_generate_by_steps(fv_model *model, const fv_tokenizer *tok,
                               const fv_sequences *prompts, const fv_generate_config *cfg,
                               fv_generated **out)
{
    run r = {.model = model, .ctx = fv_params_ctx(fv_model_params(model))};
    return generate(&r, tok, prompts, cfg, out);
}

int64_t fv_generate_context(fv_model *model)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    return kind->max_length ? kind->max_length(fv_model_self(model)) : 0;
}

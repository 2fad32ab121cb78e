/*
 * Transformers with both sides behind the interface of all models of pairs. The attention that
 * stands for an alignment is the mean over the heads of the last layer but one: the last looks
 * ahead to the word that is to come (Garg et al. 2019).
 */
#include <stdio.h>
#include <string.h>

#include "fovea/cache.h"
#include "fovea/model.h"
#include "io/arena.h"
#include "models/transformer.h"
#include "tensor/host_table.h"

typedef struct pairs {
    fv_transformer *model;
    fv_cache *cache;
    fv_arena room; /* of the search at hand */
    fv_sequences prompts, sources;
} pairs;

/* ---- loss ------------------------------------------------------------------------------ */

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_token_pairs *batch,
                       const fv_teaching *teaching)
{
    const pairs *p = self;
    if (teaching && teaching->sampling > 0) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED,
                  "a Transformer reads the whole target at once: no scheduled sampling");
        return ctx->invalid;
    }
    const fv_pass pass = {.training = teaching != NULL,
                          .checkpoint = teaching && teaching->checkpoint};
    return fv_transformer_pair_loss(ctx, p->model, batch, &pass);
}

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

static fv_status take(void *user, fv_ctx *ctx, const fv_site *site)
{
    sight *s = user;
    const int64_t rows = fv_tensor_size(site->seen.weights, 2);
    const int64_t shape[] = {s->targets->count, rows, 1};
    float *inside = fv_host_room(ctx, FV_F32, 3, shape);
    for (int64_t i = 0; inside && i < s->targets->count; i++)
        for (int64_t t = 0; t < rows; t++)
            inside[i * rows + t] = t < s->targets->length[i] ? 1.0F : 0.0F;
    fv_tensor *mean = fv_mean(ctx, site->seen.weights, 1, (int[]){1}, false);
    fv_tensor *kept = fv_mul(ctx, mean, fv_host_tensor(ctx, FV_F32, inside, 3, shape, FV_F32));
    s->out = fv_scope_keep(ctx, kept);
    return ctx->error;
}

static fv_tensor *align_in(fv_ctx *ctx, const pairs *p, const fv_token_pairs *batch, fv_arena *room)
{
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_sequences targets;
    const fv_status status = shifted(ctx, c->start, batch, room, &targets);
    if (status != FV_OK) {
        fv_poison_last(ctx, status);
        return ctx->invalid;
    }
    char site[40];
    snprintf(site, sizeof site, "decoder.%lld.cross",
             (long long)(c->decoder_layers > 1 ? c->decoder_layers - 2 : 0));
    sight seen = {.targets = &targets, .out = ctx->invalid};
    const fv_capture capture = {
        .sites = site, .look = {.weights = true}, .take = take, .user = &seen};
    const fv_pass looking = {.capture = &capture};
    const fv_sequences sources = {
        .count = batch->count, .tokens = batch->source, .length = batch->source_length};
    const int64_t fill = c->pad < 0 ? c->end : c->pad;
    const fv_rows source = fv_rows_pad(ctx, &sources, fill),
                  target = fv_rows_pad(ctx, &targets, fill);
    fv_tensor *memory = fv_transformer_encode(ctx, p->model, &source, NULL);
    fv_transformer_decode(ctx, p->model, &target, memory, &source, &looking);
    return ctx->error == FV_OK ? seen.out : ctx->invalid;
}

static fv_tensor *align(fv_ctx *ctx, void *self, const fv_token_pairs *batch)
{
    fv_arena room;
    fv_arena_init(&room, &ctx->mem);
    fv_tensor *out = align_in(ctx, self, batch, &room);
    fv_arena_free(&room);
    return out;
}

/* ---- search ----------------------------------------------------------------------------- */

static fv_status begin(void *user, int64_t sources)
{
    pairs *p = user;
    (void)sources; /* as many as were given to the stepper */
    return fv_cache_begin(p->cache, &p->prompts, &p->sources, 0);
}

static fv_tensor *step(void *user, fv_ctx *ctx, fv_tensor *tokens, fv_tensor **weights)
{
    pairs *p = user;
    if (weights) *weights = NULL;
    return fv_cache_step(ctx, p->cache, tokens);
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    pairs *p = user;
    return fv_cache_select(p->cache, rows, from);
}

static fv_status stepper(void *self, const fv_token_pairs *sources, fv_stepper *out)
{
    pairs *p = self;
    const fv_transformer_config *c = fv_transformer_settings(p->model);
    fv_ctx *ctx = p->model->ctx;
    fv_arena_free(&p->room);
    fv_arena_init(&p->room, &ctx->mem);
    const fv_token_pairs alone = {.count = sources->count,
                                  .source = sources->source,
                                  .source_length = sources->source_length};
    FV_FORWARD(shifted(ctx, c->start, &alone, &p->room, &p->prompts));
    p->sources = (fv_sequences){
        .count = sources->count, .tokens = sources->source, .length = sources->source_length};
    *out = (fv_stepper){.user = p,
                        .vocabulary = c->target_vocabulary ? c->target_vocabulary : c->vocabulary,
                        .start = c->start,
                        .end = c->end,
                        .begin = begin,
                        .step = step,
                        .select = select_rows};
    return FV_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

static fv_status save(fv_ctx *ctx, const void *self, const char *folder)
{
    const pairs *p = self;
    (void)ctx;
    return fv_transformer_save_settings(p->model, folder);
}

static void destroy(void *self)
{
    pairs *p = self;
    fv_ctx *ctx = p->model->ctx;
    fv_cache_destroy(&p->cache);
    fv_arena_free(&p->room);
    fv_transformer_destroy(&p->model);
    fv_mem_free(&ctx->mem, p, sizeof *p);
}

fv_status fv_transformer_pairs(fv_transformer *model, fv_pair_model *out)
{
    fv_ctx *ctx = model->ctx;
    const fv_transformer_config *c = fv_transformer_settings(model);
    FV_RETURN_IF(c->encoder_layers < 1 || c->decoder_layers < 1 || c->start < 0 || c->end < 0, ctx,
                 FV_ERR_ARGUMENT,
                 "pairs need an encoder, a decoder, and tokens to start and to end with");
    pairs *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for a model");
    fv_arena_init(&p->room, &ctx->mem);
    const fv_status status = fv_cache_create(model, &p->cache);
    if (status != FV_OK) {
        fv_mem_free(&ctx->mem, p, sizeof *p);
        return status;
    }
    p->model = model;
    *out = (fv_pair_model){.self = p,
                           .loss = loss,
                           .align = align,
                           .stepper = stepper,
                           .save = save,
                           .destroy = destroy};
    return FV_OK;
}

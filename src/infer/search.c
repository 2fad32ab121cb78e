/* fv_search: checks, then one of the two searches. */
#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "fovea/autograd.h"
#include "infer/search.h"

void fv_search_config_init(fv_search_config *cfg, size_t struct_size)
{
    const fv_search_config defaults = {.struct_size = struct_size,
                                       .beam = 1,
                                       .nbest = 1,
                                       .temperature = 1,
                                       .top_p = 1,
                                       .forced_first = -1,
                                       .forced_last = -1,
                                       .repetition_penalty = 1};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static fv_status check_banned(fv_ctx *ctx, const fv_stepper *stepper, const fv_search_config *cfg)
{
    const int64_t *token = cfg->banned;
    for (int i = 0; i < cfg->banned_count; i++) {
        const int length = cfg->banned_lengths ? cfg->banned_lengths[i] : 1;
        FV_RETURN_IF(length < 1, ctx, FV_ERR_ARGUMENT, "search: banned word %d has no tokens", i);
        for (int k = 0; k < length; k++, token++)
            FV_RETURN_IF(*token < 0 || *token >= stepper->max_choices, ctx, FV_ERR_ARGUMENT,
                         "search: banned token %lld is not a choice", (long long)*token);
    }
    return FV_OK;
}

static fv_status check(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                       const fv_search_config *cfg)
{
    FV_RETURN_IF(sources < 0 || stepper->max_choices < 1 || stepper->eos < -1 ||
                     stepper->eos >= stepper->max_choices,
                 ctx, FV_ERR_ARGUMENT, "search: %lld sources, %lld choices, end token %lld",
                 (long long)sources, (long long)stepper->max_choices, (long long)stepper->eos);
    FV_RETURN_IF(cfg->beam < 1 || cfg->nbest < 1 || (!cfg->sample && cfg->nbest > cfg->beam), ctx,
                 FV_ERR_ARGUMENT, "search: beam %d, nbest %d: nbest is 1 to the beam", cfg->beam,
                 cfg->nbest);
    FV_RETURN_IF(!(cfg->temperature > 0) || cfg->top_k < 0 || !(cfg->top_p > 0) ||
                     !(cfg->min_p >= 0 && cfg->min_p <= 1) || !isfinite(cfg->length_alpha) ||
                     !isfinite(cfg->coverage_beta),
                 ctx, FV_ERR_ARGUMENT, "search: a setting of sampling or scoring is out of range");
    FV_RETURN_IF(!(cfg->repetition_penalty > 0 && isfinite(cfg->repetition_penalty)), ctx,
                 FV_ERR_ARGUMENT, "search: repetition_penalty is %g, expected more than 0",
                 cfg->repetition_penalty);
    FV_RETURN_IF(cfg->forced_first >= stepper->max_choices ||
                     cfg->forced_last >= stepper->max_choices,
                 ctx, FV_ERR_ARGUMENT, "search: a forced token is not a choice");
    FV_RETURN_IF(
        cfg->min_tokens < 0 || cfg->min_length < 0 || cfg->no_repeat_ngram < 0, ctx,
        FV_ERR_ARGUMENT,
        "search: min_tokens %lld, min_length %lld, no_repeat_ngram %lld: expected 0 or more",
        (long long)cfg->min_tokens, (long long)cfg->min_length, (long long)cfg->no_repeat_ngram);
    FV_TRY(check_banned(ctx, stepper, cfg));
    for (int i = 0; i < cfg->extra_eos_count; i++)
        FV_RETURN_IF(cfg->extra_eos[i] < 0 || cfg->extra_eos[i] >= stepper->max_choices, ctx,
                     FV_ERR_ARGUMENT, "search: end token %lld is not a choice",
                     (long long)cfg->extra_eos[i]);
    return FV_OK;
}

static fv_outputs *make_outputs(fv_ctx *ctx, int64_t sources, int room, int nbest)
{
    fv_outputs *outputs = fv_mem_zalloc(&ctx->mem, sizeof *outputs);
    if (!outputs) return NULL;
    outputs->ctx = ctx;
    outputs->sources = sources;
    outputs->room = room;
    outputs->nbest = nbest;
    fv_arena_init(&outputs->arena, &ctx->mem);
    size_t slots;
    if (fv_checked_mul_size((size_t)sources, (size_t)room, &slots)) {
        outputs->list = fv_arena_array(&outputs->arena, slots, sizeof *outputs->list);
        outputs->count = fv_arena_array(&outputs->arena, (size_t)sources, sizeof *outputs->count);
    }
    if (!outputs->list || !outputs->count) {
        fv_outputs_free(&outputs);
        return NULL;
    }
    memset(outputs->count, 0, (size_t)sources * sizeof *outputs->count);
    return outputs;
}

fv_status fv_search(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                    const int64_t *max_tokens, const fv_search_config *settings, fv_outputs **out)
{
    if (ctx->error != FV_OK) return ctx->error;
    fv_search_config full, *cfg = &full;
    fv_search_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, settings), ctx, FV_ERR_ARGUMENT,
                 "search: the config was not initialised");
    FV_TRY(check(ctx, stepper, sources, cfg));
    const bool one_per_row = cfg->sample || cfg->beam == 1;
    const int room = cfg->as_transformers && !one_per_row ? cfg->beam : cfg->nbest;
    fv_outputs *outputs = make_outputs(ctx, sources, room, cfg->nbest);
    FV_RETURN_IF(!outputs, ctx, FV_ERR_MEMORY, "search: no memory for %lld sources",
                 (long long)sources);
    fv_search_run search = {.ctx = ctx,
                            .stepper = stepper,
                            .cfg = cfg,
                            .sources = sources,
                            .max_tokens = max_tokens,
                            .outputs = outputs};
    if (fv_search_has_processors(&search)) {
        search.unprocessed = fv_arena_array(&outputs->arena, (size_t)stepper->max_choices,
                                            sizeof *search.unprocessed);
        if (!search.unprocessed) {
            fv_outputs_free(&outputs);
            return fv_fail(ctx, FV_ERR_MEMORY, "search: no memory for %lld choices",
                           (long long)stepper->max_choices);
        }
    }
    fv_no_grad_begin(ctx);
    fv_status status = sources > 0 ? stepper->begin(stepper->user, sources) : FV_OK;
    if (status == FV_OK && sources > 0)
        status = one_per_row ? fv_search_greedy(&search) : fv_search_beam(&search);
    fv_no_grad_end(ctx);
    if (status == FV_OK) status = ctx->error;
    if (status == FV_OK)
        *out = outputs;
    else
        fv_outputs_free(&outputs);
    return status;
}

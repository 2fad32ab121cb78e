/* The public side of decoding: checks, then one of the two searches. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "fovea/autograd.h"
#include "infer/outputs.h"

void fv_decode_config_init(fv_decode_config *cfg, size_t struct_size)
{
    const fv_decode_config defaults = {.struct_size = struct_size,
                                       .beam = 1,
                                       .nbest = 1,
                                       .temperature = 1,
                                       .top_p = 1,
                                       .forced_first = -1,
                                       .forced_last = -1,
                                       .repetition_penalty = 1};
    fv_config_fill(cfg, struct_size, &defaults, sizeof defaults);
}

static fv_status check_banned(fv_ctx *ctx, const fv_stepper *stepper, const fv_decode_config *cfg)
{
    const int64_t *token = cfg->banned;
    for (int i = 0; i < cfg->banned_count; i++) {
        const int length = cfg->banned_lengths ? cfg->banned_lengths[i] : 1;
        FV_RETURN_IF(length < 1, ctx, FV_ERR_ARGUMENT, "decode: banned word %d has no tokens", i);
        for (int k = 0; k < length; k++, token++)
            FV_RETURN_IF(*token < 0 || *token >= stepper->vocabulary, ctx, FV_ERR_ARGUMENT,
                         "decode: banned token %lld is not in the vocabulary", (long long)*token);
    }
    return FV_OK;
}

static fv_status check(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                       const fv_decode_config *cfg)
{
    FV_RETURN_IF(cfg->struct_size != sizeof *cfg, ctx, FV_ERR_ARGUMENT,
                 "decode: the config was not initialised");
    FV_RETURN_IF(sources < 0 || stepper->vocabulary < 1 || stepper->end < -1 ||
                     stepper->end >= stepper->vocabulary,
                 ctx, FV_ERR_ARGUMENT, "decode: %lld sources, %lld tokens, end token %lld",
                 (long long)sources, (long long)stepper->vocabulary, (long long)stepper->end);
    FV_RETURN_IF(cfg->beam < 1 || cfg->nbest < 1 || (!cfg->sample && cfg->nbest > cfg->beam), ctx,
                 FV_ERR_ARGUMENT, "decode: beam %d, nbest %d: nbest is 1 to the beam", cfg->beam,
                 cfg->nbest);
    FV_RETURN_IF(!(cfg->temperature > 0) || cfg->top_k < 0 || !(cfg->top_p > 0) ||
                     !(cfg->min_p >= 0 && cfg->min_p <= 1) || !isfinite(cfg->length_alpha) ||
                     !isfinite(cfg->coverage_beta),
                 ctx, FV_ERR_ARGUMENT, "decode: a setting of sampling or scoring is out of range");
    FV_RETURN_IF(!(cfg->repetition_penalty > 0 && isfinite(cfg->repetition_penalty)), ctx,
                 FV_ERR_ARGUMENT, "decode: a repetition penalty of %g", cfg->repetition_penalty);
    FV_RETURN_IF(cfg->forced_first >= stepper->vocabulary ||
                     cfg->forced_last >= stepper->vocabulary,
                 ctx, FV_ERR_ARGUMENT, "decode: a forced token is not in the vocabulary");
    FV_RETURN_IF(
        cfg->least_tokens < 0 || cfg->least_length < 0 || cfg->no_repeat < 0, ctx, FV_ERR_ARGUMENT,
        "decode: at least %lld tokens, a length of %lld, no runs of %lld twice",
        (long long)cfg->least_tokens, (long long)cfg->least_length, (long long)cfg->no_repeat);
    FV_FORWARD(check_banned(ctx, stepper, cfg));
    for (int i = 0; i < cfg->more_end_count; i++)
        FV_RETURN_IF(cfg->more_ends[i] < 0 || cfg->more_ends[i] >= stepper->vocabulary, ctx,
                     FV_ERR_ARGUMENT, "decode: end token %lld is not in the vocabulary",
                     (long long)cfg->more_ends[i]);
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
    if (fv_mul_size((size_t)sources, (size_t)room, &slots)) {
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

fv_status fv_decode(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                    const int64_t *most_tokens, const fv_decode_config *cfg, fv_outputs **out)
{
    if (ctx->error != FV_OK) return ctx->error;
    FV_FORWARD(check(ctx, stepper, sources, cfg));
    const bool walk = cfg->sample || cfg->beam == 1;
    const int room = cfg->as_transformers && !walk ? cfg->beam : cfg->nbest;
    fv_outputs *outputs = make_outputs(ctx, sources, room, cfg->nbest);
    FV_RETURN_IF(!outputs, ctx, FV_ERR_MEMORY, "decode: no memory for %lld sources",
                 (long long)sources);
    const fv_search search = {.ctx = ctx,
                              .stepper = stepper,
                              .cfg = cfg,
                              .sources = sources,
                              .most_tokens = most_tokens,
                              .outputs = outputs};
    fv_no_grad_begin(ctx);
    fv_status status = sources > 0 ? stepper->begin(stepper->user, sources) : FV_OK;
    if (status == FV_OK && sources > 0)
        status = walk ? fv_search_walk(&search) : fv_search_beam(&search);
    fv_no_grad_end(ctx);
    if (status == FV_OK) status = ctx->error;
    if (status == FV_OK)
        *out = outputs;
    else
        fv_outputs_free(&outputs);
    return status;
}

#include "text/budget.h"

/* FREE + input * per_input, at most what fits a size. */
static uint64_t allowed(uint64_t input, uint64_t per_input)
{
    const uint64_t most = INT64_MAX / 4;
    uint64_t product;
    if (__builtin_mul_overflow(input, per_input, &product) || product > most) return most;
    return FV_TEXT_BUDGET_FREE + product;
}

void fv_text_budget_begin(fv_text_budget *b, fv_ctx *ctx, const char *file, size_t bytes)
{
    *b = (fv_text_budget){.ctx = ctx,
                          .file = file,
                          .stage = "text",
                          .unit = "bytes",
                          .input = bytes,
                          .max_made = (size_t)allowed(bytes, ctx->limits.text_growth),
                          .steps_left = (int64_t)allowed(bytes, ctx->limits.text_steps)};
}

void fv_text_budget_begin_decoding(fv_text_budget *b, fv_ctx *ctx, const char *file, size_t count,
                                   size_t bytes)
{
    fv_text_budget_begin(b, ctx, file, bytes);
    b->unit = "tokens";
    b->input = count;
    b->max_made = (size_t)allowed(count, ctx->limits.decoded_bytes);
}

fv_status fv_text_budget_make(const fv_text_budget *b, size_t made)
{
    FV_RETURN_IF(made > b->max_made, b->ctx, FV_ERR_LIMIT,
                 "%.200s: %s: makes more than %zu bytes or tokens of %zu %s", b->file, b->stage,
                 b->max_made, b->input, b->unit);
    return FV_OK;
}

fv_status fv_text_budget_check(const fv_text_budget *b)
{
    FV_RETURN_IF(b->steps_left < 0, b->ctx, FV_ERR_LIMIT,
                 "%.200s: %s: takes too many steps for a text of %zu %s", b->file, b->stage,
                 b->input, b->unit);
    return FV_OK;
}

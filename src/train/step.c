#include "train/step.h"

#include "base/ctx.h"

fv_status fv_step_parts_create(fv_ctx *ctx, const fv_recipe *recipe, fv_step_parts *out)
{
    const int64_t count = fv_recipe_int(recipe, "train.accumulate");
    int64_t *first = fv_mem_zalloc(&ctx->mem, (size_t)(count + 1) * sizeof *first);
    FV_RETURN_IF(!first, ctx, FV_ERR_MEMORY, "no memory for a training run");
    *out = (fv_step_parts){.first = first, .count = count};
    return FV_OK;
}

void fv_step_parts_free(fv_ctx *ctx, fv_step_parts *parts)
{
    if (parts->first)
        fv_mem_free(&ctx->mem, parts->first, (size_t)(parts->count + 1) * sizeof *parts->first);
    *parts = (fv_step_parts){.first = NULL};
}

int64_t fv_step_plan_rows(fv_step_parts *parts, int64_t rows, fv_step_plan *plan)
{
    for (int64_t i = 0; i <= parts->count; i++)
        parts->first[i] = i * rows;
    plan->parts = parts->count;
    plan->first_row = parts->first;
    return parts->first[parts->count];
}

fv_train_config fv_step_settings(const fv_recipe *recipe, const char *folder,
                                 fv_train_observer observe, void *user)
{
    fv_train_config cfg;
    fv_train_config_init(&cfg, sizeof cfg);
    fv_train_config_from(recipe, &cfg);
    cfg.folder = folder;
    cfg.observe = observe;
    cfg.observe_user = user;
    return cfg;
}

fv_status fv_step_order(fv_ctx *ctx, const fv_recipe *recipe, int64_t count, fv_step_length length,
                        const void *user, bool shuffle, fv_batches **out)
{
    const size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *lengths = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!lengths, ctx, FV_ERR_MEMORY, "no memory for %lld examples", (long long)count);
    for (int64_t i = 0; i < count; i++)
        lengths[i] = length(user, i);
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.tokens = fv_recipe_int(recipe, "train.batch_tokens");
    cfg.examples = fv_recipe_int(recipe, "train.batch_examples");
    cfg.seed = (uint64_t)fv_recipe_int(recipe, "train.seed");
    cfg.shuffle = shuffle;
    const fv_status status = fv_batches_create(ctx, count, lengths, &cfg, out);
    fv_mem_free(&ctx->mem, lengths, bytes);
    return status;
}

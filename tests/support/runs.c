#include "support/runs.h"

#include "support/test.h"

volatile int run_cancelled;

fv_ctx *run_context(int threads, uint64_t seed)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    cfg.seed = seed;
    cfg.cancel = &run_cancelled;
    fv_ctx *ctx = NULL;
    run_cancelled = 0;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    return ctx;
}

void run_set(fv_ctx *ctx, fv_recipe *recipe, const run_setting *settings)
{
    for (; settings->key; settings++)
        CHECK_OK(ctx, fv_recipe_set(recipe, settings->key, settings->value));
}

fv_recipe *run_recipe(fv_ctx *ctx, const run_setting *settings)
{
    fv_recipe *recipe = NULL;
    CHECK_OK(ctx, fv_run_recipe(ctx, &recipe));
    if (recipe) run_set(ctx, recipe, settings);
    return recipe;
}

void run_observe(void *watch, const fv_train_event *event)
{
    run_watch *w = watch;
    w->seen[event->kind]++;
    if (event->kind == FV_TRAIN_STEP && w->stop > 0 && event->step == w->stop) run_cancelled = 1;
    if (event->kind != FV_TRAIN_EVALUATED) return;
    for (int i = 0; i < event->metric_count && i < 3; i++) {
        if (w->count == 0) w->first[i] = event->metrics[i];
        w->last[i] = event->metrics[i];
    }
    w->count = event->metric_count;
}

fv_status run_text(fv_ctx *ctx, fv_recipe *recipe, const char *folder, run_watch *watch)
{
    fv_run *run = NULL;
    fv_status status = fv_run_create(ctx, recipe, folder, run_observe, watch, &run);
    CHECK_OK(ctx, status);
    if (status == FV_OK) status = fv_run_train(run);
    if (status != FV_OK && status != FV_ERR_CANCELLED)
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    fv_memory_stats memory;
    fv_ctx_memory(ctx, &memory);
    watch->peak_bytes = memory.peak_bytes;
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    run_cancelled = 0;
    return status;
}

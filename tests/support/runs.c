#include "support/runs.h"

#include <string.h>

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

fv_status run_samples(fv_ctx *ctx, const fv_recipe *recipe, fv_model *model, int count,
                      fv_text *out)
{
    const fv_task_kind *kind = fv_task_kind_find(ctx, fv_recipe_text(recipe, "train.task"));
    const fv_task_config cfg = {.ctx = ctx, .recipe = recipe, .folder = ""};
    fv_data_spec spec = {.ability = FV_CAN_TRANSLATE};
    void *task = NULL;
    fv_status status = kind->open(&cfg, &spec, &task);
    if (status == FV_OK && kind->prepare) status = kind->prepare(task, model);
    if (status == FV_OK) status = kind->show(task, model, count, out);
    if (task) kind->close(task);
    fv_tokenizer_destroy(&spec.source);
    return status;
}

void run_check_sites(const fv_model *model, int count)
{
    enum { MOST = 16 };
    const fv_model_kind *kind = fv_model_kind_of(model);
    for (int capacity = 0; capacity <= MOST; capacity++) {
        fv_site sites[MOST + 1];
        memset(sites, 0xab, sizeof sites);
        const fv_site untouched = sites[0];
        CHECK_EQ(kind->attention_sites(fv_model_self(model), sites, capacity), count);
        const int written = capacity < count ? capacity : count;
        CHECK(memcmp(&sites[written], &untouched, sizeof untouched) == 0);
        for (int i = 0; i < written; i++)
            CHECK(sites[i].name[0] != '\0' && sites[i].heads >= 1 && sites[i].heads < 1000);
    }
}

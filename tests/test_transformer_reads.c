/*
 * How often the host waits for the device where a real Transformer trains and generates: once a
 * step, whatever the number of its parts and the compute type, and once a token. The guarded device
 * counts; runs of two lengths are compared, so that what happens once a run does not count.
 */
#include "fovea/generate.h"

#include "base/ctx.h"
#include "device/guarded.h"
#include "fovea/task.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

static fv_ctx *guarded_context(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = FV_DEVICE_GUARDED;
    cfg.seed = 5;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    return ctx;
}

/* ---- training --------------------------------------------------------------------------- */

typedef struct training {
    const char *accumulate, *compute, *dropout;
} training;

static void write_text(void)
{
    char text[4000];
    size_t n = 0;
    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "verse %d\nthe rose is red\n", i % 10);
    file_write(folder_path("text.txt"), text, n);
}

/* The waits of a run of `steps` steps, which is evaluated and saved at its end only. */
static uint64_t waits_of_run(const training *t, const char *steps)
{
    fv_ctx *ctx = guarded_context();
    fv_recipe *recipe =
        run_recipe(ctx, (run_setting[]){{"train.task", "language"},
                                        {"data.train_text", folder_path("text.txt")},
                                        {"data.valid_share", "0.2"},
                                        {"tokens.kind", "char"},
                                        {"tokens.min_count", "1"},
                                        {"transformer.family", "gpt2"},
                                        {"transformer.decoder_layers", "2"},
                                        {"transformer.width", "16"},
                                        {"transformer.heads", "2"},
                                        {"transformer.hidden", "32"},
                                        {"transformer.length", "24"},
                                        {"transformer.dropout", t->dropout},
                                        {"train.batch_tokens", "100"},
                                        {"train.accumulate", t->accumulate},
                                        {"train.compute_dtype", t->compute},
                                        {"train.clip", "1"},
                                        {"train.steps", steps},
                                        {"train.eval_every", steps},
                                        {"train.save_every", steps},
                                        {NULL, NULL}});
    char name[64];
    snprintf(name, sizeof name, "run-%s-%s-%s", t->accumulate, t->compute, steps);
    fv_run *run = NULL;
    run_watch watch = {0};
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub(name), run_observe, &watch, &run));
    const uint64_t before = fv_guarded_waits(ctx->device);
    CHECK_OK(ctx, fv_run_train(run));
    const uint64_t waits = fv_guarded_waits(ctx->device) - before;
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return waits;
}

static void one_wait_a_step(void)
{
    static const training all[] = {
        {"1", "f32", "0"}, {"2", "f32", "0.1"}, {"1", "bf16-always", "0.1"}, {"2", "bf16", "0"}};
    write_text();
    for (int i = 0; i < 4; i++)
        CHECK_EQ(waits_of_run(&all[i], "25") - waits_of_run(&all[i], "10"), 15);
}

/* ---- generating ------------------------------------------------------------------------- */

typedef struct generation {
    const char *folder;
    int beam;
    bool sample;
} generation;

static uint64_t waits_of_text(const generation *g, int64_t tokens)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/fixtures/%s", getenv("FV_TEST_DIR"), g->folder);
    fv_ctx *ctx = guarded_context();
    fv_model *model = NULL;
    fv_cache *cache = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    fv_transformer *transformer = fv_model_transformer(model);
    CHECK_OK(ctx, fv_transformer_pack(transformer, FV_WEIGHT_F32));
    CHECK_OK(ctx, fv_cache_create(transformer, &cache));
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, NULL);
    cfg.max_tokens = cfg.search.min_tokens = tokens; /* no end token comes before */
    cfg.search.beam = g->beam;
    cfg.search.sample = g->sample;
    static const int64_t ids[2][3] = {{3, 7, 11}, {5, 2, 9}};
    const int64_t *lists[2] = {ids[0], ids[1]}, lengths[2] = {3, 2};
    const fv_sequences rows = {.count = 2, .tokens = lists, .length = lengths};
    const bool decodes = fv_transformer_settings(transformer)->encoder_layers == 0;
    const uint64_t before = fv_guarded_waits(ctx->device);
    fv_generated *out = NULL;
    CHECK_OK(ctx, fv_generate_tokens(cache, NULL, decodes ? &rows : NULL, decodes ? NULL : &rows,
                                     &cfg, &out));
    const uint64_t waits = fv_guarded_waits(ctx->device) - before;
    CHECK_EQ(fv_generated_get(out, 1, 0)->count, tokens);
    fv_generated_free(&out);
    fv_cache_destroy(&cache);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    return waits;
}

static void one_wait_a_token(void)
{
    static const generation all[] = {{"gpt2", 1, false},  {"gpt2", 1, true},    {"gpt2", 3, false},
                                     {"llama", 1, false}, {"marian", 1, false}, {"t5", 2, false}};
    for (int i = 0; i < 6; i++)
        CHECK_EQ(waits_of_text(&all[i], 14) - waits_of_text(&all[i], 5), 9);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(one_wait_a_step);
    RUN(one_wait_a_token);
    folder_remove();
    return TEST_END();
}

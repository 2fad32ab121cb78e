/*
 * Language models from recipe to folder: streams of windows and packed documents, interruptions
 * that change no bit, and what the folder then is.
 */
#include "fovea/generate.h"
#include "fovea/transformer.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

static const char *cut = "stream", *compute = "f32";

/* Verses that a model can learn by heart, in paragraphs. */
static void write_text(void)
{
    char text[8000];
    size_t n = 0;
    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "verse %d\nthe rose is red\n%s\n", i % 10,
                              i % 3 == 2 ? "and so are you\n" : "the sky is blue");
    file_write(folder_path("text.txt"), text, n);
}

static fv_recipe *small_recipe(fv_ctx *ctx)
{
    const run_setting values[] = {{"train.task", "language"},
                                  {"data.train_text", folder_path("text.txt")},
                                  {"data.documents", cut},
                                  {"data.valid_share", "0.2"},
                                  {"tokens.kind", "char"},
                                  {"tokens.min_count", "1"},
                                  {"transformer.family", "gpt2"},
                                  {"transformer.decoder_layers", "2"},
                                  {"transformer.width", "16"},
                                  {"transformer.heads", "2"},
                                  {"transformer.hidden", "32"},
                                  {"transformer.length", "24"},
                                  {"transformer.dropout", "0.1"},
                                  {"train.batch_tokens", "100"},
                                  {"train.accumulate", "2"},
                                  {"train.steps", "20"},
                                  {"train.lr", "0.01"},
                                  {"train.eval_every", "10"},
                                  {"train.save_every", "7"},
                                  {"train.compute_dtype", compute},
                                  {NULL, NULL}};
    return run_recipe(ctx, values);
}

static fv_status train(const char *folder, int threads, run_watch *w)
{
    fv_ctx *ctx = run_context(threads, 5);
    return run_text(ctx, small_recipe(ctx), folder, w);
}

static void interruptions_change_no_bit(void)
{
    static const char *const cuts[] = {"stream", "lines", "paragraphs"};
    for (int i = 0; i < 3; i++) {
        char whole[512], pieces[512], name[32];
        cut = cuts[i];
        snprintf(name, sizeof name, "whole-%s", cut);
        snprintf(whole, sizeof whole, "%s", folder_sub(name));
        snprintf(name, sizeof name, "pieces-%s", cut);
        snprintf(pieces, sizeof pieces, "%s", folder_sub(name));
        run_watch w = {0}, early = {.stop = 5}, late = {.stop = 13};
        CHECK_EQ(train(whole, 1, &w), FV_OK);
        CHECK(w.first[0].value > 0 && w.last[0].value < w.first[0].value); /* it learns */
        CHECK_EQ(train(pieces, 2, &early), FV_ERR_CANCELLED);
        CHECK_EQ(train(pieces, 4, &late), FV_ERR_CANCELLED);
        CHECK_EQ(train(pieces, 1, &(run_watch){0}), FV_OK);
        CHECK(file_same_in(whole, pieces, "model.safetensors"));
    }
    cut = "stream";
}

/* Fifty steps over windows of several blocks of keys: one to eight threads, one file. */
static void threads_change_no_bit(void)
{
    char one[512], many[512], name[32];
    for (int threads = 1; threads <= 8; threads++) {
        snprintf(name, sizeof name, "threads-%d", threads);
        snprintf(threads == 1 ? one : many, sizeof one, "%s", folder_sub(name));
        fv_ctx *ctx = run_context(threads, 5);
        fv_recipe *recipe = small_recipe(ctx);
        run_set(ctx, recipe,
                (run_setting[]){{"transformer.length", "400"},
                                {"train.batch_tokens", "800"},
                                {"train.accumulate", "1"},
                                {"train.steps", "50"},
                                {"train.eval_every", "50"},
                                {"train.save_every", "50"},
                                {NULL, NULL}});
        CHECK_EQ(run_text(ctx, recipe, threads == 1 ? one : many, &(run_watch){0}), FV_OK);
        if (threads > 1) CHECK(file_same_in(one, many, "model.safetensors"));
    }
}

/* Blocks that are forgotten and run again, all of them or without their attention: the same bits,
 * dropout included, for less memory. */
static void forgetting_changes_no_bit(void)
{
    static const char *const recompute[3] = {"false", "true", "true"};
    static const char *const keep[3] = {"nothing", "nothing", "attention"};
    static const char *const names[3] = {"remembered", "forgotten", "kept"};
    char folder[3][512];
    run_watch w[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        snprintf(folder[i], sizeof folder[i], "%s", folder_sub(names[i]));
        fv_ctx *ctx = run_context(2, 5);
        fv_recipe *recipe = small_recipe(ctx);
        run_set(ctx, recipe,
                (run_setting[]){{"transformer.decoder_layers", "6"},
                                {"transformer.hidden", "256"},
                                {"train.batch_tokens", "800"},
                                {"train.steps", "5"},
                                {"train.accumulate", "1"},
                                {"train.recompute", recompute[i]},
                                {"train.recompute_keep", keep[i]},
                                {NULL, NULL}});
        CHECK_EQ(run_text(ctx, recipe, folder[i], &w[i]), FV_OK);
    }
    CHECK(file_same_in(folder[0], folder[1], "model.safetensors"));
    CHECK(file_same_in(folder[0], folder[2], "model.safetensors"));
    CHECK(w[1].peak_bytes < 2 * w[0].peak_bytes / 3);
    CHECK(w[1].peak_bytes < w[2].peak_bytes && w[2].peak_bytes < 3 * w[0].peak_bytes / 4);
}

/* Operands of eight bits: the same course, all but for noise, and resumed to the bit. */
static void bf16_learns_as_well(void)
{
    char whole[512], pieces[512];
    snprintf(whole, sizeof whole, "%s", folder_sub("whole-bf16"));
    snprintf(pieces, sizeof pieces, "%s", folder_sub("pieces-bf16"));
    run_watch w = {0}, plain = {0}, early = {.stop = 5}, late = {.stop = 13};
    CHECK_EQ(train(folder_sub("plain-f32"), 2, &plain), FV_OK);
    compute = "bf16-always";
    CHECK_EQ(train(whole, 1, &w), FV_OK);
    CHECK_EQ(train(pieces, 2, &early), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 4, &late), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 1, &(run_watch){0}), FV_OK);
    compute = "f32";
    CHECK(file_same_in(whole, pieces, "model.safetensors"));
    CHECK(plain.last[0].value < plain.first[0].value - 0.2);
    CHECK(fabs(w.last[0].value - plain.last[0].value) < 0.02 &&
          w.last[0].value != plain.last[0].value);
}

/* bf16 is for CPUs whose products are faster in it: at a level without such products a run has the
 * bits of f32, unless the recipe insists. */
static void bf16_is_used_where_it_is_faster(void)
{
    static const char *const types[] = {"f32", "bf16", "bf16-always"};
    char folder[3][512];
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "scalar-%s", types[i]);
        snprintf(folder[i], sizeof folder[i], "%s", folder_sub(name));
        fv_ctx_config cfg;
        fv_ctx *ctx = NULL;
        fv_ctx_config_init(&cfg, sizeof cfg);
        cfg.threads = 1;
        cfg.seed = 5;
        cfg.simd = FV_SIMD_SCALAR;
        CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
        compute = types[i];
        fv_recipe *recipe = small_recipe(ctx);
        run_set(ctx, recipe, (run_setting[]){{"train.steps", "3"}, {NULL, NULL}});
        CHECK_EQ(run_text(ctx, recipe, folder[i], &(run_watch){0}), FV_OK);
    }
    compute = "f32";
    CHECK(file_same_in(folder[0], folder[1], "model.safetensors"));
    CHECK(!file_same_in(folder[0], folder[2], "model.safetensors"));
}

static void the_folder_generates(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_generator *gen = NULL;
    CHECK_OK(ctx, fv_generator_open(ctx, folder_path("whole-stream"), FV_WEIGHT_F32, &gen));
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, fv_generator_defaults(gen));
    cfg.max_tokens = 8;
    fv_generated *out = NULL;
    CHECK_OK(ctx, fv_generate(gen, 1, &(fv_string){"the rose", 8}, &cfg, &out));
    CHECK(fv_generated_get(out, 0, 0)->count > 0);
    fv_generated_free(&out);
    fv_generator_close(&gen);
    fv_ctx_destroy(&ctx);
}

/* A recipe for another model, in a folder that holds a trained one. */
static void another_recipe_spoils_nothing(void)
{
    const char *const folder = folder_path("whole-stream");
    char path[600];
    size_t n = 0, m = 0;
    snprintf(path, sizeof path, "%s/config.json", folder);
    char *before = file_read(path, &n);
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = small_recipe(ctx);
    fv_run *run = NULL;
    CHECK_OK(ctx, fv_recipe_set(recipe, "transformer.width", "32"));
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder, NULL, NULL, &run));
    CHECK_EQ(fv_run_train(run), FV_ERR_FORMAT);
    char *after = file_read(path, &m);
    CHECK(before && after && n == m && memcmp(before, after, n) == 0);
    free(before);
    free(after);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static fv_status start(fv_ctx *ctx, const char *key, const char *value)
{
    fv_recipe *recipe = small_recipe(ctx);
    fv_run *run = NULL;
    CHECK_OK(ctx, fv_recipe_set(recipe, key, value));
    const fv_status status = fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    return status;
}

/* A run in `folder` that begins from the model of whole-stream. */
static fv_run *begin_from(fv_ctx *ctx, fv_recipe *recipe, const char *folder)
{
    fv_run *run = NULL;
    CHECK_OK(ctx, fv_recipe_set(recipe, "train.init_from", folder_path("whole-stream")));
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder, NULL, NULL, &run));
    return run;
}

static bool same_values(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    enum { MOST = 4096 };
    static float x[MOST], y[MOST];
    const size_t bytes = (size_t)fv_tensor_count(a) * sizeof *x;
    if (bytes > sizeof x || fv_tensor_count(a) != fv_tensor_count(b)) return false;
    CHECK_OK(ctx, fv_tensor_read(ctx, a, x, bytes));
    CHECK_OK(ctx, fv_tensor_read(ctx, b, y, bytes));
    return memcmp(x, y, bytes) == 0;
}

static void weights_are_taken_by_name(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = small_recipe(ctx);
    fv_model *model = NULL;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("begun"));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("whole-stream"), &model));
    fv_params *from = fv_model_params(model);
    /* A third layer is new, everything else is there. */
    CHECK_OK(ctx, fv_recipe_set(recipe, "transformer.decoder_layers", "3"));
    fv_run *run = begin_from(ctx, recipe, folder);
    const fv_params *params = fv_model_params(fv_run_model(run));
    const fv_init_report taken = fv_run_init_report(run);
    CHECK_EQ(taken.loaded, fv_params_count(from));
    CHECK_EQ(taken.loaded + taken.random, fv_params_count(params));
    CHECK(taken.random > 0 && strstr(taken.names, "transformer.h.2.") && taken.names_truncated);
    CHECK(!strstr(taken.names, "transformer.h.1."));
    for (int i = 0; i < fv_params_count(from); i++)
        CHECK(same_values(ctx, fv_params_tensor(from, i),
                          fv_params_find(params, fv_params_name(from, i))));
    /* A resumed run keeps its own weights, and does not need the folder. */
    CHECK_OK(ctx, fv_recipe_set(recipe, "train.steps", "1"));
    fv_run_destroy(&run);
    run = begin_from(ctx, recipe, folder);
    CHECK_OK(ctx, fv_run_train(run));
    fv_run_destroy(&run);
    CHECK_OK(ctx, fv_recipe_set(recipe, "train.init_from", folder_path("nowhere")));
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder, NULL, NULL, &run));
    CHECK_EQ(fv_run_init_report(run).loaded, 0);
    fv_run_destroy(&run);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void bad_recipes_are_reported(void)
{
    fv_ctx *ctx = run_context(1, 5);
    CHECK_EQ(start(ctx, "data.train_text", ""), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "data.train_text"));
    CHECK_EQ(start(ctx, "data.train_text", folder_path("nowhere")), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "nowhere"));
    CHECK_EQ(start(ctx, "transformer.family", "bert"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "decoder alone"));
    CHECK_EQ(start(ctx, "data.length", "25"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "24 positions"));
    file_write(folder_path("short.txt"), "too short\n", 10);
    CHECK_EQ(start(ctx, "data.train_text", folder_path("short.txt")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "short.txt"));
    file_write(folder_path("empty.txt"), "", 0);
    CHECK_EQ(start(ctx, "data.train_text", folder_path("empty.txt")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "empty.txt: no text, expected training text"));
    CHECK_EQ(start(ctx, "train.init_from", folder_path("nowhere")), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "nowhere"));
    file_write(folder_path("bad.txt"), "\xff\xfe\n", 3);
    CHECK_EQ(start(ctx, "data.train_text", folder_path("bad.txt")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "bad.txt"));
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    write_text();
    RUN(interruptions_change_no_bit);
    RUN(threads_change_no_bit);
    RUN(forgetting_changes_no_bit);
    RUN(bf16_learns_as_well);
    RUN(bf16_is_used_where_it_is_faster);
    RUN(the_folder_generates);
    RUN(weights_are_taken_by_name);
    RUN(another_recipe_spoils_nothing);
    RUN(bad_recipes_are_reported);
    folder_remove();
    return TEST_END();
}

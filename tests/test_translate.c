/*
 * Translation as a whole: texts to pairs, a run from a recipe to a folder, its interruption, and
 * what the folder then does. The dates of the demo are the data: small, and nothing to download.
 */
#include "fovea/task.h"
#include "fovea/transformer.h"
#include "fovea/translate.h"

#include "fovea/data.h"
#include "fovea/model.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

enum { STEPS = 24 };

static const char *kind = "recurrent"; /* of the models that are trained */

static fv_recipe *small_recipe(fv_ctx *ctx)
{
    static const run_setting values[] = {{"data.made", "dates"},
                                         {"data.train_pairs", "120"},
                                         {"data.valid_pairs", "12"},
                                         {"tokens.kind", "char"},
                                         {"tokens.min_count", "1"},
                                         {"model.embedding", "6"},
                                         {"model.encoder_hidden", "5"},
                                         {"model.hidden", "8"},
                                         {"model.attention_width", "6"},
                                         {"model.readout_width", "7"},
                                         {"model.dropout", "0.1"},
                                         {"model.smoothing", "0.1"},
                                         {"train.steps", "24"},
                                         {"train.lr", "0.01"},
                                         {"train.schedule", "cosine"},
                                         {"train.warmup", "5"},
                                         {"train.clip", "1"},
                                         {"train.batch_tokens", "250"},
                                         {"train.accumulate", "2"},
                                         {"train.sampling", "0.2"},
                                         {"train.eval_every", "8"},
                                         {"train.save_every", "6"},
                                         {"train.log_every", "4"},
                                         {"train.seed", "3"},
                                         {NULL, NULL}};
    static const run_setting others[] = {{"transformer.width", "8"},
                                         {"transformer.heads", "2"},
                                         {"transformer.encoder_layers", "2"},
                                         {"transformer.decoder_layers", "2"},
                                         {"transformer.hidden", "12"},
                                         {"transformer.dropout", "0.1"},
                                         {"train.sampling", "0"},
                                         {"tokens.joint", "true"},
                                         {"model.kind", "transformer"},
                                         {NULL, NULL}};
    fv_recipe *recipe = run_recipe(ctx, values);
    if (recipe && kind[0] == 't') run_set(ctx, recipe, others);
    if (recipe && strcmp(kind, "transformer-bf16") == 0)
        run_set(ctx, recipe, (run_setting[]){{"train.compute_dtype", "bf16-always"}, {NULL, NULL}});
    if (recipe && strcmp(kind, "transformer-forgetful") == 0)
        run_set(ctx, recipe, (run_setting[]){{"train.recompute", "true"}, {NULL, NULL}});
    if (recipe && kind[0] == 'h')
        run_set(ctx, recipe, (run_setting[]){{"model.normaliser", "hard"}, {NULL, NULL}});
    return recipe;
}

static fv_status train(const char *folder, int threads, uint64_t stop)
{
    fv_ctx *ctx = run_context(threads, 3);
    fv_recipe *recipe = small_recipe(ctx);
    fv_run *run = NULL;
    run_watch watch = {.stop = stop};
    fv_status status = fv_run_create(ctx, recipe, folder, run_observe, &watch, &run);
    CHECK_OK(ctx, status);
    if (status == FV_OK) status = fv_run_train(run);
    if (status != FV_OK && status != FV_ERR_CANCELLED)
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    run_cancelled = 0;
    return status;
}

static char *state_of(const char *folder, size_t *bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/state-%08d.safetensors", folder, STEPS);
    return file_read(path, bytes);
}

/* The last state but for the time that was spent. */
static bool same_state(const char *a, const char *b)
{
    size_t n = 0, m = 0;
    char *x = state_of(a, &n), *y = state_of(b, &m);
    bool same = x && y;
    /* Tensors lie at the end; the header differs in the seconds and its checksum. */
    const size_t tail = 4000;
    same = same && n > tail && m > tail && memcmp(x + n - tail, y + m - tail, tail) == 0;
    free(x);
    free(y);
    return same;
}

static const char *folder_of(const char *name)
{
    char both[64];
    snprintf(both, sizeof both, "%s-%s", kind, name);
    return folder_sub(both);
}

static void interruptions_change_no_bit(void)
{
    char whole[512], pieces[512];
    snprintf(whole, sizeof whole, "%s", folder_of("whole"));
    snprintf(pieces, sizeof pieces, "%s", folder_of("pieces"));
    CHECK_EQ(train(whole, 1, 0), FV_OK);
    CHECK_EQ(train(pieces, 2, 5), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 4, 17), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 1, 0), FV_OK);
    CHECK(same_state(whole, pieces));
}

/* What the search says a text is worth is what the loss says. */
static void check_log_prob(fv_model *t, fv_string source, const fv_translation *found)
{
    fv_ctx *ctx = fv_model_ctx(t);
    const fv_model_kind *functions = fv_model_kind_of(t);
    const int64_t first = 0;
    fv_parallel *pairs = NULL;
    fv_batch batch;
    double loss = 0;
    CHECK_OK(ctx, fv_parallel_create(t, &pairs));
    CHECK_OK(ctx, fv_parallel_add(pairs, source, (fv_string){found->text, strlen(found->text)}));
    CHECK_OK(ctx, fv_parallel_pick(pairs, 1, &first, &batch));
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, functions->loss(ctx, fv_model_self(t), &batch, NULL), &loss));
    fv_scope_end(ctx);
    CHECK_NEAR(loss, -found->log_prob, 1e-4 * loss);
    fv_parallel_destroy(&pairs);
}

static void the_folder_translates(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_of("used"));
    CHECK_EQ(train(folder, 2, 0), FV_OK);
    fv_ctx *ctx = run_context(1, 3);
    fv_model *t = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &t));
    if (!t) return;
    const char *const texts[] = {"3 May 1979", "", "Mittwoch, den 3. Oktober 1990", "1/2/2003"};
    fv_string sources[4];
    for (int i = 0; i < 4; i++)
        sources[i] = (fv_string){texts[i], strlen(texts[i])};
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.want_weights = true;
    how.search.beam = 3;
    how.search.nbest = 2;
    fv_translations *all = NULL;
    CHECK_OK(ctx, fv_translate(t, 4, sources, &how, &all));
    CHECK_STR(fv_translations_get(all, 1, 0)->text, "");
    CHECK(fv_translations_get(all, 1, 1) == NULL);
    for (int i = 0; i < 4; i++) {
        /* Alone it is what it is among others, and in any batch. */
        how.batch = 1 + i % 2;
        fv_translations *one = NULL;
        CHECK_OK(ctx, fv_translate(t, 1, &sources[i], &how, &one));
        CHECK_STR(fv_translations_get(one, 0, 0)->text, fv_translations_get(all, i, 0)->text);
        CHECK(fv_translations_get(one, 0, 0)->score == fv_translations_get(all, i, 0)->score);
        fv_translations_free(&one);
    }
    const fv_translation *first = fv_translations_get(all, 0, 0);
    CHECK_EQ(first->source_count, 10);
    CHECK_STR(first->source_tokens[2], "M");
    for (int64_t r = 0; r < first->target_count; r++) {
        double sum = 0;
        for (int64_t c = 0; c < first->source_count; c++)
            sum += (double)first->weights[r * first->source_count + c];
        CHECK_NEAR(sum, 1, 1e-5);
    }
    for (int n = 0; n < 2; n++)
        if (fv_translations_get(all, 0, n)->ended)
            check_log_prob(t, sources[0], fv_translations_get(all, 0, n));
    fv_translations_free(&all);
    CHECK_OK(ctx, fv_translate_given(t, sources[0], (fv_string){"1979-05-03", 10}, &all));
    CHECK_EQ(fv_translations_get(all, 0, 0)->target_count, 10);
    CHECK_STR(fv_translations_get(all, 0, 0)->target_tokens[4], "-");
    fv_translations_free(&all);
    CHECK_EQ(fv_translate(t, 1, &(fv_string){"\xff", 1}, NULL, &all), FV_ERR_FORMAT);
    fv_model_close(&t);
    fv_ctx_destroy(&ctx);
}

/* The baseline, the moving average of the rewards, is saved and resumed, too. */
static void hard_attention_does_the_same(void)
{
    kind = "hard";
    interruptions_change_no_bit();
    kind = "recurrent";
}

static void transformers_do_the_same(void)
{
    kind = "transformer";
    interruptions_change_no_bit();
    the_folder_translates();
    fv_ctx *ctx = run_context(1, 3);
    fv_model *model = NULL; /* the folder is that of a Marian model */
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("transformer-used"), &model));
    CHECK(model && fv_model_transformer(model));
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    kind = "recurrent";
}

/* The last state's tensors are others, and their parts resume all the same. */
static void bf16_resumes_too(void)
{
    kind = "transformer-bf16";
    interruptions_change_no_bit();
    CHECK(!same_state(folder_path("transformer-bf16-whole"), folder_path("transformer-whole")));
    kind = "recurrent";
}

/* Blocks that backward recomputes add to gradients in another order. */
static void forgetting_resumes_too(void)
{
    kind = "transformer-forgetful";
    interruptions_change_no_bit();
    CHECK(
        !same_state(folder_path("transformer-forgetful-whole"), folder_path("transformer-whole")));
    kind = "recurrent";
}

/* Weights and tokenizers of another translator; an additional layer is initialised randomly. */
static void training_begins_from_another(void)
{
    static const char *const kinds[] = {"recurrent", "transformer"};
    static const char *const layers[] = {"model.layers", "transformer.encoder_layers"};
    for (int i = 0; i < 2; i++) {
        kind = kinds[i];
        fv_ctx *ctx = run_context(1, 3);
        fv_recipe *recipe = small_recipe(ctx);
        fv_run *run = NULL;
        fv_model *from = NULL;
        char used[512];
        snprintf(used, sizeof used, "%s", folder_path(i ? "transformer-used" : "recurrent-used"));
        CHECK_OK(ctx, fv_model_open(ctx, used, &from));
        CHECK_OK(ctx, fv_recipe_set(recipe, "train.init_from", used));
        CHECK_OK(ctx, fv_recipe_set(recipe, layers[i], i ? "3" : "2"));
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_of("begun"), NULL, NULL, &run));
        const fv_params *old = fv_model_params(from);
        const fv_params *now = fv_model_params(fv_run_model(run));
        const fv_init_report taken = fv_run_init_report(run);
        CHECK_EQ(taken.loaded, fv_params_count(old));
        CHECK(taken.random > 0);
        for (int p = 0; p < fv_params_count(old); p++)
            CHECK(tensor_same(ctx, fv_params_tensor(old, p),
                              fv_params_find(now, fv_params_name(old, p))));
        fv_run_destroy(&run);
        CHECK_OK(ctx, fv_recipe_set(recipe, "train.init_from", folder_path("nowhere")));
        CHECK_EQ(fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run), FV_ERR_IO);
        fv_model_close(&from);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&ctx);
    }
    kind = "recurrent";
}

/* ---- files ------------------------------------------------------------------------ */

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

static void bad_recipes_are_reported(void)
{
    fv_ctx *ctx = run_context(1, 3);
    CHECK_EQ(start(ctx, "data.made", "none"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "data.train_source"));
    CHECK_EQ(start(ctx, "transformer.family", "gpt2"), FV_OK); /* not asked for */
    kind = "transformer";
    CHECK_EQ(start(ctx, "transformer.family", "gpt2"), FV_ERR_ARGUMENT);
    kind = "recurrent";
    CHECK_EQ(start(ctx, "model.score", "dot"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "equal widths"));
    CHECK_EQ(start(ctx, "train.recompute", "true"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "no blocks"));
    CHECK_EQ(start(ctx, "train.recompute_keep", "attention"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "train.recompute is false"));
    CHECK_EQ(start(ctx, "train.compute_dtype", "bf16"), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "recurrent models train in f32"));
    fv_model *t = NULL;
    CHECK_EQ(fv_model_open(ctx, folder_path("nowhere"), &t), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "config.json"));
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(interruptions_change_no_bit);
    RUN(the_folder_translates);
    RUN(hard_attention_does_the_same);
    RUN(transformers_do_the_same);
    RUN(bf16_resumes_too);
    RUN(forgetting_resumes_too);
    RUN(training_begins_from_another);
    RUN(bad_recipes_are_reported);
    folder_remove();
    return TEST_END();
}

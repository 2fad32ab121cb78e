/*
 * The captions task over recordings: which token a place is about, monotone attention, metrics of a
 * run; and a model that is trained on generated words learns to write them down.
 */
#include "fovea/task.h"
#include "support/files.h"
#include "support/test.h"
#include "train/tasks/captions.h"

static fv_ctx *ctx;

static void places_are_of_tokens(void)
{
    CHECK_EQ(fv_captions_token_of("one two six", 2, false), 2); /* words */
    CHECK_EQ(fv_captions_token_of("one two six", 0, true), 0);
    CHECK_EQ(fv_captions_token_of("one two six", 1, true), 4);
    CHECK_EQ(fv_captions_token_of("one two six", 2, true), 8);
    CHECK_EQ(fv_captions_token_of("z\xc3\xa9ro un", 1, true), 5); /* code points */
    CHECK_EQ(fv_captions_token_of("4071", 3, true), 3);           /* each character is a word */
}

static void attention_that_goes_back_is_seen(void)
{
    static const float forth[] = {0.6f, 0.2f, 0.1f, 0.1f, 0.2f, 0.6f, 0.1f, 0.1f,
                                  0.1f, 0.7f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.7f},
                       back[] = {0.1f, 0.1f, 0.7f, 0.1f, 0.1f, 0.2f, 0.1f, 0.6f,
                                 0.1f, 0.1f, 0.7f, 0.1f, 0.1f, 0.1f, 0.1f, 0.7f};
    CHECK(fv_captions_is_monotone(forth, 4, 4)); /* it may stay where it is */
    CHECK(!fv_captions_is_monotone(back, 4, 4));
    CHECK(fv_captions_is_monotone(back, 2, 4)); /* tokens alone count */
    CHECK(fv_captions_is_monotone(back, 0, 4));
}

static void set(fv_recipe *recipe, const char *name, const char *value)
{
    CHECK_OK(ctx, fv_recipe_set(recipe, name, value));
}

static double metric_of(const fv_metric *metrics, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(metrics[i].name, name) == 0) return metrics[i].value;
    test_failed(__FILE__, __LINE__, "there is no metric %s", name);
    return NAN;
}

static void generated_words_are_learned(void)
{
    static const char *const settings[][2] = {
        {"train.task", "captions"},      {"data.media", "tones"},
        {"data.train_count", "200"},     {"data.valid_count", "40"},
        {"data.test_count", "40"},       {"tokens.kind", "word"},
        {"tokens.min_count", "1"},       {"model.encoder", "pyramid"},
        {"model.cell", "lstm"},          {"model.embedding", "8"},
        {"model.encoder_hidden", "16"},  {"model.hidden", "32"},
        {"model.attention_width", "16"}, {"model.readout_width", "16"},
        {"train.steps", "150"},          {"train.lr", "0.01"},
        {"train.batch_examples", "20"},  {"train.optimizer", "adam"},
        {"eval.metric", "exact"}};
    fv_recipe *recipe = NULL;
    fv_run *run = NULL;
    fv_metric metrics[FV_MAX_METRICS];
    int count = 0;
    folder_make();
    CHECK_OK(ctx, fv_run_recipe(ctx, &recipe));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        set(recipe, settings[i][0], settings[i][1]);
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run));
    if (run) {
        CHECK_OK(ctx, fv_run_train(run));
        CHECK_OK(ctx, fv_run_evaluate(run, metrics, &count));
        const double exact = metric_of(metrics, count, "exact");
        CHECK(exact > 80); /* of ten words */
        CHECK_NEAR(metric_of(metrics, count, "word_error"), 100 - exact, 1e-9);
        CHECK(metric_of(metrics, count, "on_place") == 100); /* one word is everywhere */
        CHECK(metric_of(metrics, count, "monotone") == 100); /* and has nothing before it */
    }
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(places_are_of_tokens);
    RUN(attention_that_goes_back_is_seen);
    RUN(generated_words_are_learned);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}

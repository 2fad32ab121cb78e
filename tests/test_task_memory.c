/*
 * Memory that runs out in a run of each task without files: while it is opened, in a step, in an
 * evaluation, in samples and while it is saved. Every failure is reported and leaks nothing.
 */
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

#define QUICK                                                                                      \
    {"train.steps", "2"}, {"train.batch_examples", "2"}, {"train.accumulate", "2"},                \
        {"train.optimizer", "adam"}, {"train.eval_every", "1"}, {"train.save_every", "1"},         \
    {                                                                                              \
        "eval.samples", "2"                                                                        \
    }

#define FEW_MADE                                                                                   \
    {"data.train_count", "8"}, {"data.valid_count", "3"}, { "data.test_count", "3" }

#define FEW_SHAPES                                                                                 \
    {"data.media", "shapes"}, {"data.size", "16"}, {"data.train_count", "60"},                     \
        {"data.valid_count", "30"},                                                                \
    {                                                                                              \
        "data.test_count", "30"                                                                    \
    }

static fv_status run_all(fv_ctx *ctx, const run_setting *settings)
{
    fv_recipe *recipe = NULL;
    fv_run *run = NULL;
    fv_status status = fv_run_recipe(ctx, &recipe);
    for (; status == FV_OK && settings->key; settings++)
        status = fv_recipe_set(recipe, settings->key, settings->value);
    if (status == FV_OK) status = fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run);
    if (status == FV_OK) status = fv_run_train(run);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    return status;
}

/* A whole run in an empty folder. */
static fv_status train(fv_ctx *ctx, const void *settings)
{
    folder_make();
    const fv_status status = run_all(ctx, settings);
    folder_remove();
    return status;
}

static void check(const run_setting *settings)
{
    CHECK(failing_everywhere(train, settings, 4) > 20);
}

static void bandits(void)
{
    check((run_setting[]){{"train.task", "trials"},
                          {"trials.actions", "2"},
                          {"trials.pulls", "3"},
                          {"trials.count", "8"},
                          {"trials.runs", "2"},
                          {"trials.valid_count", "3"},
                          {"snail.embedding", "4"},
                          {"snail.stages", "tc 2, attention 2 2"},
                          QUICK,
                          {0}});
}

static void games(void)
{
    check((run_setting[]){{"train.task", "play"},
                          {"play.game", "catch"},
                          {"play.side", "5"},
                          {"play.episodes", "2"},
                          {"play.memory", "6"},
                          {"play.valid_count", "3"},
                          {"agent.patch", "2"},
                          {"agent.channels", "4"},
                          {"agent.hidden", "4"},
                          QUICK,
                          {0}});
}

static void episodes(void)
{
    check((run_setting[]){{"train.task", "episodes"},
                          {"episodes.ways", "2"},
                          {"episodes.queries", "2"},
                          {"episodes.valid_count", "3"},
                          {"few-shot.channels", "4"},
                          {"few-shot.width", "8"},
                          {"few-shot.stages", "attention 4 4, tc 4"},
                          QUICK,
                          {0}});
}

static void tours(void)
{
    check((run_setting[]){{"train.task", "points"},
                          {"points.problem", "tsp"},
                          {"points.valid_count", "3"},
                          {"pointer.width", "8"},
                          {"pointer.layers", "1"},
                          {"pointer.heads", "2"},
                          QUICK,
                          {0}});
}

static void stories(void)
{
    check((run_setting[]){{"train.task", "stories"},
                          {"reader.width", "8"},
                          {"reader.heads", "2"},
                          FEW_MADE,
                          QUICK,
                          {0}});
}

static void instructions(void)
{
    check((run_setting[]){{"train.task", "walk"},
                          {"walker.embedding", "4"},
                          {"walker.encoder_hidden", "4"},
                          {"walker.hidden", "4"},
                          FEW_MADE,
                          QUICK,
                          {0}});
}

static void ratings(void)
{
    check((run_setting[]){{"train.task", "ratings"},
                          {"ratings.movies", "60"},
                          {"recommender.width", "4"},
                          FEW_MADE,
                          QUICK,
                          {0}});
}

static void bits(void)
{
    check((run_setting[]){{"train.task", "bit-sequences"},
                          {"bits.longest", "3"},
                          {"bits.valid_count", "2"},
                          {"bits.test_lengths", "4"},
                          {"ntm.slots", "4"},
                          {"ntm.width", "3"},
                          {"ntm.hidden", "4"},
                          QUICK,
                          {0}});
}

static void generated_pictures(void)
{
    check((run_setting[]){{"train.task", "gan"},
                          {"gan.noise", "4"},
                          {"sagan.channels", "4"},
                          FEW_SHAPES,
                          QUICK,
                          {0}});
}

static void classes(void)
{
    check((run_setting[]){{"train.task", "media-classes"},
                          {"cnn.channels", "4"},
                          {"cnn.stages", "2"},
                          FEW_SHAPES,
                          QUICK,
                          {0}});
}

static void captions(void)
{
    check((run_setting[]){{"train.task", "captions"},
                          {"data.media", "scenes"},
                          {"data.size", "32"},
                          {"data.train_count", "60"},
                          {"data.valid_count", "2"},
                          {"tokens.kind", "word"},
                          {"tokens.min_count", "1"},
                          {"model.encoder", "grid"},
                          {"model.grid_stages", "3"},
                          {"model.grid_channels", "4"},
                          {"model.embedding", "4"},
                          {"model.encoder_hidden", "4"},
                          {"model.hidden", "4"},
                          QUICK,
                          {0}});
}

static void questions(void)
{
    check((run_setting[]){{"train.task", "questions"},
                          {"data.media", "clevr"},
                          {"data.size", "32"},
                          {"data.train_count", "40"},
                          {"data.valid_count", "20"},
                          {"data.test_count", "20"},
                          {"tokens.kind", "word"},
                          {"tokens.min_count", "1"},
                          {"vqa.channels", "4"},
                          {"vqa.width", "8"},
                          {"vqa.embedding", "4"},
                          {"vqa.hidden", "8"},
                          {"vqa.stages", "2"},
                          {"vqa.halvings", "1"},
                          QUICK,
                          {0}});
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(bandits);
    RUN(games);
    RUN(episodes);
    RUN(tours);
    RUN(stories);
    RUN(instructions);
    RUN(ratings);
    RUN(bits);
    RUN(generated_pictures);
    RUN(classes);
    RUN(captions);
    RUN(questions);
    return TEST_END();
}

/* fovea train, eval, run and look of few-shot learning, and what they refuse. */
#include <stdlib.h>
#include <unistd.h>

#include "fovea/shots.h"
#include "support/files.h"
#include "support/program.h"
#include "support/runs.h"

static const char recipe[] =
    "[episodes]\nways = 3\nqueries = 2\nvalid_count = 10\ntest_count = 10\n"
    "[few-shot]\nchannels = 4\nwidth = 8\nstages = \"attention 8 8, tc 4, attention 8 8\"\n"
    "[train]\ntask = \"episodes\"\nsteps = 4\nbatch_examples = 2\neval_every = 4\nseed = 7\n";

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

static void trains_and_evaluates(void)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("shots"));
    expect(0, "", "3-way 1-shot episodes; characters: 192 for training, 32 for validation, 32 for");
    expect(0, "", "the nearest pixels are of class");
    program_run("eval %s -t 1", program_path("shots"));
    expect(0, "accuracy", NULL);
    expect(0, "nearest_pixels", NULL);
    CHECK(!strstr(program.out, "one_shot"));
    program_run("train %s -o %s -t 1 --ways 20 --shots 1 --episodes.orders 2 --steps 2",
                program_path("r.toml"), program_path("runs"));
    expect(0, "", NULL);
    program_run("eval %s -t 1 --json", program_path("runs"));
    expect(0, "\"one_shot_error\": ", NULL);
    expect(0, "\"one_shot_error_nearest_pixels\": ", NULL);
    program_run("eval %s -t 1 --part valid --json", program_path("runs"));
    CHECK(!strstr(program.out, "one_shot"));
    program_run("inspect %s", program_path("shots"));
    expect(0, "snail.1.dense.0.weight", NULL);
}

static void answers_episodes(void)
{
    program_run("run %s -t 1", program_path("shots"));
    expect(0, "episode 0: class ", "");
    expect(0, " of 3 with ", "");
    program_run("run %s 4 7 -t 1", program_path("shots"));
    expect(0, "episode 4: class ", "");
    expect(0, "\nepisode 7: class ", "");
    program_run("run %s 4 --json -t 1", program_path("shots"));
    expect(0, "{\"episode\": 4, \"answer\": ", "");
    expect(0, "\"examples\": [", "");
    /* the episode of the test part with the recipe's seed */
    fv_ctx *ctx = run_context(1, 1);
    fv_shots *shots = NULL;
    fv_shots_episode e = {.ways = 0};
    const fv_shots_rule rule = {
        .ways = 3, .shots = 1, .queries = 1, .part = FV_SHOTS_TEST, .seed = 7};
    CHECK_OK(ctx, fv_shots_open(ctx, &(fv_shots_config){.source = "drawn", .seed = 1}, &shots));
    CHECK_OK(ctx, fv_shots_episode_make(shots, &rule, 4, &e));
    char want[64];
    snprintf(want, sizeof want, "\"examples\": [%d, %d, %d]", (int)e.labels[0], (int)e.labels[1],
             (int)e.labels[2]);
    expect(0, want, "");
    snprintf(want, sizeof want, "\"label\": %d, \"nearest_pixels\": %d,", (int)e.labels[3],
             (int)fv_shots_nearest(&e, 0));
    expect(0, want, "");
    fv_shots_episode_free(ctx, &e);
    fv_shots_close(&shots);
    fv_ctx_destroy(&ctx);
    program_run("run %s four -t 1", program_path("shots"));
    expect(2, "", "four");
    program_run("run %s 4 --beam 3 -t 1", program_path("shots"));
    expect(2, "", "--beam does not apply");
}

static void shows_what_the_query_looked_at(void)
{
    program_run("look %s 2 -t 1", program_path("shots"));
    expect(0, "where the query looked", "");
    expect(0, "attention 1", "");
    expect(0, "episode 2: class ", "");
    program_run("look %s -t 1 -o %s", program_path("shots"), program_path("e.svg"));
    expect(0, NULL, NULL);
    CHECK(written("e.svg", "query") && written("e.svg", "class 2: "));
    program_run("look %s 2 -t 1 --layer 0 -o %s", program_path("shots"), program_path("e.png"));
    expect(0, NULL, NULL);
    CHECK(written("e.png", "PNG"));
    program_run("look %s 2 -t 1 --json", program_path("shots"));
    expect(0, "\"weights\": [[0.", ""); /* of the query: the first example sees itself alone */
    program_run("look %s 2 -t 1 --layer 2", program_path("shots"));
    expect(2, "", "--layer 2: the model has 2, counted from 0");
    program_run("look %s 2 -t 1 --head 0", program_path("shots"));
    expect(2, "", "--head does not apply");
    program_run("look %s 2 -t 1 --top 3", program_path("shots"));
    expect(2, "", "--top");
    program_text("tc.toml", "[few-shot]\nchannels = 2\nstages = \"tc 4\"\n"
                            "[train]\ntask = \"episodes\"\nsteps = 2\nbatch_examples = 1\n");
    program_run("train %s -o %s -t 1", program_path("tc.toml"), program_path("tc"));
    expect(0, "", NULL);
    program_run("look %s 2 -t 1", program_path("tc"));
    expect(2, "", "the model has no attention");
}

static void needs_the_recipe(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/recipe.toml", program_path("tc"));
    CHECK_EQ(unlink(path), 0);
    program_run("run %s 0 -t 1", program_path("tc"));
    expect(3, "", "recipe.toml");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    RUN(trains_and_evaluates);
    RUN(answers_episodes);
    RUN(shows_what_the_query_looked_at);
    RUN(needs_the_recipe);
    program_end();
    return TEST_END();
}

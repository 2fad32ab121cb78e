/* fovea train, eval, run and look of a recommender, and what they refuse. */
#include "support/files.h"
#include "support/program.h"

static const char recipe[] = "[ratings]\nmovies = 60\n[data]\ntrain_count = 50\nvalid_count = 5\n"
                             "[recommender]\nwidth = 4\n"
                             "[train]\ntask = \"ratings\"\nsteps = 6\neval_every = 6\n";

static void train(const char *name, const char *more)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 %s", program_path("r.toml"), program_path(name), more);
    expect(0, "", "50 viewers with 40 ratings each of 60 movies");
    expect(0, "", "means_auc ");
    expect(0, "", "viewer 0 liked The ");
}

static void viewers_get_proposals(void)
{
    program_run("eval %s -t 1 --part test", program_path("history"));
    expect(0, "new_viewers", NULL);
    program_run("run %s 7 -t 1", program_path("history"));
    expect(0, "viewer 7\nrated (+ liked, - not)\n", "");
    expect(0, "recommended (+ would be liked, - not)\n", "");
    CHECK(!strstr(program.out, "ideal"));
    program_run("run %s 7 -t 1", program_path("factors"));
    expect(0, "nearest to the ideal movie\n", "");
    program_run("run %s 50 51 -t 1 --json", program_path("history"));
    expect(0, "{\"viewer\": 50, \"new\": true, \"history\": [{\"name\": \"The ", "");
    expect(0, "{\"viewer\": 51, ", "");
    expect(0, "\"weights\": [", "");
}

static void ratings_behind_proposals_are_drawn(void)
{
    program_run("look %s 3 -t 1", program_path("history"));
    expect(0, "viewer 3\n", "");
    program_run("look %s 3 -t 1 --json", program_path("history"));
    expect(0, "\"probability\": ", "");
    program_run("look %s 3 -t 1 -o %s", program_path("history"), program_path("h.svg"));
    expect(0, "", "wrote ");
    program_run("look %s 3 -t 1 -o %s", program_path("history"), program_path("h.npz"));
    expect(0, "", "1 array");
    program_run("look %s 3 -t 1 --json -o %s", program_path("history"), program_path("j.svg"));
    expect(0, "\"probability\": ", "j.svg");
}

static void what_does_not_fit_is_refused(void)
{
    program_run("run %s seven -t 1", program_path("history"));
    expect(2, "", "run: 'seven' is not a viewer: expected a number, 0 or more");
    program_run("run %s 50 -t 1", program_path("factors"));
    CHECK(program.code != 0);
    CHECK(strstr(program.err, "viewer 50 is new: the model has vectors of 50 viewers"));
    program_run("look %s 3 -t 1", program_path("factors"));
    expect(2, "", "has no attention: it was trained with recommender.form = \"factors\"");
    program_run("look %s 3 --rollout -t 1", program_path("history"));
    expect(2, "", "--rollout does not apply");
    program_run("look %s 3 --target x -t 1", program_path("history"));
    expect(2, "", "--target does not apply");
    program_run("look %s 3 --range x -t 1", program_path("history"));
    expect(2, "", "--range x: expected LOW:HIGH");
    CHECK(!strstr(program.err, "argument"));
    program_run("run %s 3 --beam 3 -t 1", program_path("history"));
    expect(2, "", "--beam does not apply");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    train("history", "");
    train("factors", "--recommender.form factors");
    RUN(viewers_get_proposals);
    RUN(ratings_behind_proposals_are_drawn);
    RUN(what_does_not_fit_is_refused);
    program_end();
    return TEST_END();
}

/* fovea train, eval, run and look of an agent, and what they refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[play]\ngame = \"maze\"\nside = 5\nepisodes = 4\nmemory = 20\nvalid_count = 8\ntest_count = "
    "9\n"
    "[agent]\nchannels = 8\nhidden = 12\n"
    "[train]\ntask = \"play\"\nsteps = 6\nbatch_examples = 4\neval_every = 6\n";

static void train(const char *name, const char *more)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 %s", program_path("r.toml"), program_path(name), more);
    expect(0, "", "game maze, board of 5 x 5, 8 validation episodes");
    expect(0, "", "moves: ");
    expect(0, "", "won 0");
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

static void metrics_are_of_unseen_episodes(void)
{
    program_run("eval %s -t 1", program_path("agent"));
    expect(0, "won ", "9 test episodes");
    expect(0, "moves ", NULL);
    program_run("eval %s -t 1 --part valid --json", program_path("agent"));
    expect(0, "\"won\": ", "");
}

static void an_episode_is_printed(void)
{
    program_run("run %s -t 1", program_path("agent"));
    expect(0, "maze, episode 0: ", "");
    CHECK(strchr(program.out, '#') && strchr(program.out, 'D') && !strchr(program.out, '\033'));
    program_run("run %s 3 4 -t 1 --seed 2", program_path("agent"));
    expect(0, "maze, episode 3: ", "");
    expect(0, "maze, episode 4: ", "");
    program_text("numbers", "5\n6\n");
    program_run("run %s -f %s -t 1 --json", program_path("agent"), program_path("numbers"));
    expect(0, "{\"game\": \"maze\", \"episode\": 5, \"won\": ", "");
    expect(0, "\"episode\": 6", "");
    const int moves = count_of(program.out, "\"action\": \"");
    CHECK(moves >= 2 && moves <= 120 && count_of(program.out, "\"values\": [") == moves);
}

static void attention_is_drawn_over_each_frame(void)
{
    size_t bytes = 0;
    program_run("look %s 2 -o %s -t 1", program_path("agent"), program_path("film.svg"));
    expect(0, "", "wrote ");
    char *svg = file_read(program_path("film.svg"), &bytes);
    const bool whole = svg && bytes > 100;
    program_run("look %s 2 --json -t 1", program_path("agent"));
    expect(0, "\"rows\": 5, \"cols\": 5, \"panels\": [{\"action\": \"", "");
    const int panels = count_of(program.out, "\"action\": \"");
    CHECK(whole && count_of(svg, "<image") == panels);
    free(svg);
    /* The first row of weights of a move, and all of them, add up to at most 1. */
    const char *at = strstr(program.out, "\"weights\": [[");
    double sum = 0;
    int numbers = 0;
    for (at = at ? at + strlen("\"weights\": [") : NULL; at && numbers < 25; numbers++) {
        at += strspn(at, "[], ");
        char *end = NULL;
        sum += strtod(at, &end);
        at = end;
    }
    CHECK_EQ(numbers, 25);
    CHECK_NEAR(sum, 1, 1e-5);
    program_run("look %s -t 1", program_path("agent"));
    expect(0, "maze, episode 0: ", "");
    expect(0, "1: ", "");
    program_run_to(PROGRAM_TERMINAL, "look %s 1 --head 1 -t 1", program_path("agent"));
    expect(0, "\033[", NULL);
}

/* The rewards and moves that 'look' shows are those of the episode that 'run' plays. */
static void seeds_choose_the_same_episode(void)
{
    static char seen[2][1 << 18];
    for (int seed = 1; seed < 3; seed++) {
        program_run("run %s 2 --json -t 1 --seed %d", program_path("agent"), seed);
        const char *values = strstr(program.out, "\"values\": [");
        if (!values) values = "";
        snprintf(seen[0], sizeof seen[0], "%.*s", (int)strcspn(values, "]"), values);
        program_run("look %s 2 --json -t 1 --seed %d", program_path("agent"), seed);
        CHECK(*values && strstr(program.out, seen[0]));
        if (seed == 2) CHECK(strcmp(program.out, seen[1]) != 0);
        snprintf(seen[1], sizeof seen[1], "%s", program.out);
    }
}

static void what_does_not_fit_is_refused(void)
{
    static const char *const other[] = {"layer 0", "pixel 1,1", "invert", "beam 2"};
    for (int i = 0; i < 4; i++) {
        program_run("look %s 1 --%s -t 1", program_path("agent"), other[i]);
        expect(2, "", "does not apply to a fovea-agent model");
    }
    program_run("run %s 1 --invert -t 1", program_path("agent"));
    expect(2, "", "--invert does not apply to a fovea-agent model");
    program_run("run %s 1 --top-k 2 -t 1", program_path("agent"));
    expect(2, "", "--top-k does not apply to a fovea-agent model");
    program_run("run %s three -t 1", program_path("agent"));
    expect(2, "", "run: 'three' is not an episode: expected a number, 0 or more");
    program_run("run %s -1 -t 1", program_path("agent"));
    CHECK_EQ(program.code, 2);
    program_run("look %s 99999999999999999999 -t 1", program_path("agent"));
    expect(2, "", "is not an episode");
    program_run("look %s 1 --head 2 -t 1", program_path("agent"));
    expect(2, "", "expected a head from 0 to 1");
    program_run("look %s 1 --rollout -t 1", program_path("agent"));
    expect(2, "", "--rollout is for models that read texts");
    program_run("run %s 1 --beam 3 -t 1", program_path("agent"));
    expect(2, "", "--beam does not apply");
    program_run("look %s 1 -t 1", program_path("flat"));
    expect(2, "", "has no attention over a grid");
    program_run("run %s 1 -t 1", program_path("flat"));
    expect(0, "maze, episode 1: ", "");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    train("agent", "");
    train("flat", "--agent.pooling flat");
    RUN(metrics_are_of_unseen_episodes);
    RUN(an_episode_is_printed);
    RUN(attention_is_drawn_over_each_frame);
    RUN(seeds_choose_the_same_episode);
    RUN(what_does_not_fit_is_refused);
    program_end();
    return TEST_END();
}

/* fovea train, eval, run and look of a model that plays trials, and what they refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[trials]\nproblem = \"bandit\"\nactions = 3\npulls = 4\ncount = 16\nvalid_count = 7\n"
    "test_count = 9\n"
    "[snail]\nembedding = 6\nstages = \"attention 3 3, tc 4, attention 4 4\"\n"
    "[train]\ntask = \"trials\"\nsteps = 4\nbatch_examples = 8\neval_every = 4\n";

static void train(const char *name, const char *more, const char *report, int steps)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 %s", program_path("r.toml"), program_path(name), more);
    expect(0, "", report);
    expect(0, "", "problem 0    reward ");
    CHECK(strstr(program.err, "epoch") == NULL); /* nothing is learned from twice */
    const char *at = strstr(program.err, "problem 0    reward ");
    at = at ? strchr(at, ':') : NULL;
    int total = 0, used = 0, times;
    long before = -1, action;
    while (at && sscanf(++at, " %ld%n", &action, &used) == 1 && strcspn(at, "\n") > 0) {
        CHECK(action != before); /* equal ones on end are one run */
        before = action;
        at += used;
        const bool run = sscanf(at, " (%d x)%n", &times, &used) == 1 && at[1] == '(';
        total += run ? times : 1;
        if (run) at += used;
        if (*at != ' ') break;
    }
    CHECK_EQ(total, steps);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

static void metrics_are_beside_the_references(void)
{
    static const char *const names[] = {"ratio ",    "gittins ", "knowledge ", "ucb ",
                                        "thompson ", "greedy ",  "random ",    "optimal "};
    program_run("eval %s -t 1", program_path("bandit"));
    expect(0, "reward ", "bandits of 3 arms, 4 pulls");
    for (int i = 0; i < 8; i++)
        expect(0, names[i], NULL);
    program_run("eval %s -t 1 --part valid --json", program_path("mdp"));
    expect(0, "\"psrl\": ", "");
    expect(0, "\"ratio\": ", "");
}

static void a_trial_is_printed(void)
{
    program_run("run %s -t 1", program_path("bandit"));
    expect(0, "bandit, problem 0: arms pay 0.", "");
    expect(0, "\n   4  arm ", "");
    expect(0, "expected reward ", "");
    program_run("run %s 3 4 -t 1 --seed 2", program_path("mdp"));
    expect(0, "mdp, problem 3: 10 states, 3 actions, 2 episodes of 3 steps", "");
    expect(0, "problem 4", "");
    expect(0, "episode 2\n   4  state 0 action ", "");
    program_run("run %s 5 -t 1 --json", program_path("bandit"));
    expect(0, "{\"problem\": \"bandit\", \"number\": 5, \"expected\": ", "");
    CHECK_EQ(count_of(program.out, "\"action\": "), 4);
    CHECK_EQ(count_of(program.out, "\"probabilities\": ["), 4);
}

static void attention_is_shown(void)
{
    size_t bytes = 0;
    program_run("look %s 2 -t 1", program_path("bandit"));
    expect(0, "problem 2, attention.1: reward ", "");
    expect(0, "1: start", "");
    expect(0, "4: arm ", "");
    expect(0, "\n              1  2  3  4\n", ""); /* a terminal has room for their numbers */
    program_run("look %s 2 --layer 0 -o %s -t 1", program_path("mdp"), program_path("map.svg"));
    expect(0, "", "wrote ");
    char *svg = file_read(program_path("map.svg"), &bytes);
    CHECK(svg && bytes > 100 && strstr(svg, "attention.0") && strstr(svg, "2: action"));
    free(svg);
    program_run("look %s -o %s -t 1", program_path("bandit"), program_path("map.npz"));
    expect(0, "", "(1 array)");
    program_run("look %s 2 --json -t 1", program_path("bandit"));
    expect(0, "{\"site\": \"attention.1\", \"weights\": [[", "");
    expect(0, ", 0, 0, 0], [", ""); /* the first step sees itself alone */
    expect(0, "]], \"problem\": \"bandit\", \"number\": 2, \"expected\": ", "");
    CHECK_EQ(count_of(program.out, "\"action\": "), 4);
    /* the trial of 'fovea run' with the same seed */
    char steps[2][4000] = {""};
    for (int i = 0; i < 2; i++) {
        program_run("%s %s 2 --json --seed 7 -t 1", i ? "look" : "run", program_path("bandit"));
        const char *at = strstr(program.out, "\"problem\": ");
        if (at) snprintf(steps[i], sizeof steps[i], "%s", at);
    }
    CHECK(steps[0][0]);
    CHECK_STR(steps[0], steps[1]);
}

static void what_does_not_fit_is_refused(void)
{
    program_run("run %s three -t 1", program_path("bandit"));
    expect(2, "", "run: 'three' is not a problem: expected a number, 0 or more");
    program_run("look %s -- -1 -t 1", program_path("bandit"));
    CHECK_EQ(program.code, 2);
    program_run("look %s 1 --layer 2 -t 1", program_path("bandit"));
    expect(2, "", "look: --layer 2: the model has 2, counted from 0");
    program_run("look %s 1 --rollout -t 1", program_path("bandit"));
    expect(2, "", "--rollout");
    program_run("look %s 1 -t 1", program_path("lstm"));
    expect(4, "", "look: this model has no attention");
    program_run("run %s 1 -t 1", program_path("lstm"));
    expect(0, "bandit, problem 1: ", "");
}

static void policies_are_trained(void)
{
    train("bandit", "", "bandits of 3 arms, 4 pulls", 4);
    train("lstm", "--snail.memory lstm", "bandits of 3 arms", 4);
    train("mdp", "--trials.problem mdp --trials.episodes 2 --trials.horizon 3",
          "decision processes of 10 states and 3 actions, 2 episodes of 3 steps", 6);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(policies_are_trained);
    RUN(metrics_are_beside_the_references);
    RUN(a_trial_is_printed);
    RUN(attention_is_shown);
    RUN(what_does_not_fit_is_refused);
    program_end();
    return TEST_END();
}

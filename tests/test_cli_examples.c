/* 'fovea run' and 'fovea look' with readers of stories and walkers, and what they refuse. */
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

static char reader[256], walker[256], plain[256];

static void train(const char *name, const char *recipe, char out[256])
{
    char file[64];
    snprintf(file, sizeof file, "%s.toml", name);
    program_text(file, recipe);
    snprintf(out, 256, "%s", program_path(name));
    program_run("train %s -o %s -t 1", program_path(file), out);
    expect(0, NULL, NULL);
}

static void models_are_trained(void)
{
    train("reader",
          "[data]\nfacts = 2\ntrain_count = 100\nvalid_count = 10\n[reader]\nwidth = 8\nhops = 2\n"
          "heads = 2\nsummary = 1\n[train]\ntask = \"stories\"\nsteps = 4\n",
          reader);
    static const char walk[] =
        "[data]\ntrain_count = 60\nvalid_count = 5\n[walker]\nembedding = 8\nencoder_hidden = 6\n"
        "hidden = 8\n%s[train]\ntask = \"walk\"\nsteps = 4\n";
    char text[512];
    snprintf(text, sizeof text, walk, "");
    train("walker", text, walker);
    snprintf(text, sizeof text, walk, "attention = false\n");
    train("plain", text, plain);
    program_run("eval %s --part test", reader);
    expect(0, "accuracy", NULL);
    CHECK(strstr(program.out, "follow_up") && strstr(program.out, "summary_f1"));
}

/* A picture: every question as a column before its hops, and numbered sentences. */
static void questions_stand_before_their_hops(const char *path)
{
    static const char *const labels[] = {">q1 where is the ", ">q1 hop 1<", ">q1 hop 2<",
                                         ">q2 and the ",      ">q2 hop 1<", ">1  "};
    size_t bytes;
    char *svg = file_read(path, &bytes);
    const char *before = svg;
    for (int i = 0; svg && i < 6; i++) {
        const char *at = strstr(svg, labels[i]);
        if (!at || (i < 5 && at < before))
            test_failed(__FILE__, __LINE__, "'%s' is missing or misplaced", labels[i]);
        if (at) before = at;
    }
    free(svg);
}

static void stories_are_answered(void)
{
    program_text("story.txt", "mary took the milk. mary went to the garden. where is the milk?\n");
    program_run("run %s --file %s", reader, program_path("story.txt"));
    expect(0, "where is the milk?\t", NULL);
    program_run("run %s --example 2", reader);
    expect(0, "  1  ", NULL);
    program_run("run %s --example 2 --json", reader);
    expect(0, "\"questions\"", NULL);
    program_run("look %s --example 2 --json", reader);
    expect(0, "\"hops\"", NULL);
    program_run("look %s --example 2 --json -o %s", reader, program_path("both.svg"));
    expect(0, "\"hops\"", "both.svg (");
    program_run("look %s --example 2", reader);
    expect(0, "from 0 ", NULL);
    program_run("look %s --example 2 -o %s", reader, program_path("hops.svg"));
    expect(0, NULL, "wrote ");
    questions_stand_before_their_hops(program_path("hops.svg"));
    program_run("look %s --example 2 -o %s", reader, program_path("hops.npz"));
    expect(0, NULL, "1 array");
}

static void walks_are_shown(void)
{
    program_run("run %s --example 1", walker);
    expect(0, "the goal", NULL);
    program_run("run %s --example 1 --prompt left", walker);
    expect(0, "left\n", NULL);
    program_run("look %s --example 1", walker);
    expect(0, "@@", NULL);
    program_run("look %s --example 1 --json", walker);
    expect(0, "\"weights\"", NULL);
    program_run("look %s --example 1 --json -o %s", walker, program_path("both.npz"));
    expect(0, "\"weights\"", "both.npz (1 array)");
    program_run("look %s --example 1 -o %s", walker, program_path("walk.png"));
    expect(0, NULL, "wrote ");
    program_run("look %s --example 1 -o %s", plain, program_path("walk.svg"));
    expect(0, NULL, "wrote ");
}

static void what_does_not_fit_is_refused(void)
{
    program_run("run %s --prompt left", walker);
    expect(2, NULL, "an instruction needs a map: add --example N");
    program_run("run %s --example 1 --prompt jump", walker);
    expect(2, NULL, "has not learned the word 'jump'");
    program_run("look %s --example 1 --prompt jump", walker);
    expect(2, NULL, "has not learned the word 'jump'");
    program_run("look %s --example 1 --layer 0", walker);
    expect(2, NULL, "--layer does not apply");
    program_run("look %s --example 1 -o %s", plain, program_path("none.npz"));
    expect(4, NULL, "this walker has no attention");
    program_run("run %s --prompt mary", reader);
    expect(2, NULL, "ends without");
    program_run("look %s --prompt mary", reader);
    expect(2, NULL, "ends without");
    program_run("run %s --file %s --example 2", reader, program_path("story.txt"));
    expect(2, "", "run: expected a text or --example");
    program_run("look %s --file %s --example 2", reader, program_path("story.txt"));
    expect(2, "", "look: expected a text or --example");
    program_run("run %s --example 1 --beam 3", reader);
    expect(2, NULL, "--beam does not apply");
    program_run("run %s --example -1", reader);
    expect(2, NULL, "example");
}

/* Last: the folders are of no use afterwards. */
static void a_missing_tokenizer_is_named(void)
{
    const char *const both[] = {reader, walker};
    for (int i = 0; i < 2; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/tokenizer.json", both[i]);
        CHECK_EQ(unlink(path), 0);
        program_run("run %s --example 1", both[i]);
        expect(3, "", "config.json: a ");
        expect(3, "", "needs a tokenizer: tokenizer.json is missing");
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(models_are_trained);
    RUN(stories_are_answered);
    RUN(walks_are_shown);
    RUN(what_does_not_fit_is_refused);
    RUN(a_missing_tokenizer_is_named);
    program_end();
    return TEST_END();
}

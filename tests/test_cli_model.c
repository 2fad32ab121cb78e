/* The verbs that train and use a model: a small one, from recipe to picture, and their refusals. */
#include <signal.h>
#include <unistd.h>

#include "support/files.h"
#include "support/markup.h"
#include "support/program.h"

#define SMALL                                                                                      \
    "--data.train_pairs 60 --data.valid_pairs 5 --model.hidden 8 --model.encoder_hidden 5 "        \
    "--model.embedding 6 --model.attention_width 6 --model.readout_width 7 --train.batch_tokens "  \
    "200"

static const char recipe[] = "[data]\nmade = \"dates\"\n[tokens]\nkind = \"char\"\nmin_count = 1\n"
                             "[train]\nsteps = 6\nsave_every = 2\nlog_every = 2\n";

static void the_demo_shows_what_it_says(void)
{
    program_run("demo --steps 4 -t 1 -o %s " SMALL, program_path("demo"));
    expect(0, "of 2000 unseen dates are exactly right", "step 4/4");
    expect(0, "Attention weights of \"Thursday, 3 May 1979\" -> ", NULL);
    expect(0, "fovea look ", NULL);
    static const char *const files[] = {"alignment.svg", "alignment.png", "model.safetensors",
                                        "config.json",   "recipe.toml",   "log.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64];
        snprintf(name, sizeof name, "demo/%s", files[i]);
        size_t bytes = 0;
        void *data = file_read(program_path(name), &bytes);
        CHECK(data && bytes > 20);
        free(data);
    }
}

static void a_recipe_becomes_a_model(void)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 --average 2 " SMALL, program_path("r.toml"),
                program_path("m"));
    expect(0, NULL, "60 pairs for training");
    expect(0, NULL, "step 6/6");
    expect(0, NULL, "the mean of the last states is in");
    /* All done: the same command has nothing left to do. */
    program_run("train %s -o %s -t 1 " SMALL, program_path("r.toml"), program_path("m"));
    expect(0, NULL, "resuming after step 6");
    program_run("train %s/recipe.toml -o %s -q", program_path("m"), program_path("again"));
    expect(0, "", "the model is in");
    program_run("run %s 3.5.79 1/2/2003", program_path("m-average"));
    expect(0, NULL, NULL);
    program_run("run %s --json 3.5.79", program_path("m"));
    expect(0, "\"source_tokens\": [\"3\", \".\", \"5\", \".\", \"7\", \"9\"]", NULL);
    program_run("run %s --beam 3 --nbest 2 3.5.79", program_path("m"));
    expect(0, "\n2\t", NULL);
    program_run("run %s --nbest 2 3.5.79", program_path("m"));
    expect(2, "", "--nbest 2 needs --beam 2 or more");
    program_text("x.txt", "3.5.79\n1/2/2003\n");
    program_text("y.txt", "1979-05-03\n2003-01-02\n");
    program_run("run %s -f %s --pharaoh", program_path("m"), program_path("x.txt"));
    expect(0, "-0", NULL);
    program_run("eval %s %s %s --json", program_path("m"), program_path("x.txt"),
                program_path("y.txt"));
    expect(0, "\"texts\": 2", NULL);
    static const char *const endings[] = {"svg", "png", "pdf", "html", "txt", "npz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char name[32];
        snprintf(name, sizeof name, "look.%s", endings[i]);
        program_run("look %s 3.5.79 -o %s", program_path("m"), program_path(name));
        expect(0, "", "");
        size_t bytes = 0;
        void *data = file_read(program_path(name), &bytes);
        CHECK(data && bytes > 20);
        free(data);
    }
    program_run("look %s 3.5.79 -o look.jpeg", program_path("m"));
    expect(2, "",
           "-o look.jpeg: expected a name that ends with .svg, .png, .pdf, .html, .txt or .npz");
    static const char *const inside[] = {"--head 0", "--layer 0", "--at cross", "--from 3 --to 1"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        program_run("look %s 3.5.79 %s", program_path("m"), inside[i]);
        expect(2, "", "is for Transformers; a recurrent translator has one attention map");
        CHECK(strncmp(strstr(program.err, "--"), inside[i], 4) == 0); /* the option is named */
    }
    program_run("look %s 3.5.79 --target 1979-05-03", program_path("m"));
    expect(0, "source", NULL);
}

/* A path of the test's folder as seen from here. */
static const char *relative(const char *path)
{
    static char out[1024];
    char here[512];
    size_t used = 0;
    if (!getcwd(here, sizeof here)) return path;
    for (const char *at = here; *at && used + 4 < sizeof out / 2; at++)
        if (*at == '/') used += (size_t)snprintf(out + used, sizeof out - used, "../");
    snprintf(out + used, sizeof out - used, "%s", path + 1);
    return out;
}

/* The recipe in the folder repeats the run from any directory, and a recipe that differs from it is
 * refused before anything is written. */
static void a_folder_keeps_its_recipe(void)
{
    program_text("s.txt", "a b\nb c\nc d\n");
    program_text("r2.toml", "[data]\ntrain_source = \"s.txt\"\ntrain_target = \"s.txt\"\n"
                            "[tokens]\nkind = \"char\"\nmin_count = 1\n[train]\nsteps = 2\n");
    program_run("train %s -o %s -t 1 -q " SMALL, relative(program_path("r2.toml")),
                program_path("kept"));
    expect(0, NULL, NULL);
    program_run("train %s/recipe.toml -o %s -t 1 -q", program_path("kept"), program_path("kept2"));
    expect(0, NULL, "the model is in");
    program_run("train %s -o %s -t 1 " SMALL, program_path("r2.toml"), program_path("kept"));
    expect(0, NULL, "resuming after step 2");
    CHECK(strstr(program.err, "it was") == NULL);
    program_run("train %s -o %s -t 1 --model.cell lstm " SMALL, program_path("r2.toml"),
                program_path("kept"));
    expect(3, NULL, "model.cell is \"lstm\"; in ");
    expect(3, NULL, "it was \"gru\"");
}

/* Of the options of 'run', those that a translator has no use for are refused, and no other is
 * passed over. */
static void translators_use_their_options(void)
{
    char greedy[256];
    program_run("run %s 3.5.79", program_path("m"));
    expect(0, NULL, "");
    snprintf(greedy, sizeof greedy, "%.255s", program.out);
    CHECK(strlen(greedy) > 3);
    program_run("run %s 3.5.79 -n 2", program_path("m"));
    expect(0, NULL, "");
    CHECK(strlen(program.out) <= 3); /* two letters and the end of the line */
    program_run("run %s 3.5.79 --temp 5", program_path("m"));
    CHECK(strcmp(program.out, greedy) != 0);
    program_run("run %s 3.5.79 --temp 0", program_path("m"));
    CHECK_STR(program.out, greedy);
    program_run("run %s 3.5.79 --dtype int8", program_path("m"));
    expect(2, "", "--dtype does not apply to a fovea-seq2seq model");
    program_run("run %s 3.5.79 --stop x", program_path("m"));
    expect(2, "", "--stop does not apply");
}

static void every_key_is_explained(void)
{
    program_run("help recipe");
    expect(0, "\n[train]  The training loop", "");
    expect(0, "\n  lr                highest learning rate [0.001]\n", NULL);
    CHECK_EQ(count_of(program.out, "\n["), 30);
    program_run("help recipe --markdown");
    expect(0, "\n### [model]\n", "");
    expect(0, "\n| `cell` | \"rnn\", \"gru\", \"lstm\" | `\"gru\"` |", NULL);
    CHECK(!strstr(program.out, "]\n\n.\n")); /* each section says what it is about */
}

static void mistakes_are_reported(void)
{
    program_text("r.toml", recipe);
    program_text("bad.toml", "[train]\nsteps = 5\nstesp = 3\n");
    program_text("x.txt", "a\nb\n");
    program_text("y.txt", "a\n");
    program_run("train %s", program_path("bad.toml"));
    expect(3, NULL, "bad.toml:3:9: unknown key 'train.stesp'; did you mean 'train.steps'?");
    program_run("train %s --train.lrr 3", program_path("r.toml"));
    expect(2, NULL, "unknown key 'train.lrr'; did you mean 'train.lr'?");
    program_run("train %s --train.lr fast", program_path("r.toml"));
    expect(2, NULL, "train.lr: 'fast' is invalid, expected a number from 0 to 100");
    program_run("train %s", program_path("absent.toml"));
    expect(3, NULL, "absent.toml");
    program_run("train %s -o /proc/none/x", program_path("r.toml"));
    expect(1, NULL, "cannot create the folder");
    program_run("train %s -o %s --data.made none --data.train_source %s --data.train_target %s",
                program_path("r.toml"), program_path("u"), program_path("x.txt"),
                program_path("y.txt"));
    expect(3, NULL, "has 2 lines");
    program_run("train %s -o %s --data.made none --data.train_source absent.de "
                "--data.train_target absent.en",
                program_path("r.toml"), program_path("u"));
    expect(3, NULL, "absent.de: cannot open");
    expect(3, NULL, "data.train_source: no such file; the comments of ");
    program_run("run %s text", program_path("nowhere"));
    expect(3, NULL, "no such folder");
    program_run("look %s", program_path("nowhere"));
    expect(3, NULL, "no such folder");
}

static void ctrl_c_saves(void)
{
    program_text("r.toml", recipe);
    program_run_signalled(SIGINT, "step ",
                          "train %s -o %s -t 1 --train.steps 20000 "
                          "--train.save_every 0 --train.eval_every 0 " SMALL,
                          program_path("r.toml"), program_path("c"));
    expect(130, NULL, "saved in");
    program_run("train %s -o %s -t 1 --train.steps 1 --train.eval_every 0 " SMALL,
                program_path("r.toml"), program_path("c"));
    expect(0, NULL, "resuming after step");
}

/* Maps and the progress bar use blocks in a UTF-8 locale, of which LC_ALL has the last word, and
 * ASCII elsewhere. */
static void shades_follow_the_locale(void)
{
    static const char light[] = "\xE2\x96\x91", full[] = "\xE2\x96\x88";
    for (int utf8 = 0; utf8 < 2; utf8++) {
        setenv("LC_ALL", utf8 ? "de_DE.utf8" : "C", 1);
        setenv("LANG", utf8 ? "C" : "en_US.UTF-8", 1);
        program_run("look %s 3.5.79", program_path("m"));
        expect(0, utf8 ? light : " from 0 . - + ## to", "");
        CHECK((strstr(program.out, full) != NULL) == utf8);
        program_start_to(PROGRAM_NARROW, "train %s -o %s -t 1 --train.steps 6 " SMALL,
                         program_path("r.toml"), program_path(utf8 ? "bar8" : "bar"));
        program_wait();
        CHECK_EQ(program.code, 0);
        CHECK(strstr(program.out, utf8 ? full : "##########  step 6/6") != NULL);
        CHECK((strstr(program.out, "#") != NULL) == !utf8);
    }
    unsetenv("LC_ALL");
    unsetenv("LANG");
}

/* On a narrow terminal the progress line loses fields but never wraps, and what is printed after
 * Ctrl-C starts a new line. */
static void progress_fits_the_terminal(void)
{
    program_text("r.toml", recipe);
    program_start_to(PROGRAM_NARROW,
                     "train %s -o %s -t 1 --train.steps 20000 "
                     "--train.save_every 0 --train.eval_every 0 " SMALL,
                     program_path("r.toml"), program_path("narrow"));
    program_sleep(900);
    program_signal(SIGINT);
    program_wait();
    CHECK_EQ(program.code, 130);
    CHECK(strstr(program.out, "\r\nfovea: saved in") != NULL);
    int lines = 0;
    for (char *line = program.out; *line;) {
        const size_t length = strcspn(line, "\r\n");
        const char *text = strncmp(line, "\033[K", 3) == 0 ? line + 3 : line;
        if (strncmp(text, "step ", 5) == 0) {
            lines++;
            CHECK(length - (size_t)(text - line) <= 49);
            CHECK(memmem(text, length, "loss ", 5) && memmem(text, length, " left", 5));
        }
        line += length + strspn(line + length, "\r\n");
    }
    CHECK(lines > 0);
}

/* The message does not name the op that was running when the translation was stopped. */
static void ctrl_c_ends_a_run(void)
{
    enum { LINES = 200000 };
    char *text = malloc(LINES * 7 + 1);
    for (int i = 0; text && i < LINES; i++)
        memcpy(text + (size_t)i * 7, "3.5.79\n", 8);
    CHECK(text != NULL);
    if (!text) return;
    program_text("many.txt", text);
    free(text);
    program_run_signalled(SIGINT, NULL, "run %s -f %s -t 1", program_path("m"),
                          program_path("many.txt"));
    expect(130, NULL, "fovea: run: interrupted\n");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(the_demo_shows_what_it_says);
    RUN(a_recipe_becomes_a_model);
    RUN(a_folder_keeps_its_recipe);
    RUN(translators_use_their_options);
    RUN(every_key_is_explained);
    RUN(mistakes_are_reported);
    RUN(ctrl_c_saves);
    RUN(shades_follow_the_locale);
    RUN(progress_fits_the_terminal);
    RUN(ctrl_c_ends_a_run);
    program_end();
    return TEST_END();
}

/* 'fovea train' and its folder: whose files it replaces, what it only tells, and how signals and
 * missing descriptors leave it. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmade = \"dates\"\ntrain_pairs = 40\nvalid_pairs = 4\n"
    "[tokens]\nkind = \"char\"\nmin_count = 1\n"
    "[model]\nhidden = 6\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\n"
    "readout_width = 6\n"
    "[train]\nsteps = 20\nbatch_tokens = 100\nsave_every = 0\nlog_every = 1\n";

static bool is_there(const char *name) { return access(program_path(name), F_OK) == 0; }

static bool holds(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool same = data && bytes == strlen(text) && memcmp(data, text, bytes) == 0;
    free(data);
    return same;
}

static void make_folder(const char *name) { CHECK_EQ(mkdir(program_path(name), 0700), 0); }

static void train(const char *folder, const char *options)
{
    program_run("train %s -o %s %s", program_path("r.toml"), program_path(folder), options);
}

/* ---- other people's files --------------------------------------------------------------- */

static const char *const foreign[] = {"f/config.json", "f/log.jsonl", "f/model.safetensors",
                                      "f/notes.json.1.tmp", "f/config.json.1.tmp"};
enum { FOREIGN = sizeof foreign / sizeof *foreign };

static void a_foreign_folder_is_refused(void)
{
    make_folder("f");
    for (int i = 0; i < FOREIGN; i++)
        program_text(foreign[i], "mine");
    train("f", "");
    expect(2, NULL, "it holds 'config.json'");
    expect(2, NULL, "--force");
    for (int i = 0; i < FOREIGN; i++)
        CHECK(holds(foreign[i], "mine"));
    CHECK(!is_there("f/recipe.toml") && !is_there("f/states.json"));
    train("f", "--force");
    expect(0, NULL, "the model is in");
    CHECK(!holds("f/config.json", "mine"));
    CHECK(holds("f/notes.json.1.tmp", "mine") && holds("f/config.json.1.tmp", "mine"));
    train("f", ""); /* now it is a run */
    expect(0, NULL, NULL);
    CHECK(holds("f/notes.json.1.tmp", "mine") && holds("f/config.json.1.tmp", "mine"));
    make_folder("hidden");
    program_text("hidden/.gitkeep", "");
    train("hidden", "");
    expect(0, NULL, NULL);
}

/* Only what a run itself can have left behind is removed. */
static void leftovers(void)
{
    static const char *const ours[] = {"k/recipe.toml.fovea-0.tmp", "k/states.json.fovea-12.tmp",
                                       "k/state-00000020.safetensors.fovea-1.tmp"};
    static const char *const theirs[] = {"k/notes.json.fovea-0.tmp", "k/states.json.0.tmp",
                                         "k/state-x.safetensors.fovea-0.tmp",
                                         "k/states.json.fovea-.tmp", "k/states.json.fovea-1.tmp2"};
    make_folder("k");
    for (int i = 0; i < 3; i++)
        program_text(ours[i], "part");
    train("k", ""); /* killed before its first file was complete: still a new run */
    expect(0, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(!is_there(ours[i]));
        program_text(ours[i], "part");
    }
    for (int i = 0; i < 5; i++)
        program_text(theirs[i], "mine");
    train("k", "");
    expect(0, NULL, NULL);
    for (int i = 0; i < 3; i++)
        CHECK(!is_there(ours[i]));
    for (int i = 0; i < 5; i++)
        CHECK(holds(theirs[i], "mine"));
}

static void other_verbs_refuse_too(void)
{
    make_folder("set");
    program_text("set/train.source", "mine");
    program_run("data make copy --count 5 --held-out 2 -o %s", program_path("set"));
    expect(2, NULL, "it holds 'train.source'");
    CHECK(holds("set/train.source", "mine"));
    for (int i = 0; i < 2; i++) { /* its own set is replaced */
        program_run("data make copy --count 5 --held-out 2 -o %s", program_path("own-set"));
        expect(0, NULL, NULL);
    }
    make_folder("demo");
    program_text("demo/alignment.svg", "mine");
    program_run("demo --steps 2 -o %s", program_path("demo"));
    expect(2, NULL, "it holds 'alignment.svg'");
    make_folder("a-average");
    program_text("a-average/x", "mine");
    train("a", "--average 1");
    expect(2, NULL, "it holds 'x'");
    CHECK(!is_there("a"));
    unlink(program_path("a-average/x"));
    for (int i = 0; i < 2; i++) {
        train("a", "--average 1");
        expect(0, NULL, "a-average");
    }
}

static void inputs_are_not_replaced(void)
{
    char options[256];
    train("base", "");
    expect(0, NULL, NULL);
    snprintf(options, sizeof options, "--init-from %s --force", program_path("base"));
    train("base", options);
    expect(2, NULL, "which this run would replace");
    make_folder("d");
    program_text("d/log.csv", "a b\n");
    snprintf(options, sizeof options,
             "--data.train_source %s --data.train_target %s --data.made none --force",
             program_path("d/log.csv"), program_path("d/log.csv"));
    train("d", options);
    expect(2, NULL, "which this run would replace");
    CHECK(holds("d/log.csv", "a b\n"));
}

/* ---- --check ----------------------------------------------------------------------------- */

static void checking_writes_nothing(void)
{
    train("new", "--check");
    expect(0, "starts a new run", "nothing was written");
    expect(0, "r.toml", NULL);
    CHECK(strstr(program.out, "memory") && strstr(program.out, "for 20 steps"));
    CHECK(!is_there("new"));
    train("base", "--check");
    expect(0, "resumes from state-00000020.safetensors", NULL);
    expect(0, "replaces", NULL);
    make_folder("other");
    program_text("other/config.json", "mine");
    train("other", "--check");
    expect(0, "is refused without --force", NULL);
    CHECK(holds("other/config.json", "mine") && !is_there("other/recipe.toml"));
}

static void a_changed_rate_is_reported(void)
{
    train("rate", "--train.lr 0.001");
    expect(0, NULL, NULL);
    train("rate", "--train.lr 0.002 --train.steps 24 -q");
    expect(0, NULL, "lr 0.001 -> 0.002 from step 20");
    train("rate", "--train.lr 0.002 --train.steps 28 -q");
    expect(0, NULL, NULL);
    CHECK(!strstr(program.err, "->"));
}

/* ---- descriptors and signals -------------------------------------------------------------- */

/* Messages must not go into a file that was opened in place of a missing descriptor. */
static void missing_descriptors(void)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' train '%s' -o '%s' <&- >&- 2>&-", getenv("FV_PROGRAM"),
             program_path("r.toml"), program_path("closed"));
    CHECK_EQ(system(command), 0);
    size_t bytes = 0;
    char *log = file_read(program_path("closed/log.jsonl"), &bytes);
    CHECK(log && bytes > 0);
    int lines = 0;
    for (size_t at = 0; log && at < bytes; lines++) {
        CHECK_EQ(log[at], '{');
        const char *end = memchr(log + at, '\n', bytes - at);
        CHECK(end != NULL);
        at = end ? (size_t)(end - log) + 1 : bytes;
    }
    CHECK_EQ(lines, 21); /* 20 steps and an evaluation */
    free(log);
}

static int states_of(const char *folder)
{
    char path[256];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/states.json", folder);
    char *list = file_read(program_path(path), &bytes);
    int count = list != NULL;
    for (size_t i = 0; list && i < bytes; i++)
        count += list[i] == ',';
    free(list);
    return count;
}

static void signals(void)
{
    static const struct {
        int number;
        const char *folder;
    } ends[] = {{SIGHUP, "hup"}, {SIGXCPU, "xcpu"}};
    for (int i = 0; i < 2; i++) {
        program_run_signalled(ends[i].number, "step 100/", "train %s -o %s --train.steps 1000",
                              program_path("r.toml"), program_path(ends[i].folder));
        expect(130, NULL, "saved in");
        CHECK_EQ(states_of(ends[i].folder), 1);
    }
    program_run_signalled(SIGUSR1, "step 100/", "train %s -o %s --train.steps 1000",
                          program_path("r.toml"), program_path("usr1"));
    expect(0, NULL, "step 1000/1000");
    CHECK_EQ(states_of("usr1"), 2); /* the requested one and the last */
}

/* As under nohup. */
static void an_ignored_hangup_stays_ignored(void)
{
    signal(SIGHUP, SIG_IGN);
    program_start("train %s -o %s --train.steps 400", program_path("r.toml"),
                  program_path("nohup"));
    for (int i = 0; i < 5000 && !is_there("nohup/log.csv"); i++)
        program_sleep(1);
    program_signal(SIGHUP);
    program_wait();
    signal(SIGHUP, SIG_DFL);
    expect(0, NULL, "step 400/400");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    program_text("r.toml", recipe);
    RUN(a_foreign_folder_is_refused);
    RUN(leftovers);
    RUN(other_verbs_refuse_too);
    RUN(inputs_are_not_replaced);
    RUN(checking_writes_nothing);
    RUN(a_changed_rate_is_reported);
    RUN(missing_descriptors);
    RUN(signals);
    RUN(an_ignored_hangup_stays_ignored);
    program_end();
    return TEST_END();
}

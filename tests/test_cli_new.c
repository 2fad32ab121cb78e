/* fovea train --new FILE, and training from the user's side: what a first run needs. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

#define SHORT "--train.steps 2 --train.eval_every 0 --eval.max_texts 3 -t 1"

static char *text; /* a file under construction */
static size_t used;

static void begin_text(void)
{
    free(text);
    text = calloc(1, 1 << 20);
    used = 0;
}

static void add(const char *fmt, int a, int b)
{
    used += (size_t)snprintf(text + used, (1 << 20) - used, fmt, a, b);
}

static bool file_has(const char *name, const char *what)
{
    size_t bytes;
    char *found = file_read(program_path(name), &bytes), *copy = calloc(1, bytes + 1);
    if (found && copy) memcpy(copy, found, bytes);
    const bool has = copy && strstr(copy, what);
    free(found);
    free(copy);
    return has;
}

static int lines_of(const char *name)
{
    size_t bytes;
    int lines = 0;
    char *found = file_read(program_path(name), &bytes);
    for (size_t i = 0; found && i < bytes; i++)
        lines += found[i] == '\n';
    free(found);
    return lines;
}

/* The estimate before training is the number of parameters that the model then has. */
static void check_parameters(void)
{
    const char *about = strstr(program.err, " million parameters"),
               *exact = strstr(program.err, " parameters\n");
    while (exact && about && exact < about + 12)
        exact = strstr(exact + 1, " parameters\n");
    CHECK(about && exact);
    if (!about || !exact) return;
    while (about > program.err && about[-1] != ' ')
        about--;
    while (exact > program.err && exact[-1] != ' ')
        exact--;
    CHECK_NEAR(strtod(about, NULL) * 1e6 / strtod(exact, NULL), 1, 0.01);
}

/* 60 pairs, the seventh line damaged. */
static void write_pairs(const char *name)
{
    begin_text();
    for (int i = 1; i <= 60; i++)
        add(i == 7 ? "no second field %d%.0d\n" : "The cat has %d fish.\tLe chat a %d poissons.\n",
            i, i);
    program_text(name, text);
}

static void pairs_become_a_translator(void)
{
    write_pairs("own.tsv");
    program_run("train --new %s -o %s " SHORT, program_path("own.tsv"), program_path("own"));
    expect(0, "", "own.tsv:7: 1 fields, expected 2; left out");
    expect(0, "", "task: translation from column 1 to column 2");
    expect(0, "", "expected: about");
    expect(0, "", "of memory (");
    expect(0, "", "    source      The cat has ");
    expect(0, "", "    reference   Le chat a ");
    expect(0, "", "    hypothesis  ");
    expect(0, "", "to translate: fovea run ");
    expect(0, "", "to draw its attention: fovea look ");
    expect(0, "", "for example, the model's answer to \"The cat has ");
    expect(0, "", "own/sample.svg (");
    CHECK(program.out[0] != '\0'); /* the answer */
    CHECK(file_has("own/sample.svg", ">fish</text>"));
    check_parameters();
    CHECK(file_has("own/data/own.toml", "[model]\nembedding = 64 # tiny"));
    CHECK_EQ(lines_of("own/data/train.source") + lines_of("own/data/valid.source"), 59);
    CHECK_EQ(lines_of("own/data/train.source"), lines_of("own/data/train.target"));
    CHECK(lines_of("own/data/valid.source") >= 2 && lines_of("own/data/valid.source") <= 14);
    program_run("run %s The", program_path("own"));
    expect(0, NULL, NULL);
    program_run("look %s The -o %s", program_path("own"), program_path("x.svg"));
    expect(0, NULL, NULL);
    CHECK_EQ(access(program_path("x.svg"), R_OK), 0);
}

/* Equal texts are on one side of the split, and the split does not depend on other rows. */
static void the_split_is_by_hash(void)
{
    begin_text();
    for (int i = 1; i <= 400; i++)
        add(i % 2 ? "the cat has %d fish\tA %d\n" : "The cat has %d fish!\tB %d\n", (i + 1) / 2, i);
    program_text("twice.tsv", text);
    program_run("train --new %s -o %s " SHORT, program_path("twice.tsv"), program_path("twice"));
    expect(0, "", NULL);
    CHECK_EQ(lines_of("twice/data/valid.target") % 2, 0);
    for (int i = 1; i <= 200; i++) {
        char a[32], b[32];
        snprintf(a, sizeof a, "A %d\n", 2 * i - 1);
        snprintf(b, sizeof b, "B %d\n", 2 * i);
        CHECK_EQ(file_has("twice/data/valid.target", a), file_has("twice/data/valid.target", b));
    }
}

static void classes_are_found(void)
{
    begin_text();
    add("id;text;label\n", 0, 0);
    for (int i = 1; i <= 80; i++)
        add("%d;\"a question; number %d\";", i, i), add(i % 2 ? "odd\n" : "even\n", 0, 0);
    program_text("c.csv", text);
    program_run("train --new %s -o %s " SHORT, program_path("c.csv"), program_path("c"));
    expect(0, "", "separated by semicolons, 80 rows, columns id, text, label");
    expect(0, "", "classification of column text in the 2 classes of column label");
    expect(0, "", "    text        a question; number ");
    expect(0, "", "    class       ");
    expect(0, "", "    prediction  ");
    expect(0, "", "c/sample.svg (");
    check_parameters();
    CHECK(file_has("c/data/train.csv", "\"a question; number "));
    program_run("run %s question", program_path("c"));
    expect(0, NULL, NULL);
    program_run("train --new %s -o %s --columns text,lable", program_path("c.csv"),
                program_path("d"));
    expect(2, "", "has no column 'lable'; it has id, text, label");
    CHECK(access(program_path("d"), F_OK) != 0);
}

static void pairs_of_sentences_are_found(void)
{
    begin_text();
    for (int i = 1; i <= 60; i++)
        add("{\"premise\": \"one %d\", \"hypothesis\": \"two %d\", ", i, i),
            add("\"label\": %d}\n", i % 3, 0);
    program_text("p.jsonl", text);
    program_run("train --new %s -o %s " SHORT, program_path("p.jsonl"), program_path("p"));
    expect(0, "",
           "sentence pairs, columns premise and hypothesis, in the 3 classes of column label");
    expect(0, "", "to classify: fovea run ");
    expect(0, "", "\n    second text two ");
    CHECK(file_has("p/data/train.csv", "text,second,label\n\"one 1\",\"two 1\",\"1\"\n"));
    program_run("run %s one two one three", program_path("p"));
    expect(0, "\tone\ttwo\n", "");
    expect(0, "\tone\tthree\n", "");
    program_run("run %s -p one\ttwo", program_path("p"));
    expect(0, "\tone\ttwo\n", "");
    program_run("run %s one two one", program_path("p"));
    expect(2, "", "3 texts, expected pairs");
    program_run("run %s -p one", program_path("p"));
    expect(3, "", "no tab in \"one\"");
    program_run("look %s one two -o %s --links --layer 0", program_path("p"),
                program_path("l.svg"));
    expect(0, "", NULL);
    CHECK(file_has("l.svg", ">two<"));
}

static void text_becomes_a_language_model(void)
{
    begin_text();
    for (int i = 1; i <= 300; i++)
        add("A line of text, number %d.\n%.0d", i, 0);
    program_text("t.txt", text);
    program_run("train --new %s -o %s " SHORT, program_path("t.txt"), program_path("t"));
    expect(0, "", "task: language model");
    expect(0, "", "to continue a text: fovea run ");
    expect(0, "", "\n    reference   ");
    expect(0, "", "\n    sample      ");
    expect(0, "", "t/sample.svg (");
    check_parameters();
    program_run("run %s -p line -n 5", program_path("t"));
    expect(0, NULL, NULL);
}

static void a_check_writes_nothing(void)
{
    program_run("train --new --check %s -o %s", program_path("own.tsv"), program_path("k"));
    expect(0, "", "expected: about");
    expect(0, "", "nothing was written");
    CHECK(access(program_path("k"), F_OK) != 0);
}

static void the_same_command_resumes(void)
{
    program_run("train --new %s -o %s --train.steps 4 --eval.max_texts 3", program_path("own.tsv"),
                program_path("own"));
    expect(0, "", "resuming after step 2");
    begin_text();
    for (int i = 1; i <= 60; i++)
        add("Other %d.\tAutre %d.\n", i, i);
    program_text("own.tsv", text);
    program_run("train --new %s -o %s", program_path("own.tsv"), program_path("own"));
    expect(2, "", "has changed since");
}

/* Runs the program with a file of the folder as standard input, through a pipe. */
static void run_piped(const char *name, const char *options)
{
    size_t bytes = 0;
    int ends[2];
    const int input = dup(0);
    char *data = file_read(program_path(name), &bytes);
    CHECK(data && bytes < 60000 && pipe(ends) == 0); /* less than a pipe holds */
    CHECK_EQ(dup2(ends[0], 0), 0);
    CHECK_EQ(write(ends[1], data, bytes), (ssize_t)bytes);
    close(ends[1]);
    close(ends[0]);
    program_run("train --new - %s", options);
    CHECK_EQ(dup2(input, 0), 0);
    close(input);
    free(data);
}

static void a_pipe_is_saved(void)
{
    char options[512];
    write_pairs("piped.tsv");
    snprintf(options, sizeof options, "-o %s " SHORT, program_path("piped"));
    run_piped("piped.tsv", options);
    expect(0, "", "standard input: separated by tabs, 60 rows");
    expect(0, "", "to resume without the pipe: fovea train ");
    CHECK_EQ(lines_of("piped/data/input"), 60);
    run_piped("piped.tsv", options);
    expect(0, "", "resuming after step 2");
    program_run("train %s -o %s " SHORT, program_path("piped/data/stdin.toml"),
                program_path("piped"));
    expect(0, "", "resuming after step 2");
    run_piped("t.txt", options);
    expect(2, "", "standard input has changed since");
    CHECK_EQ(lines_of("piped/data/input"), 60);
    CHECK(access(program_path("piped/data/input-again"), F_OK) != 0);
    /* Nothing is left of data that cannot be used, or in a folder of others. */
    program_text("x.txt", "x\n");
    snprintf(options, sizeof options, "-o %s", program_path("nothing"));
    run_piped("x.txt", options);
    expect(3, "", "standard input: 2 bytes of text");
    CHECK(access(program_path("nothing"), F_OK) != 0);
    mkdir(program_path("other"), 0700);
    program_text("other/notes.txt", "mine\n");
    snprintf(options, sizeof options, "-o %s", program_path("other"));
    run_piped("piped.tsv", options);
    expect(2, "", "notes.txt");
    CHECK(access(program_path("other/data"), F_OK) != 0);
    snprintf(options, sizeof options, "-o %s --check", program_path("nothing"));
    run_piped("piped.tsv", options);
    expect(2, "", "--check needs a file: - can be read only once");
}

static void mistakes_are_explained(void)
{
    program_run("train %s", program_path("own.tsv"));
    expect(2, "", "is not a recipe (a TOML file); to train on its data: fovea train --new ");
    program_text("few.tsv", "a\tb\nc\td\n");
    program_run("train --new %s -o %s", program_path("few.tsv"), program_path("few"));
    expect(3, "", "2 rows to train on, expected at least 20");
    program_run("train --new %s -o %s", program_path("absent.tsv"), program_path("few"));
    expect(3, "", "absent.tsv");
    mkdir(program_path("theirs"), 0700);
    program_text("theirs/notes.txt", "mine\n");
    program_run("train --new %s -o %s", program_path("twice.tsv"), program_path("theirs"));
    expect(2, "", "notes.txt");
    CHECK(access(program_path("theirs/data"), F_OK) != 0);
}

/* ---- any recipe ------------------------------------------------------------------------------ */

static void write_recipe(const char *more)
{
    char recipe[1024];
    snprintf(
        recipe, sizeof recipe,
        "[data]\nmade = \"dates\"\ntrain_pairs = 200\nvalid_pairs = 8\n[tokens]\nkind = \"char\"\n"
        "[model]\nembedding = 8\nencoder_hidden = 8\nhidden = 8\nattention_width = 8\n"
        "readout_width = 8\n%s",
        more);
    program_text("r.toml", recipe);
}

static void too_much_memory_is_refused(void)
{
    write_recipe("");
    program_run("train %s -o %s --model.hidden 300000", program_path("r.toml"), program_path("m"));
    expect(4, "", "this run needs about ");
    expect(4, "", " TiB of memory; ");
    CHECK(access(program_path("m"), F_OK) != 0);
    /* the cap that the library works under, too */
    program_run("train %s -o %s -t 1 --memory 16M", program_path("r.toml"), program_path("m"));
    expect(4, "", "the memory cap is 16.0 MiB, --memory SIZE sets another");
    CHECK(access(program_path("m"), F_OK) != 0);
}

static void epochs_become_steps(void)
{
    write_recipe("[train]\nepochs = 2\nbatch_examples = 20\n");
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("e"));
    expect(0, "", "step 20/20  epoch 2.00");
    CHECK(file_has("e/recipe.toml", "\nsteps = 20\n"));
    program_run("train %s -o %s -t 1 --epochs 3", program_path("r.toml"), program_path("e"));
    expect(0, "", "step 30/30  epoch 3.00");
}

static void short_names_of_keys(void)
{
    write_recipe("");
    program_run("train %s -o %s -t 1 --steps 3 --lr=0.25", program_path("r.toml"),
                program_path("s"));
    expect(0, "", "step 3/3 ");
    CHECK(file_has("s/recipe.toml", "\nlr = 0.25\n"));
    program_run("train %s --dropout 0.5", program_path("r.toml"));
    expect(2, "", "--dropout is ambiguous, expected one of --");
    expect(2, "", "--transformer.dropout");
    expect(2, "", "--model.dropout");
    program_run("train %s --stpes 3", program_path("r.toml"));
    expect(2, "", "unknown option '--stpes'");
}

static void models_open_after_the_first_save(void)
{
    write_recipe("[train]\nsave_every = 2\neval_every = 0\nsteps = 100000\n");
    program_run_signalled(SIGINT, "step", "train %s -o %s -t 1 --train.log_every 1 --steps 2000",
                          program_path("r.toml"), program_path("i"));
    expect(130, "", "run the same command to resume");
    program_run("run %s 1", program_path("i"));
    expect(0, NULL, NULL);
}

static void sizes_follow_the_data(void)
{
    begin_text();
    add("text,label\n", 0, 0);
    for (int i = 1; i <= 2000; i++)
        add(i % 2 ? "question %d,odd%.0d\n" : "question %d,even%.0d\n", i, 0);
    program_text("q.csv", text);
    program_text("q.toml", "[data]\ntrain_csv = \"q.csv\"\n[transformer]\nfamily = \"bert\"\n"
                           "[train]\ntask = \"classify\"\nbatch_tokens = 200\n");
    program_run("train %s -o %s -t 1 --steps 1 --eval.max_texts 3", program_path("q.toml"),
                program_path("q"));
    expect(0, "", "sets no model size; for 35 KiB of data: width 64, 2 layers");
    CHECK(file_has("q/config.json", "\"hidden_size\":64"));
}

/* Keys decide the task, the family and the kind of model, or the message says what would. */
static void keys_imply_the_task(void)
{
    static const struct {
        const char *recipe;
        int code;
        const char *message;
    } cases[] = {
        {"[data]\ntrain_text = \"t.txt\"\n[transformer]\nfamily = \"gpt2\"\n", 0,
         "the keys imply train.task language\n"},
        {"[data]\ntrain_text = \"t.txt\"\n[train]\nspan_share = 0.2\n", 0,
         "the keys imply train.task spans, transformer.family t5\n"},
        {"[data]\ntrain_csv = \"q.csv\"\nlabel_column = \"label\"\n", 0,
         "the keys imply train.task classify, transformer.family bert\n"},
        {"[data]\ntrain_text = \"t.txt\"\n[train]\ntask = \"masked\"\n", 0,
         "the keys imply transformer.family bert\n"},
        {"[data]\nmade = \"dates\"\ntrain_pairs = 50\nvalid_pairs = 4\n[transformer]\nwidth = 32\n"
         "heads = 2\nhidden = 32\nencoder_layers = 1\ndecoder_layers = 1\n",
         0, "the keys imply model.kind transformer\n"},
        {"[data]\ntrain_text = \"t.txt\"\n", 2,
         "the keys fit the tasks language or masked or spans; set train.task, or a key that "
         "decides: transformer.family = \"gpt2\", transformer.family = \"bert\", "
         "train.span_share\n"},
        {"[data]\ntrain_csv = \"q.csv\"\n", 2,
         "the keys fit the tasks masked or classify; set train.task, or a key that decides: "
         "data.label_column, train.next_sentence\n"},
        {"[data]\ntrain_source = \"t.txt\"\ntrain_csv = \"q.csv\"\n", 2,
         "data.train_source is for translation, data.train_csv for masked or classify; remove one "
         "of them, or set train.task\n"},
        {"[data]\nmade = \"dates\"\n[model]\nhidden = 8\n[transformer]\nwidth = 8\n", 2,
         "model.hidden is for recurrent models, transformer.width for Transformers; set model.kind "
         "to recurrent or transformer\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_text("i.toml", cases[i].recipe);
        program_run(
            "train %s -o %s --check -t 1 --batch_tokens 200 --data.length 32 --documents lines",
            program_path("i.toml"), program_path("i-run"));
        expect(cases[i].code, "", cases[i].message);
    }
    /* A recipe that says it all implies nothing. */
    write_recipe("");
    program_run("train %s -o %s --check -t 1", program_path("r.toml"), program_path("i-run"));
    CHECK(strstr(program.err, "imply") == NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(pairs_become_a_translator);
    RUN(the_split_is_by_hash);
    RUN(classes_are_found);
    RUN(pairs_of_sentences_are_found);
    RUN(text_becomes_a_language_model);
    RUN(a_check_writes_nothing);
    RUN(the_same_command_resumes);
    RUN(a_pipe_is_saved);
    RUN(mistakes_are_explained);
    RUN(too_much_memory_is_refused);
    RUN(epochs_become_steps);
    RUN(short_names_of_keys);
    RUN(models_open_after_the_first_save);
    RUN(sizes_follow_the_data);
    RUN(keys_imply_the_task);
    free(text);
    program_end();
    return TEST_END();
}

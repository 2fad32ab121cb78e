/*
 * Every recipe of recipes/, in its small form: train, kill, resume, then run, look, eval and
 * inspect. No data set is needed: what a recipe does not find is generated.
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

enum { MAX_RECIPES = 64, NAME_ROOM = 64 };

static char recipes[MAX_RECIPES][NAME_ROOM];
static int recipe_count;
static char recipe_folder[512];

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void find_recipes(void)
{
    const char *tests = getenv("FV_TEST_DIR");
    snprintf(recipe_folder, sizeof recipe_folder, "%.480s/../recipes", tests ? tests : "tests");
    DIR *list = opendir(recipe_folder);
    CHECK(list != NULL);
    const struct dirent *entry;
    while (list && (entry = readdir(list)) && recipe_count < MAX_RECIPES) {
        const char *end = strstr(entry->d_name, ".toml");
        const size_t n = end ? (size_t)(end - entry->d_name) : 0;
        if (n == 0 || end[5] || n >= NAME_ROOM) continue;
        memcpy(recipes[recipe_count++], entry->d_name, n);
    }
    if (list) closedir(list);
    qsort(recipes, (size_t)recipe_count, sizeof *recipes, by_name);
    CHECK(recipe_count >= 12);
}

/* ---- training ------------------------------------------------------------------------------- */

/* Few steps, of which the fourth is saved: that is where the second run is killed. */
#define STEPS                                                                                      \
    "--train.steps 12 --train.warmup 2 --train.save_every 4 --train.eval_every 6 "                 \
    "--data.train_pairs 600 --data.valid_pairs 20 --eval.beam 1"

/* What the program says where it resumes. */
#define RESUMED "resuming after step"

static void start_training(const char *recipe, const char *folder, int threads)
{
    program_start("train %s/%s.toml --small -o %s -t %d " STEPS, recipe_folder, recipe, folder,
                  threads);
}

static void train(const char *recipe, const char *folder, int threads)
{
    start_training(recipe, folder, threads);
    program_wait();
}

/* Waits until the folder lists a state, or the program has ended. */
static void wait_for_state(const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/states.json", folder);
    for (int i = 0; i < 60000 && access(path, R_OK) != 0; i++)
        program_sleep(1);
    CHECK_EQ(access(path, R_OK), 0);
}

/* The tensors of a safetensors file, without its header: that of a state has the time in it. */
static unsigned char *tensors_of(const char *folder, const char *name, unsigned char **data,
                                 size_t *bytes)
{
    char path[1024];
    size_t all = 0, header = 8;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *bytes = 0;
    *data = file_read(path, &all);
    for (int i = 0; *data && all > 8 && i < 8; i++)
        header += (size_t)(*data)[i] << (8 * i);
    if (!*data || header >= all) return NULL;
    *bytes = all - header;
    return *data + header;
}

static void expect_equal_tensors(const char *a, const char *b, const char *name)
{
    unsigned char *data[2];
    size_t bytes[2];
    const unsigned char *first = tensors_of(a, name, &data[0], &bytes[0]),
                        *second = tensors_of(b, name, &data[1], &bytes[1]);
    CHECK(first && second);
    if (first && second && (bytes[0] != bytes[1] || memcmp(first, second, bytes[0]) != 0))
        test_failed(__FILE__, __LINE__, "%s of %s and %s differ", name, a, b);
    free(data[0]);
    free(data[1]);
}

/* Trains once without a break and once with one. Returns whether the signal came before the end. */
static bool train_twice(const char *recipe, int signal_number, const char *whole,
                        const char *killed)
{
    train(recipe, whole, 2);
    expect(0, NULL, "step 12/12");
    start_training(recipe, killed, 1);
    wait_for_state(killed);
    program_signal(signal_number);
    program_wait();
    const bool stopped = program.signal == signal_number || program.code == 130;
    CHECK(stopped || program.code == 0);
    train(recipe, killed, 2);
    expect(0, NULL, RESUMED);
    expect_equal_tensors(whole, killed, "model.safetensors");
    expect_equal_tensors(whole, killed, "state-00000012.safetensors"); /* and the optimizer's */
    return stopped;
}

/* ---- using ---------------------------------------------------------------------------------- */

static bool file_contains(const char *folder, const char *name, const char *text)
{
    char path[1024];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *data = file_read(path, &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

/* A model of bit sequences, on one that is generated. */
static void use_bit_model(const char *folder)
{
    program_text("bits", "length 12\n");
    program_run("run %s -f %s", folder, program_path("bits"));
    expect(0, " bits wrong\n", "");
    program_run("look %s -f %s -o %s", folder, program_path("bits"), program_path("look.svg"));
    expect(0, "", "");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "wrong", "drawn at every step");
}

/* A model that reads pictures, on a PNG of the test data. */
static void use_picture_model(const char *folder)
{
    program_run("run %s %s", folder, test_path("data/image/rgb.png"));
    expect(0, "/rgb.png\n", NULL);
    program_run("look %s %s -o %s", folder, test_path("data/image/rgb.png"),
                program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "accuracy", "for the test");
}

/* A model that reads recordings, on a WAV of the test data. */
static void use_recording_model(const char *folder)
{
    const char *sweep = test_path("data/audio/sweep.wav");
    program_run("run %s %s", folder, sweep);
    expect(0, "/sweep.wav\n", NULL);
    program_run("look %s %s -o %s", folder, sweep, program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, NULL, "for the test");
    if (!file_contains(folder, "recipe.toml", "task = \"captions\"")) return;
    expect(0, "word_error", NULL);
    expect(0, "monotone", NULL);
}

/* A model that writes captions of pictures. */
static void use_caption_model(const char *folder)
{
    const char *picture = test_path("data/image/rgb.png");
    program_run("run %s %s --beam 2 --tokens 9", folder, picture);
    expect(0, "\n", "");
    program_run("look %s %s -o %s", folder, picture, program_path("film.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "film.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "on_place", "for the test");
}

/* An agent, on episodes of its game. */
static void use_agent(const char *folder)
{
    program_run("run %s 1", folder);
    expect(0, ", episode 1: ", "");
    program_run("look %s 1 -o %s", folder, program_path("film.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "film.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "won", "test episodes");
}

/* A model that answers questions about pictures. */
static void use_question_model(const char *folder)
{
    const char *picture = test_path("data/image/rgb.png");
    program_run("run %s %s --ask what_shape_is_the_red_object?", folder, picture);
    expect(0, "/rgb.png\n", NULL);
    program_run("look %s %s --ask what_shape_is_the_red_object? -o %s", folder, picture,
                program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", ">hop 0<"));
    program_run("eval %s", folder);
    expect(0, "relational", "for the test");
}

/* A model that draws. */
static void use_drawing_model(const char *folder)
{
    program_run("run %s --count 1 -o %s", folder, program_path("grid.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "grid.svg", "</svg>"));
    program_run("look %s -o %s", folder, program_path("look.svg"));
    expect(0, "", "wrote ");
    program_run("eval %s", folder);
    expect(0, "frechet", NULL);
}

/* A model that points at points. */
static void use_pointing_model(const char *folder)
{
    const bool sorts = file_contains(folder, "recipe.toml", "problem = \"sort\"");
    program_text("points", sorts ? "3\n1\n2\n" : "0.1 0.2\n0.8 0.3\n0.5 0.9\n0.4 0.4\n");
    program_run("run %s %s", folder, program_path("points"));
    expect(0, "\t", "");
    program_run("look %s %s -o %s", folder, program_path("points"), program_path("plane.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "plane.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, NULL, "for the test");
}

/* A reader of stories or a walker, on a generated example. */
static void use_example_model(const char *folder)
{
    program_run("run %s --example 1", folder);
    expect(0, "\n", "");
    program_run("look %s --example 1 -o %s", folder, program_path("example.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "example.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, NULL, "for the test");
}

/* Vectors of words. */
static void use_word_model(const char *folder)
{
    program_run("run %s the -n 3", folder);
    expect(0, "\n", NULL);
    program_run("look %s -o %s", folder, program_path("look.svg"));
    expect(0, "", NULL);
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
}

/* A recurrent language model that attends over its states. */
static void use_reading_model(const char *folder)
{
    program_run("look %s -p the_cat -o %s", folder, program_path("look.svg"));
    expect(0, "", "wrote ");
    program_run("eval %s", folder);
    expect(0, "loss", NULL);
}

/* A recommender, for one of its viewers. */
static void use_recommender(const char *folder)
{
    program_run("run %s 1", folder);
    expect(0, "viewer 1\n", "");
    program_run("look %s 1 -o %s", folder, program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "means_auc", "viewers with 40 ratings");
}

/* A model that plays trials, on a test problem. */
static void use_trial_model(const char *folder)
{
    program_run("run %s 1", folder);
    expect(0, "problem 1: ", "");
    program_run("look %s 1 -o %s", folder, program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "ratio", NULL);
}

/* A model that learns from the examples of an episode. */
static void use_learner(const char *folder)
{
    program_run("run %s 3", folder);
    expect(0, "episode 3: class ", "");
    program_run("look %s 3 -o %s", folder, program_path("look.svg"));
    expect(0, "", "wrote ");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "nearest_pixels", "characters: ");
}

static void use_pair_model(const char *folder)
{
    program_run("run %s dog cat", folder);
    expect(0, "\tdog\tcat\n", "");
    program_run("look %s dog cat -o %s", folder, program_path("look.svg"));
    expect(0, "", "");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s", folder);
    expect(0, "accuracy", "");
}

/* How models are used whose recipe has a setting; the first that fits. */
static const struct {
    const char *setting;
    void (*use)(const char *folder);
} uses[] = {
    {"task = \"bit-sequences\"", use_bit_model},
    {"media = \"tones\"", use_recording_model},
    {"task = \"media-classes\"", use_picture_model},
    {"task = \"captions\"", use_caption_model},
    {"task = \"play\"", use_agent},
    {"task = \"questions\"", use_question_model},
    {"task = \"gan\"", use_drawing_model},
    {"task = \"points\"", use_pointing_model},
    {"task = \"stories\"", use_example_model},
    {"task = \"walk\"", use_example_model},
    {"task = \"word2vec\"", use_word_model},
    {"kind = \"lstmn\"", use_reading_model},
    {"task = \"ratings\"", use_recommender},
    {"task = \"trials\"", use_trial_model},
    {"task = \"episodes\"", use_learner},
    {"made = \"entailment\"", use_pair_model},
};

static void use_model(const char *folder)
{
    program_run("inspect %s", folder);
    expect(0, "F32", "");
    program_run("inspect %s/state-00000012.safetensors", folder);
    expect(0, "F32", "");
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (file_contains(folder, "recipe.toml", uses[i].setting)) {
            uses[i].use(folder);
            return;
        }
    const bool translates = file_contains(folder, "recipe.toml", "task = \"translation\"") ||
                            file_contains(folder, "recipe.toml", "task = \"spans\"");
    const bool writes = translates || file_contains(folder, "recipe.toml", "task = \"language\"");
    program_run("run %s -f %s%s", folder, program_path("source"), writes ? " -n 8" : "");
    expect(0, NULL, NULL);
    CHECK(strchr(program.out, '\n') != NULL);
    if (file_contains(folder, "recipe.toml", "task = \"language\"")) {
        /* more than the context, as in gpt2-shakespeare.toml */
        program_run("run %s -p ROMEO: -n 300 --min-tokens 300 --json", folder);
        expect(0, "\"tokens\": 300", "earlier tokens were dropped");
    }
    program_run("look %s cat -o %s", folder, program_path("look.svg"));
    expect(0, "", "");
    CHECK(file_contains(program_folder(), "look.svg", "</svg>"));
    program_run("eval %s %s %s --beam 1", folder, program_path("source"), program_path("target"));
    if (translates)
        expect(0, "of 2 texts", "");
    else
        expect(3, "", "does not translate");
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void every_recipe_trains_resumes_and_runs(void)
{
    int stopped = 0, walked = 0;
    char whole[256], killed[256];
    /* The masked token is for encoders; others read it as letters. */
    program_text("source", "the cat sees [MASK] mouse.\nthe dog finds the [MASK].\n");
    program_text("target", "le chat voit la souris.\nle chien trouve la souris.\n");
    for (int i = 0; i < recipe_count; i++) {
        snprintf(whole, sizeof whole, "%s/%s", program_folder(), recipes[i]);
        snprintf(killed, sizeof killed, "%s/%s-killed", program_folder(), recipes[i]);
        const int failures = test_failures();
        stopped += train_twice(recipes[i], i % 2 ? SIGTERM : SIGKILL, whole, killed);
        use_model(killed);
        if (test_failures() > failures) printf("in recipes/%s.toml\n", recipes[i]);
        walked++;
    }
    CHECK(walked == recipe_count);
    CHECK(2 * stopped >= walked); /* on a busy machine a run may end before its signal */
    printf("%d recipes, of which %d were stopped on the way\n", walked, stopped);
}

/* ---- which data a small form uses ------------------------------------------------------------ */

static const char recipe[] =
    "[data]\ntrain_source = \"s.txt\"\ntrain_target = \"s.txt\"\n"
    "[tokens]\nkind = \"char\"\nmin_count = 1\n[train]\nsteps = 1000000\n"
    "[small.model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\n"
    "readout_width = 7\n[small.train]\nsteps = 2\n";

static void small_forms_choose_their_data(void)
{
    char text[1024], folder[512];
    snprintf(folder, sizeof folder, "%s", program_path("small"));
    program_text("r.toml", recipe);
    program_run("train %s --small -o %s", program_path("r.toml"), folder);
    expect(4, "", "train: data.train_source: no such file, and the small form of ");
    CHECK(access(folder, F_OK) != 0);
    snprintf(text, sizeof text, "%s[small.data]\nmade = \"sort\"\ntrain_pairs = 40\n", recipe);
    program_text("r.toml", text);
    program_run("train %s --small -o %s", program_path("r.toml"), folder);
    expect(0, "", "train: data.train_source: no such file; the small form uses generated sort");
    expect(0, "", "40 pairs for training");
    /* What the folder keeps is the resolved recipe: it trains the same without --small. */
    CHECK(file_contains(folder, "recipe.toml", "made = \"sort\""));
    CHECK(file_contains(folder, "recipe.toml", "train_source = \"\""));
    CHECK(!file_contains(folder, "recipe.toml", "[small"));
    program_run("train %s/recipe.toml -o %s", folder, program_path("again"));
    expect(0, "", "step 2/2");
    expect_equal_tensors(folder, program_path("again"), "model.safetensors");
    /* With the files there it reads them, unless the command line asks for generated data. */
    program_text("s.txt", "a b\nb c\nc d\n");
    program_run("train %s --small -o %s", program_path("r.toml"), program_path("files"));
    expect(0, "", "3 pairs for training");
    CHECK(strstr(program.err, "generated") == NULL);
    program_run("train %s --small -o %s --data.made copy", program_path("r.toml"),
                program_path("asked"));
    expect(0, "", "40 pairs for training");
}

/* French letters one by one beside English subwords. */
static void sides_may_have_tokenizers_of_two_kinds(void)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", program_path("kinds"));
    program_text("kinds.toml",
                 "[data]\nmade = \"sentences\"\ntrain_pairs = 200\nvalid_pairs = 5\n"
                 "[tokens]\nkind = \"bytes\"\ntarget_kind = \"char\"\nvocabulary = 400\n"
                 "[model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\n"
                 "readout_width = 7\n[train]\nsteps = 1\n");
    program_run("train %s -o %s", program_path("kinds.toml"), folder);
    expect(0, "", "step 1/1");
    program_text("line.txt", "the red dog\n");
    program_run("tokenize %s %s", folder, program_path("line.txt"));
    CHECK(strstr(program.out, "t h e") == NULL);
    program_run("tokenize --target %s %s", folder, program_path("line.txt"));
    expect(0, "t h e", NULL);
    program_run("train %s -o %s --tokens.joint true", program_path("kinds.toml"),
                program_path("joint"));
    expect(3, "", "tokens.target_kind: expected \"same\" with tokens.joint = true");
}

static void a_recipe_without_a_small_form_is_refused(void)
{
    program_text("none.toml", "[data]\nmade = \"dates\"\n");
    program_run("train %s --small", program_path("none.toml"));
    expect(4, "", "none.toml: there is no small form");
    program_text("bad.toml", "[data]\nmade = \"dates\"\n[small.train]\nstesp = 3\n");
    program_run("train %s", program_path("bad.toml"));
    expect(3, "", "bad.toml:4:9: unknown key 'train.stesp'; did you mean 'train.steps'?");
    program_text("c.toml", "[data]\nmade = \"dates\"\n[train]\ntask = \"classify\"\n");
    program_run("train %s -o %s", program_path("c.toml"), program_path("c"));
    expect(3, "", "data.made: dates have no classes, expected sentences or entailment");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    unsetenv("FOVEA_DATA");
    find_recipes();
    RUN(small_forms_choose_their_data);
    RUN(sides_may_have_tokenizers_of_two_kinds);
    RUN(a_recipe_without_a_small_form_is_refused);
    RUN(every_recipe_trains_resumes_and_runs);
    program_end();
    return TEST_END();
}

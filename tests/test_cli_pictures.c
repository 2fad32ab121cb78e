/* fovea train, run, look and eval of classifiers of pictures, and what they refuse. */
#include <stdlib.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmedia = \"shapes\"\ntrain_count = 400\nvalid_count = 40\ntest_count = 60\n"
    "[train]\ntask = \"media-classes\"\nsteps = 40\nbatch_examples = 20\neval_every = 40\n"
    "optimizer = \"adamw\"\nlr = 0.005\nwarmup = 0\n[cnn]\nchannels = 4\n"
    "[vit]\nwidth = 16\nlayers = 2\nheads = 2\npatch = 7\n";

static const char *picture(void) { return test_path("data/image/rgb.png"); }

static void train(const char *name, const char *more)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 %s", program_path("r.toml"), program_path(name), more);
    expect(0, "", "400 examples for training, 40 for validation, 60 for the test");
    expect(0, "", "predicted ");
}

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* ---- run ------------------------------------------------------------------------------------ */

static void classes_have_probabilities(void)
{
    program_run("run %s %s -t 1", program_path("cnn"), picture());
    expect(0, "/rgb.png\n", "");
    CHECK_EQ(count_lines(program.out), 3);
    double p[3], sum = 0;
    const char *at = program.out;
    for (int i = 0; i < 3 && at; i++) {
        const char *tab = strchr(at, '\t');
        p[i] = tab ? strtod(tab, NULL) : -1;
        sum += p[i];
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    }
    CHECK(p[0] >= p[1] && p[1] >= p[2] && p[2] >= 0 && sum <= 1.0002);
    program_run("run %s %s --top-k 6 -t 1", program_path("vit"), picture());
    CHECK_EQ(count_lines(program.out), 6);
    program_run("run %s %s %s --top-k 1 -t 1", program_path("cnn"), picture(),
                test_path("data/image/grey.png"));
    expect(0, "/grey.png\n", NULL);
    CHECK_EQ(count_lines(program.out), 2);
    program_run("run %s %s --json -t 1", program_path("cnn"), picture());
    expect(0, "\"classes\": [{\"label\": \"", "");
    expect(0, "\"file\": \"", "");
    program_text("names", picture());
    program_run("run %s -f %s --top-k 1 -t 1", program_path("cnn"), program_path("names"));
    expect(0, "/rgb.png\n", NULL);
}

/* The training pictures are dark: a light one gets a note, unless it is inverted. */
static void light_pictures_get_a_note(void)
{
    program_run("run %s %s -t 1", program_path("cnn"), test_path("data/image/alpha.png"));
    const bool noted = strstr(program.err, "try --invert") != NULL;
    program_run("run %s %s -t 1", program_path("cnn"), test_path("data/image/white.png"));
    expect(0, NULL, "white.png is light, the model's training pictures were dark: try --invert");
    program_run("run %s %s --invert -t 1", program_path("cnn"), test_path("data/image/white.png"));
    expect(0, NULL, NULL);
    CHECK(strstr(program.err, "try --invert") == NULL && !noted);
}

static void other_files_are_refused(void)
{
    program_run("run %s %s -t 1", program_path("cnn"), test_path("data/audio/sweep.wav"));
    expect(3, "",
           "sweep.wav is a recording (WAV or FLAC), but the model reads a picture (PNG or "
           "JPEG)");
    program_run("look %s %s -t 1", program_path("cnn"), test_path("data/audio/sweep.wav"));
    expect(3, "", "but the model reads a picture");
    program_run("run %s %s -t 1", program_path("cnn"), program_path("r.toml"));
    expect(3, "", "r.toml");
    program_run("run %s %s -t 1", program_path("cnn"), program_path("absent.png"));
    CHECK(program.code != 0 && strstr(program.err, "absent.png"));
    program_text("empty", "\n");
    program_run("run %s -f %s -t 1", program_path("cnn"), program_path("empty"));
    expect(2, "", "no file: expected a picture (PNG or JPEG) after the model");
    program_run("run %s %s --beam 2 -t 1", program_path("cnn"), picture());
    expect(2, "", "--beam does not apply to a fovea-cnn model");
    program_run("run %s %s --task translate -t 1", program_path("cnn"), picture());
    expect(2, "", "a fovea-cnn model does not translate");
}

/* ---- look ----------------------------------------------------------------------------------- */

static void attention_is_laid_over_the_picture(void)
{
    static const char *const names[] = {"o.svg", "o.png", "o.pdf", "o.html", "o.txt"};
    static const char *const begins[] = {"<image ", "PNG", "%PDF", "panels=[", "attention"};
    for (int i = 0; i < 5; i++) {
        program_run("look %s %s -o %s -t 1", program_path("cnn"), picture(),
                    program_path(names[i]));
        expect(0, "", "wrote ");
        CHECK(written(names[i], begins[i]));
    }
    program_run("look %s %s -o %s -t 1", program_path("vit"), picture(), program_path("v.svg"));
    expect(0, "", "wrote ");
    CHECK(written("v.svg", ">layer 0</text>") && written("v.svg", ">layer 1</text>"));
    CHECK(!written("v.svg", "#35c4ff")); /* a class token has no place */
    program_run("look %s %s --layer 1 --pixel 0,2 -o %s -t 1", program_path("vit"), picture(),
                program_path("v.svg"));
    CHECK(written("v.svg", ">head 1</text>") && written("v.svg", "#35c4ff"));
    program_run("look %s %s --layer 1 --head 1 -o %s -t 1", program_path("vit"), picture(),
                program_path("v.svg"));
    CHECK(!written("v.svg", ">head 1</text>") && written("v.svg", ">layer 1</text>"));
    program_run_to(PROGRAM_TERMINAL, "look %s %s -t 1", program_path("cnn"), picture());
    expect(0, "\x1b[48;5;", NULL);
    program_run("look %s %s %s -o %s -t 1", program_path("cnn"), picture(),
                test_path("data/image/grey.png"), program_path("two.svg"));
    expect(0, "", "two-2.svg");
}

/* The numbers of --json: a row of the map adds up to one, and --pixel chooses the query. */
static void weights_are_printed_as_numbers(void)
{
    program_run("look %s %s --pixel 4,2 --json -t 1", program_path("cnn"), picture());
    expect(0, "\"rows\": 14, \"cols\": 14, \"query_row\": 9, \"query_col\": 11, \"panels\": [", "");
    const char *at = strstr(program.out, "\"weights\": ");
    double sum = 0;
    int count = 0;
    for (at = at ? at + 11 : ""; *at && *at != '}'; at++)
        if (strchr("[, ", *at) && strchr("0123456789", at[1]) && at[1]) {
            sum += strtod(at + 1, NULL);
            count++;
        }
    CHECK_EQ(count, 14 * 14);
    CHECK_NEAR(sum, 1, 1e-4);
    program_run("look %s %s --json -t 1", program_path("vit"), picture());
    expect(0, "\"name\": \"layer 1\"", "");
    CHECK(strstr(program.out, "query_row") == NULL);
}

static void wrong_options_are_refused(void)
{
    static const struct {
        const char *model, *options, *message;
    } cases[] = {{"cnn", "--pixel 5,0", "expected X,Y within the picture's 5 x 3 pixels"},
                 {"cnn", "--pixel 1", "expected X,Y"},
                 {"cnn", "--pixel 1,-1", "expected X,Y"},
                 {"cnn", "--pixel 1,1,1", "expected X,Y"},
                 {"cnn", "--layer 1", "a layer from 0 to 0 and a head from 0 to 0"},
                 {"vit", "--head 2", "a layer from 0 to 1 and a head from 0 to 1"},
                 {"cnn", "--rollout", "--rollout is for models that read texts"},
                 {"cnn", "--range 3:1", "--range 3:1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run("look %s %s %s -t 1", program_path(cases[i].model), picture(),
                    cases[i].options);
        expect(2, "", cases[i].message);
    }
    program_run("look %s %s -o %s -t 1", program_path("cnn"), picture(), program_path("w.npz"));
    expect(2, "", "weights of pictures: --json");
    static const char *const of_texts[] = {"--dtype bf16", "--pooling mean", "--normalize",
                                           "--pairs"};
    for (int i = 0; i < 4; i++) {
        program_run("run %s %s %s -t 1", program_path("cnn"), picture(), of_texts[i]);
        expect(2, "", "does not apply to a fovea-cnn model");
    }
    program_run("look %s %s -t 1", program_path("plain"), picture());
    expect(2, "", "this fovea-cnn model has no attention over a grid");
}

/* ---- eval ----------------------------------------------------------------------------------- */

static void runs_are_evaluated_on_their_test_part(void)
{
    program_run("eval %s -t 1", program_path("cnn"));
    expect(0, "accuracy   0.", "60 for the test");
    program_run("eval %s --json -t 1", program_path("cnn"));
    expect(0, "\"part\": \"test\", \"accuracy\": ", "");
    program_run("eval %s --part valid --json -t 1", program_path("cnn"));
    expect(0, "\"part\": \"valid\"", "");
    program_run("eval %s %s", program_path("cnn"), picture());
    expect(2, "", "expected MODEL... SOURCES REFERENCES, or the folder of one run alone");
    program_run("eval %s --beam 3 -t 1", program_path("cnn"));
    expect(2, "", "--beam needs MODEL... SOURCES REFERENCES");
    program_run("eval %s --by-length 2 -o %s", program_path("cnn"), program_path("e.svg"));
    expect(2, "", "--by-length needs MODEL... SOURCES REFERENCES");
    program_run("eval %s a b --part valid", program_path("cnn"));
    expect(2, "", "--part is for the folder of one run alone");
    program_run("eval %s", program_path("nothing"));
    expect(3, "", "no such folder");
    char path[1024];
    snprintf(path, sizeof path, "%s", program_path("plain"));
    char name[1100];
    snprintf(name, sizeof name, "%s/recipe.toml", path);
    unlink(name);
    program_run("eval %s", path);
    expect(3, "", "has no recipe.toml, so it is not the folder of a training run");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    train("cnn", "--model.kind cnn");
    train("vit", "--model.kind vit");
    train("plain", "--model.kind cnn --cnn.attend 0");
    RUN(classes_have_probabilities);
    RUN(light_pictures_get_a_note);
    RUN(other_files_are_refused);
    RUN(attention_is_laid_over_the_picture);
    RUN(weights_are_printed_as_numbers);
    RUN(wrong_options_are_refused);
    RUN(runs_are_evaluated_on_their_test_part);
    program_end();
    return TEST_END();
}

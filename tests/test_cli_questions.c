/* fovea train, run, look and eval of models that answer questions about pictures, and what they
 * refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmedia = \"clevr\"\nsize = 32\ntrain_count = 120\nvalid_count = 24\ntest_count = 36\n"
    "[tokens]\nkind = \"word\"\nmin_count = 1\n"
    "[train]\ntask = \"questions\"\nsteps = 6\nbatch_examples = 24\neval_every = 6\n"
    "optimizer = \"adamw\"\nlr = 0.005\nwarmup = 0\n"
    "[vqa]\nchannels = 4\nstages = 3\nhalvings = 2\nwidth = 8\nembedding = 6\nhidden = 8\n"
    "heads = 2\nlayers = 2\n";

/* program_run splits at blanks; any mark separates the words of a question. */
static const char ask[] = "What_shape_is_the_red_object?";

static const char *picture(void) { return test_path("data/image/rgb.png"); }

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

static void train_models(void)
{
    static const char *const forms[] = {"words", "maps", "pool", "self"};
    program_text("r.toml", recipe);
    for (int i = 0; i < 4; i++) {
        program_run("train %s -o %s --vqa.form %s -t 1", program_path("r.toml"),
                    program_path(forms[i]), forms[i]);
        expect(0, "", "120 examples for training, 24 for validation, 36 for the test");
        expect(0, "", " object?   ");
        expect(0, "", ", predicted ");
    }
}

/* ---- run ------------------------------------------------------------------------------------ */

static void answers_are_printed(void)
{
    program_run("run %s %s --ask %s -t 1", program_path("words"), picture(), ask);
    expect(0, "/rgb.png\n", "");
    CHECK_EQ(count_of(program.out, "\n"), 1);
    program_run("run %s %s --ask %s --top-k 10 -t 1", program_path("maps"), picture(), ask);
    expect(0, "circle\t0.", "");
    CHECK_EQ(count_of(program.out, "\n"), 10);
    program_run("run %s %s %s --ask %s -t 1", program_path("pool"), picture(),
                test_path("data/image/grey.png"), ask);
    expect(0, "/grey.png\n", "");
    CHECK_EQ(count_of(program.out, "\n"), 2);
    program_run("run %s %s --ask %s --json -t 1", program_path("self"), picture(), ask);
    expect(0, "\"question\": \"What_shape_is_the_red_object?\", \"answer\": \"", "");
    CHECK_EQ(count_of(program.out, "\"p\": "), 4);
    program_run("run %s %s --ask what_form_has_the_red_object -t 1", program_path("words"),
                picture());
    expect(0, "/rgb.png\n", "run: no training question has the word 'form'");
    expect(0, "/rgb.png\n", "run: no training question has the word 'has'");
}

static void questions_are_needed(void)
{
    static const char *const verbs[] = {"run", "look"};
    program_text("c.toml", "[data]\nmedia = \"shapes\"\ntrain_count = 40\nvalid_count = 10\n"
                           "[train]\ntask = \"media-classes\"\nsteps = 2\nbatch_examples = 8\n"
                           "[cnn]\nchannels = 4\n");
    program_run("train %s -o %s -t 1", program_path("c.toml"), program_path("cnn"));
    expect(0, "", NULL);
    for (int i = 0; i < 2; i++) {
        program_run("%s %s %s -t 1", verbs[i], program_path("words"), picture());
        expect(2, "", "the model answers questions about pictures: expected --ask \"QUESTION\"");
        program_run("%s %s %s --ask %s -t 1", verbs[i], program_path("cnn"), picture(), ask);
        expect(2, "",
               "--ask is for models that answer questions about pictures, not for a "
               "fovea-cnn model that can classify");
        program_run("%s %s %s --ask ? -t 1", verbs[i], program_path("words"), picture());
        expect(2, "", "the question has no words");
    }
    program_run("run %s %s --ask %s --beam 2 -t 1", program_path("words"), picture(), ask);
    expect(2, "", "--beam does not apply to a fovea-vqa model");
    program_run("run %s %s --ask %s -t 1", program_path("words"), test_path("data/audio/sweep.wav"),
                ask);
    expect(3, "", "but the model reads a picture");
}

/* ---- look ----------------------------------------------------------------------------------- */

static void each_word_has_a_panel(void)
{
    static const char *const names[] = {"o.svg", "o.png", "o.txt"};
    static const char *const begins[] = {"<image ", "PNG", "object"};
    for (int i = 0; i < 3; i++) {
        program_run("look %s %s --ask %s -o %s -t 1", program_path("words"), picture(), ask,
                    program_path(names[i]));
        expect(0, "", "wrote ");
        CHECK(written(names[i], begins[i]));
    }
    static const char *const captions[] = {">what<",  ">shape<", ">is<",
                                           ">the<",   ">red<",   ">object<",
                                           ">hop 0<", ">hop 1<", "What_shape_is_the_"};
    for (size_t i = 0; i < sizeof captions / sizeof *captions; i++)
        if (!written("o.svg", captions[i]))
            test_failed(__FILE__, __LINE__, "o.svg lacks '%s'", captions[i]);
    program_run("look %s %s --ask %s -o %s -t 1", program_path("maps"), picture(), ask,
                program_path("m.svg"));
    CHECK(written("m.svg", ">map 0<") && written("m.svg", ">map 1<") && !written("m.svg", ">is<"));
    program_run("look %s %s --ask %s -o %s -t 1", program_path("self"), picture(), ask,
                program_path("s.svg"));
    CHECK(written("s.svg", ">layer 0<") && written("s.svg", ">layer 1<"));
    program_run_to(PROGRAM_TERMINAL, "look %s %s --ask %s -t 1", program_path("words"), picture(),
                   ask);
    expect(0, "\x1b[48;5;", NULL);
}

/* Weights of every panel add up to one, but for the question itself in form self. */
static void weights_are_printed_as_numbers(void)
{
    static const struct {
        const char *model;
        int panels;
    } cases[] = {{"words", 8}, {"maps", 2}, {"self", 2}};
    for (int i = 0; i < 3; i++) {
        program_run("look %s %s --ask %s --json -t 1", program_path(cases[i].model), picture(),
                    ask);
        expect(0, "\"rows\": 8, \"cols\": 8, \"panels\": [", "");
        CHECK_EQ(count_of(program.out, "\"name\": "), cases[i].panels);
        for (const char *at = program.out; (at = strstr(at, "\"weights\": ")) != NULL;) {
            double sum = 0;
            int count = 0;
            for (at += 11; *at && *at != '}'; at++)
                if (strchr("[, ", *at) && at[1] && strchr("0123456789", at[1])) {
                    sum += strtod(at + 1, NULL);
                    count++;
                }
            CHECK_EQ(count, 64);
            if (i < 2)
                CHECK_NEAR(sum, 1, 1e-4);
            else
                CHECK(sum > 0 && sum < 1);
        }
    }
}

static void wrong_options_are_refused(void)
{
    static const char *const options[] = {"--pixel 1,1", "--layer 0", "--head 0", "--beam 2"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        program_run("look %s %s --ask %s %s -t 1", program_path("words"), picture(), ask,
                    options[i]);
        expect(2, "", "does not apply to models that answer questions");
    }
    program_run("look %s %s --ask %s --rollout -t 1", program_path("words"), picture(), ask);
    expect(2, "", "--rollout is for models that read texts");
    program_run("look %s %s --ask %s -t 1", program_path("pool"), picture(), ask);
    expect(2, "", "this fovea-vqa model has no attention over a grid");
}

/* ---- eval ----------------------------------------------------------------------------------- */

static void runs_are_evaluated_on_their_test_part(void)
{
    program_run("eval %s -t 1", program_path("words"));
    expect(0, "accuracy", "36 for the test");
    expect(0, "non_relational", NULL);
    program_run("eval %s --json -t 1", program_path("self"));
    expect(0, "\"relational\": ", "");
    expect(0, "\"part\": \"test\"", "");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    train_models();
    RUN(answers_are_printed);
    RUN(questions_are_needed);
    RUN(each_word_has_a_panel);
    RUN(weights_are_printed_as_numbers);
    RUN(wrong_options_are_refused);
    RUN(runs_are_evaluated_on_their_test_part);
    program_end();
    return TEST_END();
}

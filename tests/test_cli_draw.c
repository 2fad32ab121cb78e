/* fovea train, run, look and eval of a model that draws pictures, and what they refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmedia = \"shapes\"\nsize = 16\ntrain_count = 100\nvalid_count = 20\ntest_count = 30\n"
    "[train]\ntask = \"gan\"\nsteps = 4\nbatch_examples = 10\neval_every = 4\noptimizer = "
    "\"adam\"\n"
    "[gan]\nnoise = 6\n[sagan]\nchannels = 4\n";

/* A file's bytes, to be freed. */
static char *bytes_of(const char *name, size_t *bytes)
{
    char *data = file_read(program_path(name), bytes);
    CHECK(data != NULL && *bytes > 0);
    return data;
}

static bool same_files(const char *a, const char *b)
{
    size_t m = 0, n = 0;
    char *x = bytes_of(a, &m), *y = bytes_of(b, &n);
    const bool same = x && y && m == n && memcmp(x, y, m) == 0;
    free(x);
    free(y);
    return same;
}

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = bytes_of(name, &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

static void train(void)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("gan"));
    expect(0, "", "100 examples for training, 20 for validation, 30 for the test");
    program_run("eval %s -t 1", program_path("gan"));
    expect(0, "frechet_real", "");
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void draw(const char *more, const char *name)
{
    program_run("run %s %s -o %s -t 1", program_path("gan"), more, program_path(name));
    expect(0, "", "wrote ");
}

/* ---- run ------------------------------------------------------------------------------------ */

static void grids_have_every_format(void)
{
    static const char *const names[] = {"g.svg", "g.png", "g.pdf", "g.html", "g.txt"};
    static const char *const begins[] = {"<image ", "PNG", "%PDF", "<svg", "\n"};
    for (int i = 0; i < 5; i++) {
        draw("", names[i]);
        CHECK(written(names[i], begins[i]));
    }
    program_run("run %s -t 1", program_path("gan")); /* the terminal: one of each class */
    expect(0, NULL, "");
    CHECK(count_lines(program.out) > 8);
}

/* The same seed draws the same pictures; --class and --count change none of the others. */
static void seeds_and_classes_choose_pictures(void)
{
    draw("", "a.png");
    draw("--seed 1", "b.png");
    CHECK(same_files("a.png", "b.png"));
    draw("--seed 2", "c.png");
    CHECK(!same_files("a.png", "c.png"));
    draw("--class ring --count 4", "d.png");
    draw("--class disc --count 4", "e.png");
    CHECK(!same_files("d.png", "e.png"));
    draw("--class 1 --count 4", "n.png"); /* its number */
    CHECK(same_files("d.png", "n.png"));
    draw("--class disc,ring", "f.png");
    draw("--class ring,disc", "h.png");
    CHECK(!same_files("f.png", "h.png"));
    draw("--interpolate --count 5", "i.png");
    draw("--count 5", "j.png");
    CHECK(!same_files("i.png", "j.png"));
}

static void other_options_are_refused(void)
{
    program_run("run %s text -t 1", program_path("gan"));
    expect(2, "", "a fovea-sagan model draws pictures of noise; expected no text");
    program_run("run %s --class cow -t 1", program_path("gan"));
    expect(2, "", "--class cow: expected one of the model's 6 classes, such as disc");
    program_run("run %s --class 6 -t 1", program_path("gan"));
    expect(2, "", "--class 6: expected one of the model's 6 classes");
    program_run("run %s --class 0, -t 1", program_path("gan"));
    expect(2, "", "--class : expected one of");
    program_run("run %s -o %s -t 1", program_path("gan"), program_path("x.bmp"));
    expect(2, "", "expected a name that ends with .png, .svg");
    program_run("run %s --interpolate --count 1 -t 1", program_path("gan"));
    expect(2, "", "expected 2 or more with --interpolate");
    program_run("run %s --count 4096 -t 1", program_path("gan"));
    expect(2, "", "expected at most 4096 pictures in all");
    program_run("run %s --beam 2 -t 1", program_path("gan"));
    expect(2, "", "--beam does not apply to a fovea-sagan model");
    program_run("run %s --json -t 1", program_path("gan"));
    expect(2, "", "--json does not apply to a fovea-sagan model");
    program_run("run %s --invert -t 1", program_path("gan"));
    expect(2, "", "--invert does not apply to a fovea-sagan model");
    program_run("run %s --task classify -t 1", program_path("gan"));
    expect(2, "", "a fovea-sagan model does not classify");
}

/* ---- look ----------------------------------------------------------------------------------- */

static void attention_is_laid_over_a_sample(void)
{
    program_run("look %s --class cross -o %s -t 1", program_path("gan"), program_path("l.svg"));
    expect(0, "", "wrote ");
    CHECK(written("l.svg", ">cross</text>") && written("l.svg", ">generator</text>") &&
          written("l.svg", ">discriminator</text>"));
    program_run("look %s --class cross --seed 2 -o %s -t 1", program_path("gan"),
                program_path("m.svg"));
    CHECK(!same_files("l.svg", "m.svg"));
    program_run("look %s --pixel 3,5 --json -t 1", program_path("gan"));
    expect(0, "\"query_row\": 2, \"query_col\": 1, ", "");
    expect(0, "\"name\": \"generator\", \"weights\": [[", "");
    expect(0, "\"label\": \"disc\"", "");
    program_run("look %s --layer 1 -t 1", program_path("gan"));
    expect(0, "discriminator", "");
    program_run("look %s photo.png -t 1", program_path("gan"));
    expect(2, "", "a fovea-sagan model draws its own picture; expected no file and no text");
    program_run("look %s --class cow -t 1", program_path("gan"));
    expect(2, "", "--class cow: expected one of the model's 6 classes");
    program_run("look %s --pixel 16,0 -t 1", program_path("gan"));
    expect(2, "", "within the picture's 16 x 16 pixels");
    program_run("look %s --links -t 1", program_path("gan"));
    expect(2, "", "--links is for models that read texts");
}

/* Without classes, and without attention. */
static void plain_models_draw_too(void)
{
    program_run("train %s -o %s -t 1 --sagan.attention none --sagan.average 0",
                program_path("r.toml"), program_path("plain"));
    expect(0, "", "the model is in");
    program_run("look %s -t 1", program_path("plain"));
    expect(2, "", "this fovea-sagan model has no attention over a grid");
    program_run("run %s -o %s --count 3 -t 1", program_path("plain"), program_path("p.png"));
    expect(0, "", "wrote ");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    train();
    RUN(grids_have_every_format);
    RUN(seeds_and_classes_choose_pictures);
    RUN(other_options_are_refused);
    RUN(attention_is_laid_over_a_sample);
    RUN(plain_models_draw_too);
    program_end();
    return TEST_END();
}

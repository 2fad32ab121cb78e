/* fovea train, eval, run and look of a Neural Turing Machine, and what they refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[bits]\nlongest = 3\nwidth = 4\nvalid_count = 20\ntest_lengths = \"5\"\n"
    "[ntm]\nslots = 8\nwidth = 6\nhidden = 16\n"
    "[train]\ntask = \"bit-sequences\"\nsteps = 20\nbatch_examples = 4\neval_every = 20\n"
    "optimizer = \"rmsprop\"\nlr = 0.001\n";

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

static void trains_and_evaluates(void)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("ntm"));
    expect(0, "", "copy of bits, lengths 1 to 3, drawn at every step");
    expect(0, "", "bits wrong");
    program_run("train %s -o %s -t 1 --ntm.slots 0", program_path("r.toml"), program_path("lstm"));
    expect(0, "", "wrong_5");
    program_run("eval %s -t 1", program_path("ntm"));
    expect(0, "bits  ", NULL);
    expect(0, "wrong_5", NULL);
    program_run("eval %s -t 1 --json", program_path("lstm"));
    expect(0, "\"wrong_5\": ", NULL);
    program_run("inspect %s", program_path("ntm"));
    expect(0, "heads.weight", NULL);
}

static void answers_bits(void)
{
    program_run("run %s 1011,0001,1100 -t 1", program_path("ntm"));
    expect(0, "input   10110 00010 11000 00001\n", "");
    expect(0, "target  1011 0001 1100\n", "");
    expect(0, " of 12 bits wrong\n", "");
    program_text("lines", "length 5 example 2\n1111\n");
    program_run("run %s -f %s -t 1", program_path("ntm"), program_path("lines"));
    expect(0, " of 20 bits wrong\ninput   11110 00001\n", "");
    program_run("run %s 1011 --json -t 1", program_path("ntm"));
    expect(0, "{\"input\": [[1, 0, 1, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], \"logits\": [[",
           "");
    expect(0, "\"bits\": 4}", "");
    program_run("run %s 101 -t 1", program_path("ntm"));
    expect(2, "", "'101': expected \"length 12\"");
    program_run("run %s 1011 --beam 3 -t 1", program_path("ntm"));
    expect(2, "", "--beam does not apply");
    /* Lengths and examples are whole numbers, and nothing follows them. */
    static const char *const wrong[] = {"length 3 example x", "length 3x", "length 3 example 2 x",
                                        "length 3 example -1", "length"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        program_text("wrong", wrong[i]);
        program_run("run %s -f %s -t 1", program_path("ntm"), program_path("wrong"));
        expect(2, "", "expected \"length 12\"");
    }
    program_text("lines", "length 3 \nlength 2 example 1\r\n");
    program_run("run %s -f %s -t 1", program_path("ntm"), program_path("lines"));
    expect(0, " of 12 bits wrong\n", "");
    expect(0, " of 8 bits wrong\n", "");
    program_text("wrong", "length 0\n");
    program_run("run %s -f %s -t 1", program_path("ntm"), program_path("wrong"));
    expect(2, "", "copy: length 0, expected 1 to ");
}

static void shows_heads_and_memory(void)
{
    program_run("look %s 1011,0001 -t 1", program_path("ntm"));
    expect(0, "heads over time\n columns: step\n", "");
    program_run("look %s 1011,0001 -t 1 -o %s", program_path("ntm"), program_path("h.svg"));
    expect(0, "", "h.svg (5 steps)");
    CHECK(written("h.svg", "read.0 slot 0") && written("h.svg", "write.0.shift +1"));
    CHECK(written("h.svg", "read.0.gate") && written("h.svg", "write.0.sharpness"));
    CHECK(written("h.svg", "output 3") && !written("h.svg", "strength"));
    program_run("look %s 1011,0001 -t 1 --at memory -o %s", program_path("ntm"),
                program_path("m.png"));
    expect(0, "", "m.png (8 slots of 6 numbers)");
    CHECK(written("m.png", "PNG"));
    program_run("look %s 1011,0001 -t 1 -o %s", program_path("ntm"), program_path("h.npz"));
    expect(0, NULL, "(11 arrays)");
    CHECK(written("h.npz", "write.0.strength"));
    program_run("look %s 1011,0001 -t 1 --json", program_path("ntm"));
    expect(0, "{\"steps\": 5, \"wrong\": ", "");
    expect(0, "\"read.0\": [[", "");
    expect(0, "\"memory\": [[", "");
    program_run("look %s 1011 -t 1", program_path("lstm"));
    expect(2, "", "the model has no memory: it was trained with ntm.slots = 0");
}

/* --at memory chooses a picture; the numbers are always of everything, and nothing follows them. */
static void numbers_come_alone(void)
{
    program_run("look %s 1011,0001 -t 1 --at memory --json", program_path("ntm"));
    expect(0, "{\"steps\": 5, ", "");
    const char *end = strstr(program.out, "]]}\n");
    CHECK(end && end[4] == '\0');
    program_run("look %s 1011,0001 -t 1 --at memory -o %s", program_path("ntm"),
                program_path("at.npz"));
    expect(0, "", "at.npz (11 arrays)");
    CHECK(written("at.npz", "write.0.strength"));
    program_run("look %s 1011,0001 -t 1 --json -o %s", program_path("ntm"), program_path("j.svg"));
    expect(0, "\"memory\": [[", "j.svg (5 steps)");
}

/* The number of a uniform shift is drawn as the weights of the offsets that it gives. */
static void a_uniform_shift_is_a_kernel(void)
{
    program_run("train %s -o %s -t 1 --ntm.shifts 0", program_path("r.toml"), program_path("wide"));
    expect(0, "", NULL);
    program_run("look %s 1011,0001 -t 1 --range 0:1", program_path("wide"));
    expect(0, "read.0.shift +0 ", "");
    CHECK(!strstr(program.out, "read.0.shift  "));
    program_run("look %s 1011,0001 -t 1", program_path("wide"));
    expect(0, " from 0 ", "");
    expect(0, " to 1\n", "");
    program_run("look %s 1011,0001 -t 1 --json", program_path("wide"));
    const char *number = strstr(program.out, "\"read.0.shift\": [[");
    const double shift = number ? atof(number + strlen("\"read.0.shift\": [[")) : 9;
    CHECK(fabs(shift) < 0.9); /* a new model moves little: to the next slot at most */
    program_run("look %s 1011,0001 -t 1 --numbers", program_path("wide"));
    number = strstr(program.out, "read.0.shift +0 ");
    CHECK(number && fabs(atof(number + strlen("read.0.shift +0 ")) - (1 - fabs(shift))) < 0.02);
}

static void options_of_other_models_are_refused(void)
{
    static const char *const other[] = {"--layer 9",  "--head 1", "--links",    "--rollout",
                                        "--at cross", "--pieces", "--rows 0:1", "--pixel 1,1"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char text[64];
        program_run("look %s 1011 -t 1 %s", program_path("ntm"), other[i]);
        snprintf(text, sizeof text, "%.7s", other[i]);
        expect(2, "", text);
        expect(2, "", " does not apply to a ");
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    RUN(trains_and_evaluates);
    RUN(answers_bits);
    RUN(shows_heads_and_memory);
    RUN(numbers_come_alone);
    RUN(a_uniform_shift_is_a_kernel);
    RUN(options_of_other_models_are_refused);
    program_end();
    return TEST_END();
}

/* 'fovea run' and 'fovea look' with a model of word vectors: nearest words, words in a plane, and
 * what is refused. */
#include "support/files.h"
#include "support/program.h"

static const char recipe[] = "[tokens]\nkind = \"word\"\nmin_count = 1\n[word2vec]\nwidth = 4\n"
                             "[train]\ntask = \"word2vec\"\nsteps = 3\nbatch_tokens = 64\n"
                             "eval_every = 3\n";
static const char text[] = "the king and the queen eat bread and butter\n"
                           "the queen and the king drink milk and water\n";

static void train(void)
{
    program_text("r.toml", recipe);
    program_text("t.txt", text);
    program_run("train %s -o %s -t 1 --data.train_text %s --data.valid_text %s",
                program_path("r.toml"), program_path("words"), program_path("t.txt"),
                program_path("t.txt"));
    CHECK_EQ(program.code, 0);
}

static int lines_of(const char *out)
{
    int lines = 0;
    for (; *out; out++)
        lines += *out == '\n';
    return lines;
}

static void nearest_words_are_printed(void)
{
    program_run("run %s king -n 3 -t 1", program_path("words"));
    expect(0, "", "");
    CHECK_EQ(lines_of(program.out), 3);
    CHECK(!strstr(program.out, "king"));
    program_run("run %s king queen --minus bread -n 2 --json -t 1", program_path("words"));
    expect(0, "{\"text\": \"king queen\", \"nearest\": [{\"word\": \"", "");
}

/* The same words and places, however the words are given. */
static void words_are_placed_in_a_plane(void)
{
    static char first[1 << 18];
    program_run("look %s king queen bread -t 1", program_path("words"));
    expect(0, " king\n", "");
    CHECK_EQ(lines_of(program.out), 3);
    snprintf(first, sizeof first, "%s", program.out);
    program_text("list", "king queen\nbread\n");
    program_run("look %s -f %s -t 1", program_path("words"), program_path("list"));
    CHECK(program.code == 0 && strcmp(program.out, first) == 0);
    program_run("look %s -p king,queen,bread -t 1", program_path("words"));
    CHECK(program.code == 0 && strcmp(program.out, first) == 0);
    program_run("look %s -t 1", program_path("words"));
    expect(0, " the\n", "");
    CHECK_EQ(lines_of(program.out), 10); /* all words, since there are fewer than 100 */
    program_run("look %s king queen bread -o %s -t 1", program_path("words"),
                program_path("w.svg"));
    expect(0, "", "w.svg (3 words)");
}

static void places_are_printed_as_numbers(void)
{
    program_run("look %s king queen bread -t 1", program_path("words"));
    const double x = strtod(program.out, NULL);
    program_run("look %s king queen bread --json -t 1", program_path("words"));
    expect(0, "{\"words\": [{\"word\": \"king\", \"x\": ", "");
    const char *at = strstr(program.out, "\"x\": ");
    CHECK(at && strstr(at, "\"y\": "));
    CHECK_NEAR(at ? strtod(at + 5, NULL) : 99, x, 1e-4);
    program_run("look %s king queen bread --json -o %s -t 1", program_path("words"),
                program_path("j.svg"));
    expect(0, "{\"words\": [", "j.svg");
}

static void what_does_not_fit_is_refused(void)
{
    static const char *const other[] = {
        "pieces",     "no-special",   "target a",  "beam 2", "pharaoh",   "numbers",
        "range 0:1",  "palette heat", "pixel 1,1", "invert", "class a",   "layer 0",
        "at encoder", "top 3",        "rollout",   "cell 3", "from king", "links"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        program_run("look %s --%s -t 1", program_path("words"), other[i]);
        expect(2, "", "does not apply to a fovea-word2vec model");
    }
    program_run("look %s --ask a -t 1", program_path("words"));
    expect(2, "", "--ask is for models that answer questions about pictures");
    program_run("look %s -o %s -t 1", program_path("words"), program_path("w.npz"));
    expect(2, "", "places of words: --json");
    program_run("look %s king queen -t 1", program_path("words"));
    expect(2, "", "2 words, expected at least three");
    program_run("look %s king queen kingg -t 1", program_path("words"));
    expect(2, "", "does not know the word 'kingg'; did you mean 'king'?");
    program_run("run %s kingg -t 1", program_path("words"));
    expect(2, "", "does not know the word 'kingg'");
    program_run("run %s king --invert -t 1", program_path("words"));
    expect(2, "", "--invert does not apply to a fovea-word2vec model");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    train();
    RUN(nearest_words_are_printed);
    RUN(words_are_placed_in_a_plane);
    RUN(places_are_printed_as_numbers);
    RUN(what_does_not_fit_is_refused);
    program_end();
    return TEST_END();
}

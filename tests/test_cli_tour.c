/* fovea tour: what its sections compute, its pages, and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "support/files.h"
#include "support/program.h"

/* The number that follows `before` in the output. */
static double number_after(const char *before)
{
    const char *at = strstr(program.out, before);
    CHECK(at != NULL);
    return at ? strtod(at + strlen(before), NULL) : -1;
}

/* Numbers of the line that begins with two blanks and `name`; how many there are. */
static int row_of(const char *name, double *out, int most)
{
    char start[64];
    snprintf(start, sizeof start, "\n  %s ", name);
    const char *at = strstr(program.out, start);
    CHECK(at != NULL);
    int count = 0;
    if (!at) return 0;
    at += strlen(start);
    while (count < most) {
        char *end;
        const double value = strtod(at, &end);
        if (end == at) break;
        out[count++] = value;
        at = end;
    }
    return count;
}

static void every_line_fits(void)
{
    program_run("tour -t 1");
    expect(0, "S4  ", "");
    const char *line = program.out;
    for (const char *end; (end = strchr(line, '\n')); line = end + 1) {
        int columns = 0;
        for (const char *c = line; c < end; c++)
            columns += ((unsigned char)*c & 0xC0) != 0x80;
        CHECK(columns <= 80);
        if (columns > 80) printf("%.*s\n", (int)(end - line), line);
    }
    program_run("tour --list");
    expect(0, "  six-steps       Self-attention in six steps", "");
    program_run("tour S2 -t 1");
    expect(0, "S2  Eight heads  (eight-heads)\n", "");
    CHECK(strstr(program.out, "S3  ") == NULL);
    program_run("tour s2 -t 1"); /* in any case */
    expect(0, "S2  Eight heads  (eight-heads)\n", "");
}

static void numbers_are_those_of_the_sources(void)
{
    double row[8] = {0};
    program_run("tour six-steps -t 1");
    expect(0, "14 and 12   softmax: 0.88 and 0.12", "");
    CHECK(number_after("on matrices differs by at most ") < 1e-5);
    program_run("tour mary -t 1");
    CHECK_EQ(row_of("without positions", row, 2), 2);
    CHECK(number_after("differ by ") < 1e-6);
    const char *with = strstr(program.out, "with positions     ");
    CHECK(with && strtod(strstr(with, "differ by ") + 10, NULL) > 1e-2);
    program_run("tour heads -t 1");
    CHECK_EQ(row_of("narrow", row, 4), 4);
    CHECK(row[3] == 4.0 * 512 * 512);
    CHECK_EQ(row_of("wide", row, 4), 4);
    CHECK(row[3] == 8.0 * 4 * 512 * 512);
    program_run("tour scaling -t 1");
    expect(0, "gpt2-xl               48  1600    25    1.5B  1557.6M\n", "");
    expect(0, "megatron-8.3b       174 GB    512 V100   9.0    431,000  Shoeybi et al. 2019\n", "");
    program_run("tour basic -t 1");
    expect(0, "6 of 6 rows have their largest weight on the", "");
    program_run("tour embedding -t 1");
    expect(0, "equal to the bit", "");
    program_run("tour gamma -t 1");
    expect(0, "gamma 0.0:    0 of 1024 numbers change", "");
    CHECK(strstr(program.out, "gamma 1.0:    0") == NULL);
    program_run("tour memory shifts -t 1");
    CHECK_EQ(row_of("uniform ", row, 6), 6);
    CHECK_NEAR(row[2], 0.3, 0.001); /* 0.3 stays, 0.7 moves by one */
    CHECK_NEAR(row[3], 0.7, 0.001);
    CHECK_EQ(row_of("softmax ", row, 6), 6);
    CHECK_NEAR(row[1], 0.1, 0.001);
    CHECK_NEAR(row[3], 0.7, 0.001);
    for (const char *sum = program.out; (sum = strstr(sum, "sum ")); sum++)
        CHECK(strtod(sum + 4, NULL) > 0.99999 && strtod(sum + 4, NULL) < 1.00001);
}

static void order_matters_to_nothing_but_positions(void)
{
    program_run("tour permute -t 1");
    CHECK(number_after("f(s(x)) - s(f(x)), largest entry: ") < 1e-5);
    CHECK(number_after("f(s(x)) - f(x), largest entry: ") > 1e-2);
    CHECK(number_after("largest change: ") < 1e-6);
    program_run("tour masks -t 1");
    CHECK(number_after("before them change by ") == 0);
    CHECK(number_after("the others by ") > 0.1);
    double row[4] = {0};
    program_run("tour mixing -t 1");
    CHECK_EQ(row_of("attention", row, 4), 4);
    CHECK(row[1] > 1e-2 && row[2] > 1e-2 && row[3] > 1e-2);
    CHECK_EQ(row_of("layer norm", row, 4), 4);
    CHECK(row[0] > 1e-2 && row[1] == 0 && row[3] == 0);
    CHECK_EQ(row_of("feed-forward", row, 4), 4);
    CHECK(row[0] > 1e-2 && row[1] == 0 && row[3] == 0);
    program_run("tour two-inputs -t 1");
    CHECK(number_after("attention ") > 0.1);
    CHECK(number_after("convolution ") < 1e-4);
}

static void sections_do_not_depend_on_those_before(void)
{
    double alone[4] = {0}, after[4] = {0};
    program_run("tour gradients -t 1");
    CHECK_EQ(row_of("       1", alone, 4), 4);
    program_run("tour heads gradients -t 1");
    CHECK_EQ(row_of("       1", after, 4), 4);
    CHECK(memcmp(alone, after, sizeof alone) == 0);
}

/* Two words: queries, scores, weights and results of each. */
static void attention_alone_is_shown_in_numbers(void)
{
    static const char *const words[2][2] = {{"the", "zone"}, {"start", "la"}};
    static const char *const names[] = {"encoder", "decoder", "pair"};
    for (int k = 0; k < 3; k++) {
        double row[8] = {0}, key[8] = {0};
        program_run("tour %s -t 1", names[k]);
        expect(0, "softmax", "");
        for (const char *at = program.out; (at = strstr(at, "at most ")); at++)
            CHECK(strtod(at + 8, NULL) < 1e-5);
        CHECK_EQ(row_of(words[k > 0][1], row, 8), 8);
        CHECK_NEAR(row[4] + row[5], 1, 0.002);
        for (int j = 0; j < 2; j++) { /* the scores follow from queries and keys */
            char name[32];
            if (k == 2) break; /* has several rows of each name */
            snprintf(name, sizeof name, "key, value of %-6s", words[k][j]);
            CHECK_EQ(row_of(name, key, 2), 2);
            CHECK_NEAR((row[0] * key[0] + row[1] * key[1]) / sqrt(2), row[2 + j], 0.03);
        }
        CHECK_NEAR(log(row[4] / row[5]), row[2] - row[3], 0.03);
        CHECK((strstr(program.out, "-inf") != NULL) == (k > 0));
    }
    expect(0, "context c", "");
}

static void a_convolution_sees_less_than_attention(void)
{
    program_run("tour reach -t 1");
    CHECK(number_after("1 convolution of 3 x 3 ") == 9);
    CHECK(number_after("2 convolutions of 3 x 3 ") == 25);
    CHECK(number_after("3 convolutions of 3 x 3 ") == 49);
    CHECK(number_after("self-attention  ") == 225);
}

static void gradients_shrink_in_all_but_attention(void)
{
    double near[4] = {0}, far[4] = {0};
    program_run("tour gradients -t 1");
    expect(0, "RNN", "");
    CHECK_EQ(row_of("       1", near, 4), 4);
    CHECK_EQ(row_of("      64", far, 4), 4);
    CHECK(far[0] < 1e-9 * near[0]); /* RNN */
    CHECK(far[1] < 1e-6 * near[1]); /* LSTM */
    CHECK(far[2] == 0);             /* six convolutions see twelve steps back */
    CHECK(far[3] > 0.1 * near[3]);  /* attention */
    CHECK_EQ(row_of("      16", far, 4), 4);
    CHECK(far[2] == 0);
    CHECK_EQ(row_of("       8", far, 4), 4);
    CHECK(far[2] > 0);
    program_run("tour temperature -t 1");
    CHECK_EQ(row_of("     4", near, 4), 4);
    CHECK_EQ(row_of("  1024", far, 4), 4);
    CHECK(far[0] > 900 && far[0] < 1100); /* the variance is the width */
    CHECK(far[2] < 0.2 * near[2]);        /* the slope vanishes */
}

static void layers_are_what_they_say(void)
{
    double row[4] = {0};
    program_run("tour layers -t 1");
    CHECK(number_after("4 heads, differs by ") < 1e-5);
    CHECK(number_after("9 heads, differs by ") < 1e-5);
    program_run("tour resolution -t 1");
    for (int words = 1, k = 0; words <= 8; words *= 2, k++) {
        char name[32];
        snprintf(name, sizeof name, "%d %s", words, words > 1 ? "words" : "word");
        CHECK_EQ(row_of(name, row, 4), 4);
        CHECK(fabs(row[0] - (1 - 1.0 / words)) < 0.05); /* one head */
        CHECK(row[k] == 0);                             /* a head for each word */
    }
    program_run("tour norm -t 1");
    CHECK_EQ(row_of("D = 512", row, 1), 1);
    CHECK(row[0] > 22.6 && row[0] < 22.65); /* the root of the width */
    program_run("tour calibration -t 1");
    CHECK(number_after("on 2000 points: ") > 2);
    CHECK(number_after("calibration error: ") > 0.1);
    CHECK(number_after("at T = 1, ") < 0.05);
    CHECK_EQ(row_of("0.9 to 1.0", row, 3), 3);
    CHECK(row[1] - row[2] > 0.1); /* far more sure than right */
    program_run("tour gradients -t 1");
    CHECK_EQ(row_of("    sees", row, 4), 4);
    CHECK(row[0] == 128 && row[1] == 128 && row[2] == 13 && row[3] == 128);
}

/* The state of fixed size fails as the source grows, a larger one later; attention does not. */
static void one_vector_fails_on_long_sources(void)
{
    double row[3] = {0};
    program_run("tour lengths -t 1");
    CHECK_EQ(row_of("     8", row, 3), 3);
    CHECK(row[0] > 0.95 && row[1] > 0.99 && row[2] > 0.99);
    CHECK_EQ(row_of("   128", row, 3), 3);
    CHECK(row[0] < 0.65 && row[1] > 0.9 && row[2] > 0.99);
    CHECK_EQ(row_of("  1000", row, 3), 3);
    CHECK(row[0] > 0.25 && row[0] < 0.45); /* guessing: 0.25 */
    CHECK(row[1] > row[0] + 0.05 && row[1] < 0.65);
    CHECK(row[2] > 0.99);
}

static void a_callers_score_is_among_the_others(void)
{
    double row[4] = {0};
    program_run("tour scores -t 1");
    CHECK_EQ(row_of("caller   -sum |s - h|       the caller           ", row, 4), 4);
    /* s = (1, -0.5, 2); the keys differ from it by 1.5, 5.5, 0.5 and 6.5 */
    const double sum = exp(-1.5) + exp(-5.5) + exp(-0.5) + exp(-6.5);
    CHECK_NEAR(row[0], exp(-1.5) / sum, 0.006);
    CHECK_NEAR(row[1], exp(-5.5) / sum, 0.006);
    CHECK_NEAR(row[2], exp(-0.5) / sum, 0.006);
    CHECK_NEAR(row[3], exp(-6.5) / sum, 0.006);
}

/* A terminal asks before each further section. */
static void a_reader_asks_for_each_section(void)
{
    program_run_typing("\nq\n\004", "tour S0 -t 1");
    CHECK_EQ(program.code, 0);
    CHECK(strstr(program.out, "(alignment)") != NULL);
    CHECK(strstr(program.out, "-- Enter: Narrow and wide heads; q: end -- ") != NULL);
    CHECK(strstr(program.out, "(heads)") != NULL);
    CHECK(strstr(program.out, "(encoder)") == NULL);
    program_run_typing("\004", "tour S0 -t 1"); /* the end of the input */
    CHECK_EQ(program.code, 0);
    CHECK(strstr(program.out, "(heads)") == NULL);
    program_run_typing("\004", "tour heads -t 1"); /* nothing follows: nothing is asked */
    CHECK_EQ(program.code, 0);
    CHECK(strstr(program.out, "-- ") == NULL);
}

/* Breaks neither an option from its value nor a quoted text; a second command has its own line. */
static void commands_can_be_typed(void)
{
    program_run("tour it unicorns -t 1");
    expect(0, "tired\" \\\n      --from it --to animal --top 5\n", "");
    expect(
        0,
        "recipes/gpt2-wiki.toml &&\n      fovea run runs/gpt2-wiki -n 40 --temp 0.7 \\\n      -p "
        "\"In a shocking",
        "");
}

static void pages_are_written(void)
{
    char folder[1024], text[4096];
    snprintf(folder, sizeof folder, "%s", program_path("pages"));
    program_run("tour --html %s -t 1", folder);
    expect(0, "", "pages/index.html");
    for (int i = 0; i < 5; i++) {
        size_t bytes = 0;
        snprintf(text, sizeof text, "%s/S%d.html", folder, i);
        char *page = file_read(text, &bytes);
        CHECK(page && memmem(page, bytes, "<svg ", 5));
        CHECK(page && memmem(page, bytes, "</html>", 7));
        CHECK(page && !memmem(page, bytes, "src=", 4));
        free(page);
    }
    program_run("tour --html %s -t 1", folder); /* again into its own folder */
    expect(0, "", "pages/index.html");
    mkdir(program_path("mine"), 0700);
    program_text("mine/index.html", "<p>mine</p>\n");
    program_run("tour --html %s -t 1", program_path("mine"));
    expect(2, "", "not a tour of this program: it holds 'index.html'");
    program_run("tour --html %s --force -t 1", program_path("mine"));
    expect(0, "", "mine/index.html");
    program_run("tour --html /dev/null/x -t 1");
    expect(1, "", "cannot create the folder");
    program_run("tour gradients --picture %s -t 1", program_path("g.svg"));
    expect(0, "", "wrote ");
    program_run("tour pair --picture %s -t 1", program_path("pair.svg"));
    expect(0, "", "wrote ");
    size_t bytes = 0;
    char *picture = file_read(program_path("pair.svg"), &bytes);
    CHECK(picture && memmem(picture, bytes, "pair: target words", 18)); /* not one of its parts */
    free(picture);
}

static void mistakes_are_named(void)
{
    program_run("tour six-step");
    expect(2, "", "there is no section 'six-step'; did you mean 'six-steps'?");
    program_run("tour basic --html %s", program_path("x"));
    expect(2, "", "--html writes all sections; leave out their names");
    program_run("tour it --picture %s -t 1", program_path("x.svg"));
    expect(2, "", "no section that was shown has a picture");
    program_run("tour basic --picture %s -t 1", program_path("x.doc"));
    expect(1, "", "x.doc: unknown picture format");
}

static void trained_models_are_used(void)
{
    char folder[1024];
    program_run("tour apple area bread -t 1"); /* without one, what such a model gave */
    expect(0, "  -> 她正吃吃一個綠色的蘋果。\n", "");
    expect(0, "15 have the word \"European\"", "");
    expect(0, "of the translation in the source\n", "");
    expect(0, "  -> Nous manger du pain.\n", "");
    snprintf(folder, sizeof folder, "%s", program_path("models/tatoeba-en-zh"));
    mkdir(program_path("models"), 0700);
    program_text("r.toml",
                 "[data]\nmade = \"sentences\"\ntrain_pairs = 200\nvalid_pairs = 5\n"
                 "[tokens]\nkind = \"bytes\"\ntarget_kind = \"char\"\nvocabulary = 400\n"
                 "[model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\n"
                 "readout_width = 7\n[train]\nsteps = 1\n");
    program_run("train %s -o %s -t 1", program_path("r.toml"), folder);
    expect(0, "", "step 1/1");
    program_run("tour apple --models %s -t 1", program_path("models"));
    expect(0, "  -> ", "");
    CHECK(strstr(program.out, "its own translation") != NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    RUN(every_line_fits);
    RUN(numbers_are_those_of_the_sources);
    RUN(order_matters_to_nothing_but_positions);
    RUN(sections_do_not_depend_on_those_before);
    RUN(attention_alone_is_shown_in_numbers);
    RUN(a_convolution_sees_less_than_attention);
    RUN(gradients_shrink_in_all_but_attention);
    RUN(layers_are_what_they_say);
    RUN(one_vector_fails_on_long_sources);
    RUN(a_callers_score_is_among_the_others);
    RUN(a_reader_asks_for_each_section);
    RUN(commands_can_be_typed);
    RUN(pages_are_written);
    RUN(mistakes_are_named);
    RUN(trained_models_are_used);
    program_end();
    return TEST_END();
}

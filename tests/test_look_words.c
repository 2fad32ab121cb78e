/* fovea look: words instead of tokens, special tokens left out, several texts, and the options of
 * pictures. */
#include <math.h>
#include <sys/stat.h>

#include "fovea/file.h"
#include "support/files.h"
#include "support/program.h"
#include "support/reading.h"
#include "support/tensors.h"
#include "support/values.h"

enum { TOKENS = 7, WORDS = 5 };

/* "animal-street animal." is [CLS] animal - street animal . [SEP]; a word's first token and the
 * token after its last. */
static const struct {
    const char *name;
    int first, end;
} words[WORDS] = {
    {"[CLS]", 0, 1}, {"animal-street", 1, 4}, {"animal", 4, 5}, {".", 5, 6}, {"[SEP]", 6, 7}};

static char model[512], text[512];

/* Layer 1, head 2 of the text, token by token. */
static void read_map(float map[TOKENS * TOKENS])
{
    fv_ctx *ctx = values_begin();
    fv_npy *npz = NULL;
    program_run("look %s -f %s --layer 1 --head 2 -o %s -t 1", model, text,
                program_path("map.npz"));
    expect(0, "", "wrote ");
    expect(0, "", "map.npz (1 array)");
    CHECK_OK(ctx, fv_npy_open(ctx, program_path("map.npz"), &npz));
    fv_tensor *t = npz ? fv_npy_load(ctx, npz, "encoder.1.self") : NULL;
    if (t && fv_tensor_count(t) == TOKENS * TOKENS) {
        float *data = tensor_floats(ctx, t);
        memcpy(map, data, TOKENS * TOKENS * sizeof *map);
        free(data);
    } else {
        test_failed(__FILE__, __LINE__, "map.npz is not a map of %d tokens", TOKENS);
    }
    fv_npy_close(&npz);
    values_end(&ctx);
}

/* The weight from word r to word c: the mean over its tokens of the sums. */
static double weight_of(const float *map, int r, int c)
{
    double sum = 0;
    for (int i = words[r].first; i < words[r].end; i++)
        for (int j = words[c].first; j < words[c].end; j++)
            sum += (double)map[i * TOKENS + j];
    return sum / (words[r].end - words[r].first);
}

/* Checks that the table's line of word r has this weight of word c, to a digit of rounding. */
static void check_weight(int r, int c, double weight)
{
    char begin[64], entry[64];
    snprintf(begin, sizeof begin, "\n%s\t", words[r].name);
    snprintf(entry, sizeof entry, " %s", words[c].name);
    const char *line = strstr(program.out, begin);
    for (const char *at = line ? line + strlen(begin) - 1 : NULL; at && *at == '\t';) {
        char *end = NULL;
        const double seen = strtod(at + 1, &end);
        const size_t bytes = strcspn(end, "\t\n");
        if (bytes == strlen(entry) && strncmp(end, entry, bytes) == 0) {
            if (fabs(seen - weight) < 0.00051) return;
            test_failed(__FILE__, __LINE__, "%s to %s: %g, not %g", words[r].name, words[c].name,
                        seen, weight);
            return;
        }
        at = end + bytes;
    }
    test_failed(__FILE__, __LINE__, "no weight from %s to %s in: %s", words[r].name, words[c].name,
                program.out);
}

static void words_sum_keys_and_average_queries(void)
{
    float map[TOKENS * TOKENS] = {0};
    read_map(map);
    program_run("look %s -f %s --layer 1 --head 2 --top 5 -t 1", model, text);
    expect(0, "encoder.1.self, head 2: the largest weights of each word\n", NULL);
    for (int r = 0; r < WORDS; r++)
        for (int c = 0; c < WORDS; c++)
            check_weight(r, c, weight_of(map, r, c));
    program_run("look %s -f %s --layer 1 --head 2 --top 5 --pieces -t 1", model, text);
    expect(0, "the largest weights of each token\n", NULL);
    expect(0, "\n-\t", NULL);
    CHECK(strstr(program.out, "animal-street") == NULL);
    program_run("look %s -f %s --layer 1 --head 2", model, text);
    expect(0, "\nanimal-street ", NULL);
    program_run("look %s -f %s --layer 1 --head 2 --rows 1:2 --cols 1:3", model, text);
    expect(0, "\nanimal-street ", NULL);
    CHECK(strstr(program.out, "[SEP]") == NULL);
}

/* Between [CLS] and [SEP], the weights of a row add up to 1. */
static void special_tokens_are_left_out(void)
{
    float map[TOKENS * TOKENS] = {0};
    read_map(map);
    program_run("look %s -f %s --layer 1 --head 2 --top 5 --no-special -t 1", model, text);
    double lost = 0;
    for (int r = 1; r < WORDS - 1; r++) {
        const double gone = weight_of(map, r, 0) + weight_of(map, r, WORDS - 1);
        lost += gone / (WORDS - 2);
        for (int c = 1; c < WORDS - 1; c++)
            check_weight(r, c, weight_of(map, r, c) / (1 - gone));
    }
    CHECK(strstr(program.out, "[CLS]") == NULL && strstr(program.out, "[SEP]") == NULL);
    char message[80];
    snprintf(message, sizeof message, "special tokens had %.1f %% of the weight\n", 100 * lost);
    expect(0, NULL, message);
    program_run("look %s -f %s --no-special --from animal-street --layer 1 --head 2 --top 5", model,
                text);
    const double row = 1 - weight_of(map, 1, 0) - weight_of(map, 1, WORDS - 1);
    snprintf(message, sizeof message, "%.3f animal-street", weight_of(map, 1, 1) / row);
    expect(0, message, "special tokens had ");
    program_run("look %s -f %s --no-special --rollout", model, text);
    expect(0, "\nanimal-street ", "special tokens had ");
    CHECK(strstr(program.out, "[CLS]") == NULL);
    program_run("look %s -f %s --no-special -o %s", model, text, program_path("grid.svg"));
    expect(0, "", " % in a map\n");
}

static bool exists(const char *name)
{
    struct stat about;
    return stat(program_path(name), &about) == 0;
}

static int count_of(const char *name, const char *part)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    data = realloc(data, bytes + 1);
    data[bytes] = '\0';
    int count = 0;
    for (const char *at = data; (at = strstr(at, part)) != NULL; at++)
        count++;
    free(data);
    return count;
}

static void several_texts_are_shown(void)
{
    program_text("two.txt", "animal\n\nstreet\n");
    program_text("none.txt", "\n");
    program_run("look %s -f %s", model, program_path("two.txt"));
    expect(0, "animal", NULL);
    expect(0, "\n\nencoder.1.self, mean of 4 heads", NULL);
    expect(0, "street", NULL);
    program_run("look %s -f %s -o %s", model, program_path("two.txt"), program_path("w.svg"));
    expect(0, "", "w-1.svg (2 layers, 4 heads)\n");
    expect(0, "", "w-2.svg (2 layers, 4 heads)\n");
    CHECK(exists("w-1.svg") && exists("w-2.svg") && !exists("w.svg"));
    program_run("look %s animal street animal -o %s", model, program_path("v.txt"));
    expect(0, "", "v-3.txt (layer 1, mean of 4 heads)\n");
    program_run("look %s -p animal --layer 0 --head 1 -o %s", model, program_path("w.svg"));
    expect(0, "", "w.svg (layer 0, head 1)\n");
    CHECK(exists("w.svg"));
    program_text("u-2.txt", "animal\nstreet\n"); /* a name that is derived may be an input, too */
    program_run("look %s -f %s -o %s", model, program_path("u-2.txt"), program_path("u.txt"));
    expect(2, "", "u-2.txt: is the same file as the input");
    CHECK_EQ(count_of("u-2.txt", "animal\nstreet\n"), 1);
    program_run("look %s -f %s", model, program_path("none.txt"));
    expect(2, "", "look: no text: expected one after the model");
    program_run("look %s -f %s", model, program_path("absent.txt"));
    expect(3, "", "look: ");
}

static void one_word_is_drawn_in_every_layer(void)
{
    program_run("look %s -f %s --from animal -o %s", model, text, program_path("from.svg"));
    expect(0, "", "from.svg (2 layers, 4 heads)\n");
    CHECK_EQ(count_of("from.svg", "encoder.0.self"), 1);
    CHECK_EQ(count_of("from.svg", "encoder.1.self"), 1);
    CHECK_EQ(count_of("from.svg", ">animal-street<"), 4); /* both sides of both layers */
    program_run("look %s -f %s --from animal --layer 1 -o %s", model, text,
                program_path("from.svg"));
    expect(0, "", "from.svg (layer 1, 4 heads)\n");
    CHECK_EQ(count_of("from.svg", ">animal-street<"), 2);
}

static void pictures_have_options(void)
{
    static const struct {
        const char *options, *part;
        int count;
    } cases[] = {
        {"--layer 1 --head 2", "fill=\"#0b2f66\"", 2}, /* the largest cell and the colour bar */
        {"--layer 1 --head 2 --palette heat", "fill=\"#0b0714\"", 1},
        {"--layer 1 --head 2 --range 0:0.001", "fill=\"#0b2f66\"", 26}, /* 5 x 5, and the bar */
        {"--layer 1 --head 2 --title Mine", ">Mine<", 1},
        {"--title Mine", ">Mine<", 1},
        {"--links --title Mine", ">Mine<", 1},
        {"--layer 1 --head 2 --cell 31", "width=\"31\" height=\"31\"", 25},
        {"--layer 1 --head 2 --numbers", ">0.", 25 + 1}, /* the cells and the colour bar */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run("look %s -f %s %s -o %s", model, text, cases[i].options,
                    program_path("map.svg"));
        expect(0, "", "wrote ");
        const int count = count_of("map.svg", cases[i].part);
        if (count != cases[i].count)
            test_failed(__FILE__, __LINE__, "%s: %s %d times", cases[i].options, cases[i].part,
                        count);
    }
}

static void wrong_options_are_rejected(void)
{
    static const struct {
        const char *options, *message;
    } cases[] = {
        {"--range 1", "expected LOW:HIGH"},
        {"--range 1:0", "expected LOW:HIGH"},
        {"--palette rainbow", "palette"},
        {"--cell 10", "--cell needs -o FILE"},
        {"--top 2 --numbers", "are for pictures"},
        {"--from animal --title T", "are for pictures"},
        {"--links -o w.svg --palette heat", "are for maps"},
        {"-o w.svg --numbers", "--numbers is for one map"},
        {"-o w.npz --no-special", "--no-special is for maps and tables"},
        {"--entropy --no-special", "--no-special is for maps and tables"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run("look %s animal %s", model, cases[i].options);
        expect(2, "", cases[i].message);
    }
    program_run("look %s --ids absent.npy --no-special", model);
    expect(2, "", "--no-special needs a text");
}

/* The alignment of a translator that splits words. */
static void translators_show_words(void)
{
    program_text("r.toml",
                 "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n[tokens]\nkind = "
                 "\"bpe\"\nvocabulary = 60\nmin_count = 1\n[model]\nhidden = 8\nencoder_hidden = "
                 "5\nembedding = 6\nattention_width = 6\nreadout_width = 7\n[train]\nsteps = "
                 "1\nbatch_tokens = 200\n");
    program_text("date.txt", "3 May 1979\n");
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("pair"));
    expect(0, NULL, NULL);
    program_run("look %s -f %s --target 1979-05-03", program_path("pair"),
                program_path("date.txt"));
    expect(0, "\n1979-05-03 ", NULL);
    expect(0, "\n     (end) ", NULL);
    program_run("look %s -f %s --target 1979-05-03 --no-special", program_path("pair"),
                program_path("date.txt"));
    CHECK(strstr(program.out, "(end)") == NULL);
    program_run("look %s -f %s --target 1979-05-03 --pieces", program_path("pair"),
                program_path("date.txt"));
    expect(0, "(end) ", NULL);
    CHECK(strstr(program.out, "\n1979-05-03 ") == NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    snprintf(model, sizeof model, "%s", reading_model());
    program_text("text.txt", "animal-street animal.\n");
    snprintf(text, sizeof text, "%s", program_path("text.txt"));
    RUN(words_sum_keys_and_average_queries);
    RUN(special_tokens_are_left_out);
    RUN(several_texts_are_shown);
    RUN(one_word_is_drawn_in_every_layer);
    RUN(pictures_have_options);
    RUN(wrong_options_are_rejected);
    RUN(translators_show_words);
    program_end();
    return TEST_END();
}

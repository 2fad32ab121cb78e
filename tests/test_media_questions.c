/*
 * Media sets with questions. clevr: answers agree with what is seen in the pixels, which a second
 * computation reads; parts share no scene. easy_vqa: parts are kept apart by picture, damaged files
 * are named. Both: an example is a function of its arguments, memory may run out.
 */
#include <math.h>

#include "base/ctx.h"
#include "data/media.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/opcase.h"

static fv_ctx *context(void) { return op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU); }

static fv_media *open_set(fv_ctx *ctx, const fv_media_config *cfg)
{
    fv_media *set = NULL;
    CHECK_OK(ctx, fv_media_open(ctx, cfg, &set));
    return set;
}

static void fails(fv_ctx *ctx, const fv_media_config *cfg, fv_status status, const char *message)
{
    fv_media *set = NULL;
    CHECK_EQ(fv_media_open(ctx, cfg, &set), status);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    fv_ctx_take_error(ctx);
    CHECK(!set);
}

/* ---- clevr: what is seen -------------------------------------------------------------------- */

enum { SIDE = 48, PLANE = SIDE * SIDE, COLOURS = 6 };

static const char *const colours[COLOURS] = {"red", "green", "blue", "yellow", "purple", "grey"};
static const float shades[COLOURS][3] = {{0.86F, 0.13F, 0.13F}, {0.1F, 0.62F, 0.2F},
                                         {0.15F, 0.3F, 0.9F},   {0.93F, 0.8F, 0.1F},
                                         {0.6F, 0.2F, 0.72F},   {0.5F, 0.5F, 0.5F}};

typedef struct seen {
    double x, y; /* mean of the pixels that have the colour */
    bool square; /* they fill their box */
} seen;

static void see(const float *values, seen out[COLOURS])
{
    for (int c = 0; c < COLOURS; c++) {
        double x = 0, y = 0, n = 0;
        int left = SIDE, right = -1, top = SIDE, bottom = -1;
        for (int i = 0; i < PLANE; i++) {
            bool same = true;
            for (int k = 0; k < 3; k++)
                same = same && fabsf(values[k * PLANE + i] - shades[c][k]) < 1e-5F;
            if (!same) continue;
            const int px = i % SIDE, py = i / SIDE;
            x += px + 0.5;
            y += py + 0.5;
            n++;
            left = px < left ? px : left;
            right = px > right ? px : right;
            top = py < top ? py : top;
            bottom = py > bottom ? py : bottom;
        }
        CHECK(n > 10);
        out[c] = (seen){
            .x = x / n, .y = y / n, .square = n > 0.95 * (right - left + 1) * (bottom - top + 1)};
    }
}

static double far_from(const seen *a, const seen *b)
{
    return (a->x - b->x) * (a->x - b->x) + (a->y - b->y) * (a->y - b->y);
}

static const char *shape_name(bool square) { return square ? "square" : "circle"; }

/* The answer by reading the question's words and looking at the picture. */
static const char *look_up(const char *question, const seen s[COLOURS], bool *relational)
{
    static char number[8];
    int c = 0;
    while (c < COLOURS && !strstr(question, colours[c]))
        c++;
    if (c == COLOURS) return "no colour";
    const seen *it = &s[c];
    *relational = strstr(question, " one") != NULL;
    if (strstr(question, "on the left")) return it->x < SIDE / 2.0 ? "yes" : "no";
    if (strstr(question, "at the top")) return it->y < SIDE / 2.0 ? "yes" : "no";
    if (strncmp(question, "how many", 8) == 0) {
        int same = 0;
        for (int i = 0; i < COLOURS; i++)
            same += s[i].square == it->square;
        snprintf(number, sizeof number, "%d", same);
        return number;
    }
    if (!*relational) return shape_name(it->square);
    const bool nearest = strstr(question, "nearest") != NULL;
    CHECK(nearest || strstr(question, "furthest"));
    const seen *best = NULL;
    for (int i = 0; i < COLOURS; i++)
        if (i != c && (!best || (nearest ? far_from(&s[i], it) < far_from(best, it)
                                         : far_from(&s[i], it) > far_from(best, it))))
            best = &s[i];
    return shape_name(best->square);
}

static void answers_agree_with_the_pixels(void)
{
    enum { SCENES = 40, EACH = 12 };
    fv_ctx *ctx = context();
    const int64_t count = (int64_t)SCENES * EACH;
    fv_media *set = open_set(
        ctx, &(fv_media_config){.name = "clevr", .seed = 7, .count = {count, count, count}});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK(facts->has_questions && facts->group_count == 2 && facts->label_count == 10);
    CHECK_STR(facts->groups[1], "relational");
    int answers[10] = {0}, relational_count = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < count; i++) {
            fv_media_example e;
            seen s[COLOURS];
            bool relational = false;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            see(e.values, s);
            CHECK_STR(facts->labels[e.label], look_up(e.question, s, &relational));
            CHECK_STR(facts->labels[e.label], e.text);
            CHECK_EQ(e.group, relational);
            CHECK_EQ(e.picture, i / EACH);
            answers[e.label]++;
            relational_count += relational;
        }
    CHECK_EQ(relational_count, 3 * SCENES * EACH / 2);
    for (int i = 0; i < 9; i++) /* six of one shape are rare */
        CHECK(answers[i] > 2);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* The twelve questions about a scene differ, and ask each kind about two colours, nearly always
 * with different answers. */
static void a_scene_has_twelve_questions(void)
{
    enum { EACH = 12, SCENES = 60 };
    char question[EACH][FV_MEDIA_TEXT];
    int64_t answer[EACH];
    int different = 0;
    fv_ctx *ctx = context();
    fv_media *set = open_set(ctx, &(fv_media_config){.name = "clevr", .seed = 2});
    CHECK_EQ(fv_media_facts_of(set)->count[FV_MEDIA_TRAIN], 240000);
    for (int64_t scene = 0; scene < SCENES; scene++)
        for (int i = 0; i < EACH; i++) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, scene * EACH + i, NULL, &e));
            memcpy(question[i], e.question, sizeof question[i]);
            answer[i] = e.label;
            for (int k = 0; k < i; k++)
                CHECK(strcmp(question[i], question[k]) != 0);
            if (i >= EACH / 2 && i < EACH - 1) different += answer[i] != answer[i - EACH / 2];
        }
    CHECK(different > 0.85 * 5 * SCENES); /* half of them by chance */
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* With x and y the pixel of the red object's centre, (x + 3 y) mod 10 decides about the part. The
 * mean of its pixels may be one pixel off. */
static void parts_share_no_scene(void)
{
    enum { SCENES = 30, EACH = 12 };
    static float pixels[FV_MEDIA_PARTS * SCENES][3 * PLANE];
    fv_ctx *ctx = context();
    const int64_t count = (int64_t)SCENES * EACH;
    fv_media *set = open_set(
        ctx, &(fv_media_config){.name = "clevr", .seed = 1, .count = {count, count, count}});
    int at = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < count; i += EACH, at++) {
            fv_media_example e;
            seen s[COLOURS];
            bool fits = false;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            memcpy(pixels[at], e.values, sizeof pixels[at]);
            see(e.values, s);
            for (int k = 0; k < 9; k++) {
                const int share =
                    ((int)(s[0].x + 0.5 * (k % 3 - 1)) + 3 * (int)(s[0].y + 0.5 * (k / 3 - 1))) %
                    10;
                fits = fits || (share == 0   ? FV_MEDIA_VALID
                                : share == 1 ? FV_MEDIA_TEST
                                             : FV_MEDIA_TRAIN) == part;
            }
            CHECK(fits);
        }
    for (int i = 0; i < at; i++)
        for (int k = 0; k < i; k++)
            CHECK(memcmp(pixels[i], pixels[k], sizeof pixels[i]) != 0);
    fv_media_close(&set);
    fails(ctx, &(fv_media_config){.name = "clevr", .size = 31}, FV_ERR_ARGUMENT,
          "size 31, expected 32 to 256");
    fails(ctx, &(fv_media_config){.name = "clevr", .count = {-1, 0, 0}}, FV_ERR_ARGUMENT,
          "-1 examples");
    fv_ctx_destroy(&ctx);
}

static void examples_do_not_depend_on_earlier_ones(void)
{
    static float first[3 * PLANE];
    fv_ctx *ctx = context();
    fv_media_example a, b;
    const fv_media_config cfg = {.name = "clevr", .seed = 4, .count = {240, 24, 24}};
    fv_media *set = open_set(ctx, &cfg);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 15, NULL, &a));
    memcpy(first, a.values, sizeof first);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TEST, 15, NULL, &b));
    CHECK(memcmp(first, b.values, sizeof first) != 0);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 30, NULL, &b));
    CHECK(memcmp(first, b.values, sizeof first) != 0);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 15, NULL, &b));
    CHECK(memcmp(first, b.values, sizeof first) == 0 && a.label == b.label);
    CHECK_STR(a.question, b.question);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* ---- easy_vqa ------------------------------------------------------------------------------- */

enum { HIGH = 2, WIDE = 3, BYTES = HIGH * WIDE * 3 };

static void write_named(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%.400s/%s", folder, name);
    file_write(path, data, bytes);
}

/* Byte k of picture i is first + 10 i + k. */
static void write_pictures(const char *folder, const char *name, int n, int channels, int first)
{
    unsigned char data[4096] = {0, 0, 8, 4,    0, 0, 0, (unsigned char)n,       0, 0, 0, HIGH,
                                0, 0, 0, WIDE, 0, 0, 0, (unsigned char)channels};
    size_t at = 20;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < HIGH * WIDE * channels; k++)
            data[at++] = (unsigned char)(first + 10 * i + k);
    write_named(folder, name, data, at);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    write_named(folder, name, text, strlen(text));
}

/* Twelve training pictures: two are for validation. Picture i has i mod 3 + 1 questions. */
static void write_easy(const char *folder)
{
    char rows[4096] = "image\tquestion\tanswer\n";
    size_t used = strlen(rows);
    for (int i = 0; i < 12; i++)
        for (int k = 0; k <= i % 3; k++)
            used += (size_t)snprintf(rows + used, sizeof rows - used, "%d\tis %d %d?\t%s\n", i, i,
                                     k, k == 1 ? "red" : "yes");
    write_pictures(folder, "train-images-idx4-ubyte", 12, 3, 0);
    write_pictures(folder, "test-images-idx4-ubyte", 2, 3, 100);
    write_text(folder, "train-questions.tsv", rows);
    write_text(folder, "test-questions.tsv",
               "image\tquestion\tanswer\n0\twhat?\tred\n1\tis it?\tno\n1\twas it?\tyes\n");
    write_text(folder, "answers.txt", "red\nyes\nno\n");
}

static void easy_vqa_is_split_by_picture(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("easy");
    write_easy(folder);
    fv_media *set = open_set(ctx, &(fv_media_config){.name = "easy_vqa", .folder = folder});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK_EQ(facts->count[FV_MEDIA_TRAIN], 3 * 6 + 1); /* pictures 0 to 9 */
    CHECK_EQ(facts->count[FV_MEDIA_VALID], 5);         /* 10 and 11 */
    CHECK_EQ(facts->count[FV_MEDIA_TEST], 3);
    CHECK(facts->has_questions && facts->group_count == 0 && facts->label_count == 3);
    CHECK(facts->shape[0] == 3 && facts->shape[1] == HIGH && facts->shape[2] == WIDE);
    for (fv_media_part part = 0; part < FV_MEDIA_TEST; part++)
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            int picture = 0, k = 0;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            CHECK_EQ(sscanf(e.question, "is %d %d?", &picture, &k), 2);
            CHECK_EQ(e.picture, picture);
            CHECK(part == FV_MEDIA_VALID ? picture >= 10 : picture < 10);
            CHECK_STR(e.text, k == 1 ? "red" : "yes");
            CHECK_STR(facts->labels[e.label], e.text);
            for (int b = 0; b < BYTES; b++) /* [pixel][channel] becomes [channel][pixel] */
                CHECK_NEAR(e.values[b % 3 * HIGH * WIDE + b / 3], (10 * picture + b) / 255.0, 1e-6);
        }
    fv_media_example e;
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TEST, 1, NULL, &e));
    CHECK(e.label == 2 && e.picture == 1);
    CHECK_STR(e.question, "is it?");
    CHECK_NEAR(e.values[0], 110 / 255.0, 1e-6);
    fv_media_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* A draw changes the picture, and no later example. */
static void draws_change_pictures_only(void)
{
    float plain[BYTES];
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("easy");
    write_easy(folder);
    fv_media *set = open_set(
        ctx,
        &(fv_media_config){.name = "easy_vqa", .folder = folder, .augment = {.brightness = 0.5}});
    const fv_media_draw draw = {.seed = 1, .step = 3, .row = 1};
    fv_media_example e;
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 4, NULL, &e));
    memcpy(plain, e.values, sizeof plain);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 4, &draw, &e));
    CHECK(memcmp(plain, e.values, sizeof plain) != 0);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 4, NULL, &e));
    CHECK(memcmp(plain, e.values, sizeof plain) == 0);
    fv_media_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

static void bad_files_are_named(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("easy");
    const fv_media_config cfg = {.name = "easy_vqa", .folder = folder};
    fails(ctx, &(fv_media_config){.name = "easy_vqa"}, FV_ERR_ARGUMENT, "needs a folder");
    fails(ctx, &cfg, FV_ERR_IO, "easy/answers.txt");
    static const struct {
        const char *name, *text, *message;
    } cases[] = {
        {"answers.txt", "red\n", "answers.txt: expected two answers or more"},
        {"train-questions.tsv", "image\tquestion\n0\twhy?\n", "the columns image, question and"},
        {"train-questions.tsv", "image\tquestion\tanswer\n12\twhy?\tred\n",
         "train-questions.tsv:2: expected the number of a picture below 12"},
        {"train-questions.tsv", "image\tquestion\tanswer\n1\ta?\tred\n0\tb?\tred\n",
         "train-questions.tsv:3: expected the number of a picture below 12, in ascending"},
        {"train-questions.tsv", "image\tquestion\tanswer\nx\twhy?\tred\n", ":2: expected the num"},
        {"test-questions.tsv", "image\tquestion\tanswer\n0\twhy?\tblue\n",
         "test-questions.tsv:2: expected a question and an answer of answers.txt"},
        {"test-questions.tsv", "image\tquestion\tanswer\n0\t\tred\n", ":2: expected a question"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_easy(folder);
        write_text(folder, cases[i].name, cases[i].text);
        fails(ctx, &cfg, FV_ERR_FORMAT, cases[i].message);
    }
    write_easy(folder);
    write_pictures(folder, "train-images-idx4-ubyte", 12, 4, 0);
    fails(ctx, &cfg, FV_ERR_FORMAT, "train-images-idx4-ubyte: expected bytes of colour pictures");
    write_easy(folder);
    fails(ctx, &(fv_media_config){.name = "easy_vqa", .folder = folder, .size = 9}, FV_ERR_ARGUMENT,
          "size 9, but its pictures have 2");
    fails(ctx, &(fv_media_config){.name = "easy_vqa", .folder = folder, .count = {0, 0, 4}},
          FV_ERR_ARGUMENT, "4 examples for test, of 3");
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* The real files, where they are: counts, and every answer fits its kind of question. */
static void published_files_are_read(void)
{
    char folder[600];
    const char *root = getenv("FOVEA_DATA");
    snprintf(folder, sizeof folder, "%.500s/easy-vqa", root ? root : "");
    char path[700];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/answers.txt", folder);
    char *answers = root ? file_read(path, &bytes) : NULL;
    if (!answers) {
        printf("  no easy-vqa in FOVEA_DATA: left out\n");
        return;
    }
    free(answers);
    fv_ctx *ctx = context();
    fv_media *set = open_set(ctx, &(fv_media_config){.name = "easy_vqa", .folder = folder});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK_EQ(facts->count[FV_MEDIA_TRAIN] + facts->count[FV_MEDIA_VALID], 38575);
    CHECK_EQ(facts->count[FV_MEDIA_TEST], 9673);
    CHECK(facts->label_count == 13 && facts->shape[1] == 64 && facts->shape[2] == 64);
    fv_media_example e;
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_VALID, 0, NULL, &e));
    CHECK_EQ(e.picture, 3600);
    for (int64_t i = 0; i < 500; i++) {
        CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TEST, i, NULL, &e));
        const bool open = strncmp(e.question, "what", 4) == 0;
        CHECK(open != (strcmp(e.text, "yes") == 0 || strcmp(e.text, "no") == 0));
    }
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_set(fv_ctx *ctx, const void *cfg)
{
    fv_media *set = NULL;
    fv_media_example e;
    const fv_media_draw draw = {.step = 1};
    fv_status s = fv_media_open(ctx, cfg, &set);
    if (s == FV_OK) s = fv_media_get(set, FV_MEDIA_TRAIN, 1, &draw, &e);
    if (s == FV_OK) s = fv_media_get(set, FV_MEDIA_TEST, 0, NULL, &e);
    fv_media_close(&set);
    return s;
}

static void memory_may_run_out(void)
{
    folder_make();
    const char *folder = folder_sub("easy");
    write_easy(folder);
    const fv_media_config sets[] = {
        {.name = "easy_vqa", .folder = folder, .augment = {.shift = 1}},
        {.name = "clevr", .size = 32, .count = {24, 12, 12}},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        CHECK(failing_everywhere(use_set, &sets[i], 0) > 1);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(answers_agree_with_the_pixels);
    RUN(a_scene_has_twelve_questions);
    RUN(parts_share_no_scene);
    RUN(examples_do_not_depend_on_earlier_ones);
    RUN(easy_vqa_is_split_by_picture);
    RUN(draws_change_pictures_only);
    RUN(bad_files_are_named);
    RUN(published_files_are_read);
    RUN(memory_may_run_out);
    return TEST_END();
}

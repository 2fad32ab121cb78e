/*
 * Media sets with texts: scenes, digit strings, emoji. Their parts share no example, captions are
 * right and places are where the picture shows their word, damaged files are named, and memory may
 * run out at every request.
 */
#include "base/ctx.h"
#include "data/media.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/media.h"
#include "support/opcase.h"

static fv_ctx *context(void) { return op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU); }

static fv_media *open_set(fv_ctx *ctx, const fv_media_config *cfg)
{
    fv_media *set = NULL;
    CHECK_OK(ctx, fv_media_open(ctx, cfg, &set));
    return set;
}

/* Examples that are read in any order, twice, and with any draw, are the same. */
static void same_again(fv_ctx *ctx, fv_media *set)
{
    static float first[3 * 128 * 128];
    fv_media_example e, again;
    const fv_media_facts *facts = fv_media_facts_of(set);
    const size_t size = (size_t)(facts->shape[0] * facts->shape[1] * facts->shape[2]);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_VALID, 1, NULL, &e));
    memcpy(first, e.values, size * sizeof *first);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 0, NULL, &again));
    CHECK(memcmp(first, again.values, size * sizeof *first) != 0);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_VALID, 1, NULL, &again));
    CHECK(memcmp(first, again.values, size * sizeof *first) == 0);
    CHECK_STR(e.text, again.text);
    for (size_t i = 0; i < size; i++)
        CHECK(first[i] >= 0 && first[i] <= 1);
}

/* ---- scenes --------------------------------------------------------------------------------- */

enum { SIDE = 48, FORMS = 5, COLOURS = 6, REGIONS = 9, SCENES = 400 };

static const char *const forms[FORMS] = {"circle", "square", "triangle", "diamond", "cross"};
static const char *const colours[COLOURS] = {"red", "green", "blue", "yellow", "purple", "white"};

static int find(const char *const *names, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) return i;
    return -1;
}

/* The words of a text; they stay in `room`. */
static int split(const char *text, char room[FV_MEDIA_TEXT], const char *word[32])
{
    int n = 0;
    snprintf(room, FV_MEDIA_TEXT, "%s", text);
    for (char *p = strtok(room, " "); p && n < 32; p = strtok(NULL, " "))
        word[n++] = p;
    return n;
}

typedef struct box {
    double x, y, radius;
} box;

static box middle(const fv_media_place *p)
{
    return (box){((double)p->x0 + (double)p->x1) / 2, ((double)p->y0 + (double)p->y1) / 2,
                 ((double)p->x1 - (double)p->x0) / 2};
}

/* How the picture looks at a place, by the colour's name: the right channels are light. */
static bool has_colour(const float *values, box b, int colour)
{
    static const int light[COLOURS] = {1, 2, 4, 3, 5, 7}; /* red 1, green 2, blue 4 */
    const int at = (int)b.y * SIDE + (int)b.x;
    int found = 0;
    for (int c = 0; c < 3; c++)
        found |= values[c * SIDE * SIDE + at] > 0.55f ? 1 << c : 0;
    return found == light[colour];
}

/* One scene: every word fits what is seen, and combinations are counted in `seen`. */
static void check_scene(const fv_media_example *e, bool seen[FORMS][COLOURS][REGIONS])
{
    char room[FV_MEDIA_TEXT];
    const char *word[32];
    const int n = split(e->text, room, word);
    CHECK(e->places == 4 || e->places == 6);
    box last = {-1, 0, 0};
    for (int p = 0, at = 0; p + 1 < e->places; p += 2) {
        const box b = middle(&e->place[p]);
        if (p > 0) {
            const double right = b.x - last.x, down = b.y - last.y;
            const char *to = right > fabs(down) ? "left" : down > 0 ? "above" : "below";
            CHECK_STR(word[at], to);
            at += strcmp(to, "left") == 0 ? 2 : 1;
        }
        CHECK(b.x > last.x);
        CHECK_STR(word[at], "a");
        CHECK_STR(word[at + 1], b.radius > 0.13 * SIDE ? "large" : "small");
        CHECK_EQ(e->place[p].word, at + 2);
        CHECK_EQ(e->place[p + 1].word, at + 3);
        const int colour = find(colours, COLOURS, word[at + 2]),
                  form = find(forms, FORMS, word[at + 3]);
        CHECK(colour >= 0 && form >= 0 && has_colour(e->values, b, colour));
        if (colour >= 0 && form >= 0)
            seen[form][colour][3 * (int)(3 * b.y / SIDE) + (int)(3 * b.x / SIDE)] = true;
        last = b;
        at += 4;
        if (p + 2 == e->places) CHECK_EQ(at, n);
    }
}

static void scenes_of_the_parts_share_no_combination(void)
{
    fv_ctx *ctx = context();
    static bool seen[FV_MEDIA_PARTS][FORMS][COLOURS][REGIONS];
    memset(seen, 0, sizeof seen);
    fv_media *set = open_set(
        ctx,
        &(fv_media_config){.name = "scenes", .seed = 3, .count = {4 * SCENES, SCENES, SCENES}});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK(facts->shape[0] == 3 && facts->shape[1] == SIDE && facts->has_text);
    check_texts(ctx, set, 30);
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            check_scene(&e, seen[part]);
        }
    int trained = 0, tested = 0;
    for (int k = 0; k < FORMS * COLOURS; k++) {
        int of[FV_MEDIA_PARTS] = {0};
        for (int region = 0; region < REGIONS; region++) {
            int parts = 0;
            for (int part = 0; part < FV_MEDIA_PARTS; part++) {
                const bool here = seen[part][k / COLOURS][k % COLOURS][region];
                parts += here;
                of[part] += here;
            }
            CHECK(parts <= 1);
        }
        CHECK(of[FV_MEDIA_VALID] <= 1 && of[FV_MEDIA_TEST] <= 1 && of[FV_MEDIA_TRAIN] <= 7);
        trained += of[FV_MEDIA_TRAIN];
        tested += of[FV_MEDIA_TEST];
    }
    CHECK(trained > 6 * FORMS * COLOURS && tested > FORMS * COLOURS / 2);
    same_again(ctx, set);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* ---- digit strings -------------------------------------------------------------------------- */

enum { DIGITS = 24, DIGIT_SIDE = 28 };

/* Digits of one grey value each, by which a test knows them again: a filled box of 10 x 16. */
static void write_digits(const char *folder, const char *prefix, int n, int first)
{
    static unsigned char data[16 + DIGITS * DIGIT_SIDE * DIGIT_SIDE];
    char path[512];
    const unsigned char head[16] = {0, 0, 8, 3,          0, 0, 0, (unsigned char)n,
                                    0, 0, 0, DIGIT_SIDE, 0, 0, 0, DIGIT_SIDE};
    memset(data, 0, sizeof data);
    memcpy(data, head, sizeof head);
    for (int i = 0; i < n; i++)
        for (int y = 6; y < 22; y++)
            for (int x = 9; x < 19; x++)
                data[16 + (i * DIGIT_SIDE + y) * DIGIT_SIDE + x] = (unsigned char)first;
    snprintf(path, sizeof path, "%.400s/%s-images-idx3-ubyte", folder, prefix);
    file_write(path, data, (size_t)(16 + n * DIGIT_SIDE * DIGIT_SIDE));
    unsigned char labels[8 + DIGITS] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)n};
    for (int i = 0; i < n; i++)
        labels[8 + i] = (unsigned char)(i % 10);
    snprintf(path, sizeof path, "%.400s/%s-labels-idx1-ubyte", folder, prefix);
    file_write(path, labels, (size_t)(8 + n));
}

/* The largest value inside a place, and the share of the light that lies in no place. */
static void check_places(const fv_media_facts *facts, const fv_media_example *e, double brightest)
{
    const int64_t h = facts->shape[1], w = facts->shape[2];
    double past = 0;
    for (int p = 0; p < e->places; p++) {
        const fv_media_place *b = &e->place[p];
        const int64_t at =
            (int64_t)((double)(b->y0 + b->y1) / 2) * w + (int64_t)((double)(b->x0 + b->x1) / 2);
        CHECK_EQ(b->word, p);
        CHECK((double)b->x0 >= past && (double)b->x1 <= (double)w && (double)b->y0 >= 0 &&
              (double)b->y1 <= (double)h);
        if (brightest > 0) /* the boxes of write_digits are full of ink */
            CHECK((double)e->values[at] > 0.7 * brightest &&
                  (double)e->values[at] < brightest + 0.01);
        past = (double)b->x1;
    }
}

static void strings_take_their_digits_from_their_part(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("digits");
    write_digits(folder, "train", DIGITS, 255);
    write_digits(folder, "t10k", 12, 120);
    fv_media *set = open_set(
        ctx, &(fv_media_config){.name = "strings", .folder = folder, .count = {60, 20, 60}});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK(facts->shape[1] == 32 && facts->shape[2] == 128 && facts->has_text);
    check_texts(ctx, set, 30);
    int lengths = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            CHECK(e.places >= 1 && e.places <= 8 && strlen(e.text) == (size_t)e.places);
            CHECK(strspn(e.text, "0123456789") == strlen(e.text));
            /* the two last training digits, 2 and 3, are those of validation */
            if (part == FV_MEDIA_VALID) CHECK(strspn(e.text, "23") == strlen(e.text));
            check_places(facts, &e, part == FV_MEDIA_TEST ? 120 / 255.0 : 1);
            lengths |= 1 << e.places;
        }
    CHECK_EQ(lengths, 0x1fe);
    same_again(ctx, set);
    fv_media_close(&set);
    write_digits(folder, "t10k", 12, 120);
    fv_media_config bad = {.name = "strings", .folder = folder, .size = 5};
    CHECK_EQ(fv_media_open(ctx, &bad, &set), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "size 5, expected 24 to 128"));
    bad = (fv_media_config){.name = "strings", .count = {-1}, .variant = "drawn"};
    CHECK_EQ(fv_media_open(ctx, &bad, &set), FV_ERR_ARGUMENT);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

static void drawn_strings_need_no_files(void)
{
    fv_ctx *ctx = context();
    fv_media *set =
        open_set(ctx, &(fv_media_config){.name = "strings", .variant = "drawn", .seed = 2});
    const fv_media_facts *facts = fv_media_facts_of(set);
    check_texts(ctx, set, 30);
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < 40; i++) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            check_places(facts, &e, 0);
        }
    same_again(ctx, set);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* ---- emoji ---------------------------------------------------------------------------------- */

enum { EMOJI = 60, STORED = 72, EMOJI_BYTES = STORED * STORED * 4 };

/* Picture i: red i, green 2 i, blue 0 in the left half, which is opaque; the right one is clear. */
static void write_emoji(const char *folder, int pictures, const char *bad_row)
{
    static unsigned char data[20 + EMOJI * EMOJI_BYTES];
    static char rows[EMOJI * 64];
    char path[512];
    const unsigned char head[20] = {
        0, 0, 8, 4, 0, 0, 0, (unsigned char)pictures, 0, 0, 0, STORED, 0, 0, 0, STORED, 0, 0, 0, 4};
    memcpy(data, head, sizeof head);
    for (int i = 0; i < pictures * STORED * STORED; i++) {
        unsigned char *pixel = data + 20 + 4 * i;
        const int picture = i / (STORED * STORED);
        pixel[0] = (unsigned char)picture;
        pixel[1] = (unsigned char)(2 * picture);
        pixel[2] = 0;
        pixel[3] = i % STORED < STORED / 2 ? 255 : 0;
    }
    snprintf(path, sizeof path, "%.400s/color72-images-idx4-ubyte", folder);
    file_write(path, data, (size_t)(20 + pictures * EMOJI_BYTES));
    size_t used = (size_t)snprintf(rows, sizeof rows, "index\thexcode\tannotation\tskintone\n");
    for (int i = 0; i < EMOJI; i++) /* every fifth is a skin tone's; two have one name */
        used += (size_t)snprintf(rows + used, sizeof rows - used, "%d\tX%d\tname %d\t%s\n", i, i,
                                 i == 1 ? 2 : i, i % 5 == 4 ? "3" : "");
    used += (size_t)snprintf(rows + used, sizeof rows - used, "%s", bad_row);
    snprintf(path, sizeof path, "%.400s/openmoji.tsv", folder);
    file_write(path, rows, used);
}

static void emoji_are_split_by_name(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("emoji");
    write_emoji(folder, EMOJI, "");
    fv_media *set = open_set(ctx, &(fv_media_config){.name = "openmoji", .folder = folder});
    const fv_media_facts *facts = fv_media_facts_of(set);
    check_texts(ctx, set, 30);
    int parts_of[EMOJI] = {0}, count = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            int name = -1;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            CHECK(sscanf(e.text, "name %d", &name) == 1 && name % 5 != 4);
            parts_of[name] |= 1 << part;
            count++;
            const int plane = 36 * 36;
            if (name != 2) CHECK_NEAR(e.values[0], name / 255.0, 1e-5);
            if (name != 2) CHECK_NEAR(e.values[plane], 2 * name / 255.0, 1e-5);
            CHECK_NEAR(e.values[2 * plane], 0, 1e-5);
            CHECK_NEAR(e.values[2 * plane + 35], 1, 1e-5); /* clear: white shows */
        }
    CHECK_EQ(count, EMOJI - EMOJI / 5);
    for (int i = 0; i < EMOJI; i++)
        CHECK(parts_of[i] == 0 || parts_of[i] == 1 || parts_of[i] == 2 || parts_of[i] == 4);
    fv_media_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* A shift lets white in, as around every emoji: the right edge of the blue plane stays 1. */
static void shifted_emoji_lie_on_white(void)
{
    enum { WIDE = 36, PLANE = WIDE * WIDE };
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("emoji");
    write_emoji(folder, EMOJI, "");
    fv_media *set = open_set(
        ctx, &(fv_media_config){.name = "openmoji", .folder = folder, .augment = {.shift = 4}});
    fv_media_draw draw = {.seed = 5, .step = 1};
    int moved = 0;
    for (; draw.row < 20; draw.row++) {
        fv_media_example e;
        CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 0, &draw, &e));
        const float *blue = e.values + 2 * PLANE;
        for (int y = 0; y < WIDE; y++)
            CHECK_NEAR(blue[y * WIDE + WIDE - 1], 1, 1e-5);
        moved += blue[WIDE / 2 * WIDE + WIDE / 2 - 1] > 0.5f;
    }
    CHECK(moved > 0);
    fv_media_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* The variant "groups": classes in the order of the file, beside the names. */
static void emoji_have_groups(void)
{
    static char rows[EMOJI * 64];
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("emoji");
    const fv_media_config cfg = {.name = "openmoji", .folder = folder, .variant = "groups"};
    write_emoji(folder, EMOJI, "");
    fv_media *set = NULL;
    CHECK_EQ(fv_media_open(ctx, &cfg, &set), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "openmoji.tsv: expected the column group") != NULL);
    (void)fv_ctx_take_error(ctx);
    size_t used = (size_t)snprintf(rows, sizeof rows, "index\tgroup\tannotation\tskintone\n");
    for (int i = 0; i < EMOJI; i++)
        used += (size_t)snprintf(rows + used, sizeof rows - used, "%d\t%s\tname %d\t\n", i,
                                 i % 3 == 0   ? "faces"
                                 : i % 3 == 1 ? "flags"
                                              : "food",
                                 i);
    file_write(folder_path("emoji/openmoji.tsv"), rows, used);
    set = open_set(ctx, &cfg);
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK_EQ(facts->label_count, 3);
    CHECK(facts->has_text);
    CHECK_STR(facts->labels[0], "faces");
    CHECK_STR(facts->labels[2], "food");
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            int name = -1;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            CHECK(sscanf(e.text, "name %d", &name) == 1 && e.label == name % 3);
        }
    fv_media_close(&set);
    used += (size_t)snprintf(rows + used, sizeof rows - used, "1\t\tno group\t\n");
    file_write(folder_path("emoji/openmoji.tsv"), rows, used);
    CHECK_EQ(fv_media_open(ctx, &cfg, &set), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "openmoji.tsv:62: expected one of at most 64 groups") !=
          NULL);
    (void)fv_ctx_take_error(ctx);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

static void fails(fv_ctx *ctx, const fv_media_config *cfg, fv_status status, const char *message)
{
    fv_media *set = NULL;
    CHECK_EQ(fv_media_open(ctx, cfg, &set), status);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    CHECK(set == NULL);
    (void)fv_ctx_take_error(ctx);
}

static void damaged_emoji_are_named(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("emoji");
    const fv_media_config cfg = {.name = "openmoji", .folder = folder};
    fails(ctx, &cfg, FV_ERR_IO, "color72-images-idx4-ubyte");
    fails(ctx, &(fv_media_config){.name = "openmoji"}, FV_ERR_ARGUMENT, "needs a folder");
    static const char *const bad[] = {"60\tX\tone too many\t\n", "-1\tX\tnegative\t\n",
                                      "x\tX\tno number\t\n", "7\tX\t\t\n",
                                      "999999999999999999999999999999\tX\tlong\t\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_emoji(folder, EMOJI, bad[i]);
        fails(ctx, &cfg, FV_ERR_FORMAT, "openmoji.tsv:62: expected the number of a picture");
    }
    write_emoji(folder, EMOJI, "1\tX\n");
    fails(ctx, &cfg, FV_ERR_FORMAT, "openmoji.tsv:62");
    write_emoji(folder, 30, "");
    fails(ctx, &cfg, FV_ERR_FORMAT, "openmoji.tsv:32: expected the number of a picture");
    file_write(folder_path("emoji/openmoji.tsv"), "index\tname\n1\tcat\n", 17);
    fails(ctx, &cfg, FV_ERR_FORMAT, "expected the columns index, annotation and skintone");
    write_emoji(folder, EMOJI, "");
    fv_media_config small = cfg;
    small.size = 50;
    fails(ctx, &small, FV_ERR_ARGUMENT, "size 50, expected 36 or 72");
    folder_remove();
    fv_ctx_destroy(&ctx);
}

static void wrong_sizes_of_scenes_are_named(void)
{
    fv_ctx *ctx = context();
    fails(ctx, &(fv_media_config){.name = "scenes", .size = 500}, FV_ERR_ARGUMENT,
          "size 500, expected 32 to 256");
    fails(ctx, &(fv_media_config){.name = "scenes", .count = {0, -2}}, FV_ERR_ARGUMENT,
          "-2 examples");
    fv_ctx_destroy(&ctx);
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_set(fv_ctx *ctx, const void *cfg)
{
    fv_media *set = NULL;
    fv_media_example e;
    fv_status status = fv_media_open(ctx, cfg, &set);
    if (status == FV_OK) status = fv_media_get(set, FV_MEDIA_TRAIN, 0, NULL, &e);
    fv_media_close(&set);
    return status;
}

static void every_request_may_fail(void)
{
    folder_make();
    char digits[512], emoji[512];
    snprintf(digits, sizeof digits, "%s", folder_sub("digits"));
    snprintf(emoji, sizeof emoji, "%s", folder_sub("emoji"));
    write_digits(digits, "train", DIGITS, 255);
    write_digits(digits, "t10k", 12, 120);
    write_emoji(emoji, EMOJI, "");
    const fv_media_config sets[] = {{.name = "scenes"},
                                    {.name = "strings", .variant = "drawn"},
                                    {.name = "strings", .folder = digits},
                                    {.name = "openmoji", .folder = emoji}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        CHECK(failing_everywhere(use_set, &sets[i], 0) >= 3);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(scenes_of_the_parts_share_no_combination);
    RUN(strings_take_their_digits_from_their_part);
    RUN(drawn_strings_need_no_files);
    RUN(emoji_are_split_by_name);
    RUN(shifted_emoji_lie_on_white);
    RUN(emoji_have_groups);
    RUN(damaged_emoji_are_named);
    RUN(wrong_sizes_of_scenes_are_named);
    RUN(every_request_may_fail);
    return TEST_END();
}

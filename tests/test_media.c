/*
 * Media sets: their parts share no example, an example is a function of its arguments, damaged and
 * missing files are named, and memory may run out at every request.
 */
#include "base/ctx.h"
#include "data/media.h"
#include "fovea/image.h"
#include "fovea/ops.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/media.h"
#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *context(void) { return op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU); }

/* ---- files ---------------------------------------------------------------------------------- */

enum { TRAIN = 24, TEST = 4, SIDE = 3, PIXELS = SIDE * SIDE };

/* An IDX file of bytes with n entries; `first` is the value of the first pixel or label. */
static void write_idx(const char *folder, const char *name, int n, int rank, int side, int first)
{
    unsigned char data[1024] = {0, 0, 8, (unsigned char)rank};
    char path[512];
    size_t at = 4;
    for (int axis = 0; axis < rank; axis++) {
        data[at + 3] = (unsigned char)(axis == 0 ? n : side);
        at += 4;
    }
    const int size = rank == 1 ? 1 : side * side;
    for (int i = 0; i < n * size; i++)
        data[at++] = (unsigned char)(rank == 1 ? (first + i) % 10 : first + i);
    snprintf(path, sizeof path, "%.400s/%s", folder, name);
    file_write(path, data, at);
}

static void write_digits(const char *folder)
{
    write_idx(folder, "train-images-idx3-ubyte", TRAIN, 3, SIDE, 0);
    write_idx(folder, "train-labels-idx1-ubyte", TRAIN, 1, 0, 3);
    write_idx(folder, "t10k-first3000-images-idx3-ubyte", TEST, 3, SIDE, 220);
    write_idx(folder, "t10k-first3000-labels-idx1-ubyte", TEST, 1, 0, 7);
}

static fv_media *open_set(fv_ctx *ctx, const fv_media_config *cfg)
{
    fv_media *set = NULL;
    CHECK_OK(ctx, fv_media_open(ctx, cfg, &set));
    return set;
}

/* ---- mnist ---------------------------------------------------------------------------------- */

static void digits_are_split_by_number(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("mnist");
    write_digits(folder);
    fv_media *set = open_set(ctx, &(fv_media_config){.name = "mnist", .folder = folder});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK(facts->count[FV_MEDIA_TRAIN] == 22 && facts->count[FV_MEDIA_VALID] == 2 &&
          facts->count[FV_MEDIA_TEST] == TEST);
    CHECK(facts->rank == 3 && facts->shape[0] == 1 && facts->shape[1] == SIDE);
    CHECK_EQ(facts->label_count, 10);
    CHECK_STR(facts->labels[7], "7");
    const int first[FV_MEDIA_PARTS] = {0, 22 * PIXELS, 220}, label[FV_MEDIA_PARTS] = {3, 25, 7};
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = facts->count[part] - 1; i >= 0; i--) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            CHECK_EQ(e.label, (label[part] + i) % 10);
            CHECK_STR(e.text, facts->labels[e.label]);
            for (int k = 0; k < PIXELS; k++)
                CHECK_NEAR(e.values[k], (double)((first[part] + i * PIXELS + k) % 256) / 255, 1e-6);
        }
    fv_media_example e;
    CHECK_EQ(fv_media_get(set, FV_MEDIA_VALID, 2, NULL, &e), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_media_get(set, FV_MEDIA_TRAIN, -1, NULL, &e), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_media_get(set, FV_MEDIA_PARTS, 0, NULL, &e), FV_ERR_ARGUMENT);
    fv_media_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
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

static void bad_digits_are_named(void)
{
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("mnist");
    fv_media_config cfg = {.name = "mnist", .folder = folder};
    fails(ctx, &cfg, FV_ERR_IO, "mnist/train-images-idx3-ubyte");
    fails(ctx, &(fv_media_config){.name = "mnist", .folder = ""}, FV_ERR_ARGUMENT, "a folder");
    write_digits(folder);
    write_idx(folder, "train-labels-idx1-ubyte", TRAIN - 1, 1, 0, 3);
    fails(ctx, &cfg, FV_ERR_FORMAT, "train-labels-idx1-ubyte: 23 labels for 24 pictures");
    write_idx(folder, "train-labels-idx1-ubyte", 5, 3, 2, 0);
    fails(ctx, &cfg, FV_ERR_FORMAT, "expected bytes with 1 axes");
    write_digits(folder);
    write_idx(folder, "t10k-first3000-images-idx3-ubyte", TEST, 3, SIDE - 1, 0);
    fails(ctx, &cfg, FV_ERR_FORMAT, "3 x 3 pixels, test pictures 2 x 2");
    write_idx(folder, "t10k-first3000-images-idx3-ubyte", TEST, 3, 0, 0);
    fails(ctx, &cfg, FV_ERR_FORMAT, "pictures of 0 x 0 pixels");
    write_digits(folder);
    char path[512];
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    unsigned char labels[8 + TRAIN] = {0, 0, 8, 1, 0, 0, 0, TRAIN};
    labels[8 + 5] = 10;
    file_write(path, labels, sizeof labels);
    fails(ctx, &cfg, FV_ERR_FORMAT, "label 5 is 10");
    write_digits(folder);
    cfg.count[FV_MEDIA_TEST] = 5;
    fails(ctx, &cfg, FV_ERR_ARGUMENT, "5 examples for test, of 4 that there are");
    cfg.count[FV_MEDIA_TEST] = 0;
    cfg.size = 5;
    fails(ctx, &cfg, FV_ERR_ARGUMENT, "size 5, but its pictures have 3");
    cfg.size = SIDE;
    cfg.variant = "letters";
    fails(ctx, &cfg, FV_ERR_ARGUMENT, "no variant 'letters'");
    fails(ctx, &(fv_media_config){.name = "nmist"}, FV_ERR_ARGUMENT, "expected one of: shapes, ");
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* ---- shapes, and draws ------------------------------------------------------------------------
 */

static void shapes_of_two_parts_differ(void)
{
    enum { COUNT = 60, SIZE = 28 * 28 };
    static float seen[FV_MEDIA_PARTS * COUNT][SIZE];
    fv_ctx *ctx = context();
    fv_media *set = open_set(
        ctx, &(fv_media_config){.name = "shapes", .seed = 3, .count = {COUNT, COUNT, COUNT}});
    int labels[16] = {0}, at = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int i = 0; i < COUNT; i++, at++) {
            fv_media_example e;
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &e));
            memcpy(seen[at], e.values, sizeof seen[at]);
            labels[e.label]++;
            const int x = (int)lroundf((e.place[0].x0 + e.place[0].x1 - 1) / 2),
                      y = (int)lroundf((e.place[0].y0 + e.place[0].y1 - 1) / 2),
                      s = (x + 3 * y) % 10;
            CHECK(part == FV_MEDIA_VALID ? s == 0 : part == FV_MEDIA_TEST ? s == 1 : s > 1);
        }
    for (int i = 0; i < fv_media_facts_of(set)->label_count; i++)
        CHECK(labels[i] > 10);
    for (int i = 0; i < at; i++)
        for (int k = 0; k < i; k++)
            CHECK(i / COUNT == k / COUNT || memcmp(seen[i], seen[k], sizeof seen[i]) != 0);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* The same bits whatever was asked before, and whatever seed and step the context has. */
static void an_example_is_a_function_of_its_arguments(void)
{
    enum { SIZE = 28 * 28 };
    float first[SIZE];
    fv_ctx *ctx = context();
    fv_media_config cfg = {.name = "shapes", .augment = {.shift = 4, .flip = true}};
    fv_media_draw draw = {.seed = 5, .step = 9, .row = 2};
    fv_media_example e;
    fv_media *set = open_set(ctx, &cfg);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, &draw, &e));
    memcpy(first, e.values, sizeof first);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, NULL, &e));
    CHECK(memcmp(first, e.values, sizeof first) != 0);
    int same = 0;
    for (draw.row = 3; draw.row < 13; draw.row++) {
        CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, &draw, &e));
        same += memcmp(first, e.values, sizeof first) == 0;
    }
    CHECK(same < 5);
    fv_media_close(&set);
    fv_ctx_set_seed(ctx, 77);
    fv_ctx_set_step(ctx, 1234, 0);
    const uint64_t site = ctx->site;
    set = open_set(ctx, &cfg);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TEST, 1, NULL, &e));
    draw.row = 2;
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, &draw, &e));
    CHECK(memcmp(first, e.values, sizeof first) == 0);
    CHECK(ctx->seed == 77 && ctx->step == 1234 && ctx->site == site);
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* A random part of the picture, resized to the size of the whole. */
static void a_crop_fills_the_picture(void)
{
    enum { WIDE = 28, SIZE = WIDE * WIDE };
    float whole[SIZE], expected[SIZE];
    const int64_t shape[3] = {1, WIDE, WIDE};
    fv_ctx *ctx = context();
    fv_media_config cfg = {.name = "shapes", .augment = {.crop = {20, 24}}};
    const fv_media_draw draw = {.seed = 5, .step = 9, .row = 2};
    fv_media_example e;
    fv_media *set = open_set(ctx, &cfg);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, NULL, &e));
    memcpy(whole, e.values, sizeof whole);
    fv_ctx_set_seed(ctx, draw.seed);
    fv_ctx_set_step(ctx, draw.step, 0);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 3, shape, whole);
    x = fv_picture_augment(ctx, x, &cfg.augment, draw.row);
    CHECK(x->shape[1] == 20 && x->shape[2] == 24);
    x = fv_resize_bilinear(ctx, fv_unsqueeze(ctx, x, 0), WIDE, WIDE, false);
    CHECK_OK(ctx, fv_tensor_read(ctx, x, expected, sizeof expected));
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 7, &draw, &e));
    CHECK(memcmp(expected, e.values, sizeof expected) == 0);
    CHECK(memcmp(whole, e.values, sizeof whole) != 0);
    fv_media_close(&set);
    cfg.augment.crop[1] = WIDE + 1;
    set = open_set(ctx, &cfg);
    CHECK_EQ(fv_media_get(set, FV_MEDIA_TRAIN, 7, &draw, &e), FV_ERR_SHAPE);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "crop of 20 x 29 from 28 x 28");
    fv_media_close(&set);
    fv_ctx_destroy(&ctx);
}

/* ---- lists of pictures ------------------------------------------------------------------------
 */

/* A PNG of the samples under `count` names, and a list of them with two classes. */
static void write_list(const char *folder, int count)
{
    char path[512], list[4096] = "";
    size_t bytes = 0, used = 0;
    void *png = file_read(test_path("data/image/rgb.png"), &bytes);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.400s/p%d.png", folder, i);
        file_write(path, png, bytes);
        used += (size_t)snprintf(list + used, sizeof list - used, "p%d.png\t%s\n", i,
                                 i % 3 ? "a dog" : "a cat");
    }
    free(png);
    snprintf(path, sizeof path, "%.400s/list.tsv", folder);
    file_write(path, list, used);
}

static void pictures_are_split_by_name(void)
{
    enum { COUNT = 40 };
    fv_ctx *ctx = context();
    folder_make();
    const char *folder = folder_sub("dogs");
    write_list(folder, COUNT);
    fv_media_config cfg = {.name = "pictures", .folder = folder, .list = "list.tsv", .size = 8};
    fv_media *set = open_set(ctx, &cfg);
    const fv_media_facts *facts = fv_media_facts_of(set);
    int64_t all = 0;
    for (int part = 0; part < FV_MEDIA_PARTS; part++)
        all += facts->count[part];
    CHECK_EQ(all, COUNT);
    CHECK(facts->count[FV_MEDIA_TRAIN] > 20 && facts->label_count == 2 && !facts->has_text);
    fv_media_example e;
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TRAIN, 0, NULL, &e));
    CHECK(e.label == 0 || e.label == 1);
    CHECK_STR(facts->labels[e.label], e.text);
    CHECK(facts->shape[0] == 3 && facts->shape[2] == 8);
    fv_media_close(&set);
    cfg.variant = "texts";
    set = open_set(ctx, &cfg);
    CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_TEST, 0, NULL, &e));
    CHECK(fv_media_facts_of(set)->has_text && fv_media_facts_of(set)->label_count == 0);
    CHECK(e.label == -1 && strncmp(e.text, "a ", 2) == 0);
    check_texts(ctx, set, 30);
    char path[512];
    for (int i = 0; i < COUNT; i++) { /* the message names the file */
        snprintf(path, sizeof path, "%.400s/p%d.png", folder, i);
        file_write(path, "no picture", 10);
    }
    CHECK_EQ(fv_media_get(set, FV_MEDIA_TEST, 0, NULL, &e), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "/dogs/p") != NULL);
    fv_ctx_take_error(ctx);
    CHECK_OK(ctx, fv_media_text(set, FV_MEDIA_TEST, 0, &e)); /* reads no file */
    CHECK(strncmp(e.text, "a ", 2) == 0);
    fv_media_close(&set);
    fails(ctx, &(fv_media_config){.name = "pictures"}, FV_ERR_ARGUMENT, "needs a list");
    cfg.size = 5000;
    fails(ctx, &cfg, FV_ERR_ARGUMENT, "size 5000");
    cfg.size = 8;
    write_list(folder, 1);
    fails(ctx, &cfg, FV_ERR_FORMAT, "more files are needed");
    write_list(folder, 0);
    fails(ctx, &cfg, FV_ERR_FORMAT, "no line with a picture");
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

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
    const char *folder = folder_sub("sets");
    write_digits(folder);
    write_list(folder, 40);
    const fv_augment augment = {.shift = 2, .flip = true};
    const fv_media_config sets[] = {
        {.name = "mnist", .folder = folder, .augment = augment},
        {.name = "shapes", .augment = augment},
        {.name = "pictures", .folder = folder, .list = "list.tsv", .size = 4, .augment = augment},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        CHECK(failing_everywhere(use_set, &sets[i], 0) > 3);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(digits_are_split_by_number);
    RUN(bad_digits_are_named);
    RUN(shapes_of_two_parts_differ);
    RUN(an_example_is_a_function_of_its_arguments);
    RUN(a_crop_fills_the_picture);
    RUN(pictures_are_split_by_name);
    RUN(memory_may_run_out);
    return TEST_END();
}

/*
 * Picture files: values of PNG, JPEG and IDX files, what is refused and why, lists of pictures, and
 * random changes that depend on seed, step and row alone. Damaged files: test_damaged.c.
 */
#include "base/ctx.h"
#include "fovea/image.h"
#include "support/files.h"
#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *context(void) { return op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU); }

static const char *sample(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "data/image/%s", name);
    return test_path(path);
}

/* A picture [rows, cols, channels] as bytes; the test fails if it has another shape. */
static void expect_bytes(fv_ctx *ctx, fv_tensor *t, int64_t rows, int64_t cols, int64_t channels,
                         const uint8_t *expected, int tolerance)
{
    uint8_t bytes[4096];
    if (fv_tensor_rank(t) != 3 || fv_tensor_size(t, 0) != rows || fv_tensor_size(t, 1) != cols ||
        fv_tensor_size(t, 2) != channels) {
        test_failed(__FILE__, __LINE__, "not %lld x %lld x %lld: %s", (long long)rows,
                    (long long)cols, (long long)channels, fv_ctx_message(ctx));
        fv_ctx_take_error(ctx);
        return;
    }
    const size_t n = (size_t)(rows * cols * channels);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, bytes, n));
    for (size_t i = 0; i < n; i++)
        if (abs(bytes[i] - expected[i]) > tolerance)
            test_failed(__FILE__, __LINE__, "byte %zu is %d, not %d", i, bytes[i], expected[i]);
}

static void rgb_sample(uint8_t out[45])
{
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 5; x++) {
            uint8_t *p = out + (y * 5 + x) * 3;
            p[0] = (uint8_t)(x * 50);
            p[1] = (uint8_t)(y * 100);
            p[2] = (uint8_t)(255 - x * 40);
        }
}

static void png_files(void)
{
    fv_ctx *ctx = context();
    uint8_t rgb[45], grey[12], three[36];
    rgb_sample(rgb);
    for (int i = 0; i < 12; i++)
        grey[i] = three[3 * i] = three[3 * i + 1] = three[3 * i + 2] = (uint8_t)(20 * i);
    expect_bytes(ctx, fv_picture_load(ctx, sample("rgb.png"), 0), 3, 5, 3, rgb, 0);
    expect_bytes(ctx, fv_picture_load(ctx, sample("grey.png"), 0), 4, 3, 1, grey, 0);
    expect_bytes(ctx, fv_picture_load(ctx, sample("grey.png"), 3), 4, 3, 3, three, 0);
    CHECK_EQ(fv_tensor_size(fv_picture_load(ctx, sample("rgb.png"), 1), 2), 1);
    /* Its first pixel is transparent: white. */
    rgb[0] = rgb[1] = rgb[2] = 255;
    expect_bytes(ctx, fv_picture_load(ctx, sample("alpha.png"), 3), 3, 5, 3, rgb, 0);
    fv_ctx_destroy(&ctx);
}

#ifdef FV_HAVE_JPEG
static const bool reads_jpeg = true;
#else
static const bool reads_jpeg = false; /* a build without libjpeg-turbo's header */
#endif

static void jpeg_files(void)
{
    fv_ctx *ctx = context();
    if (!reads_jpeg) {
        fv_picture_load(ctx, sample("colour.jpg"), 0);
        CHECK_ERROR(ctx, FV_ERR_UNSUPPORTED, "colour.jpg: this build cannot read JPEG files");
        fv_ctx_destroy(&ctx);
        return;
    }
    static const uint8_t colours[3][3] = {{200, 30, 40}, {20, 180, 60}, {90, 90, 90}};
    uint8_t expected[16 * 24 * 3], grey[63];
    for (int i = 0; i < 16 * 24; i++)
        memcpy(expected + 3 * i, colours[i % 24 / 8], 3);
    memset(grey, 77, sizeof grey);
    expect_bytes(ctx, fv_picture_load(ctx, sample("colour.jpg"), 0), 16, 24, 3, expected, 3);
    expect_bytes(ctx, fv_picture_load(ctx, sample("grey.jpg"), 0), 9, 7, 1, grey, 1);
    CHECK_EQ(fv_tensor_size(fv_picture_load(ctx, sample("progressive.jpg"), 1), 2), 1);
    fv_ctx_destroy(&ctx);
}

static void idx_files(void)
{
    fv_ctx *ctx = context();
    fv_tensor *digits = fv_idx_load(ctx, sample("digits.idx"));
    uint8_t bytes[12];
    CHECK_EQ(fv_tensor_rank(digits), 3);
    CHECK_OK(ctx, fv_tensor_read(ctx, digits, bytes, sizeof bytes));
    for (int i = 0; i < 12; i++)
        CHECK_EQ(bytes[i], i);
    int32_t labels[2] = {0};
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_idx_load(ctx, sample("labels.idx.gz")), labels, 8));
    CHECK(labels[0] == 7 && labels[1] == -2);
    CHECK_VALUES(ctx, fv_idx_load(ctx, sample("real.idx")), 0, 0.5, -3);
    fv_ctx_destroy(&ctx);
}

/* ---- what is refused ------------------------------------------------------------------ */

static void bad_idx_files_are_refused(void)
{
    fv_ctx *ctx = context();
    static const struct {
        const char *why;
        size_t bytes;
        uint8_t data[24];
    } cases[] = {
        {"ends early", 3, {0, 0, 8}},
        {"ends early", 6, {0, 0, 8, 1, 0, 0}},
        {"not an IDX file", 4, {0, 1, 8, 0}},
        {"not an IDX file", 4, {0, 0, 9, 0}},
        {"not an IDX file", 5, {0, 0, 8, 9, 0}},
        {"do not match", 9, {0, 0, 8, 1, 0, 0, 0, 2, 1}},
        {"do not match", 10, {0, 0, 8, 1, 0, 0, 0, 1, 1, 2}},
        {"do not match", 8, {0, 0, 8, 1, 255, 255, 255, 255}},
        {"too many", 16, {0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
    };
    folder_make();
    const char *path = folder_path("bad.idx");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write(path, cases[i].data, cases[i].bytes);
        fv_tensor *t = fv_idx_load(ctx, path);
        CHECK(!fv_tensor_valid(t));
        CHECK_ERROR(ctx, FV_ERR_FORMAT, cases[i].why);
    }
    folder_remove();
    fv_ctx_destroy(&ctx);
}

static void cut_files_are_refused(void)
{
    static const char *const names[] = {"rgb.png", "colour.jpg", "progressive.jpg"};
    fv_ctx *ctx = context();
    for (int i = 0; i < (reads_jpeg ? 3 : 1); i++) {
        size_t bytes = 0;
        unsigned char *data = file_read(sample(names[i]), &bytes);
        for (size_t keep = 0; data && keep + 13 < bytes; keep += keep < 32 ? 1 : 11) {
            fv_picture_decode(ctx, "cut", data, keep, 3);
            CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_FORMAT);
        }
        free(data);
    }
    fv_picture_load(ctx, sample("short.png"), 0);
    CHECK_ERROR(ctx, FV_ERR_FORMAT, "short.png: not a valid PNG file");
    fv_picture_load(ctx, sample("digits.idx"), 0);
    CHECK_ERROR(ctx, FV_ERR_FORMAT, "neither a PNG nor a JPEG");
    fv_picture_load(ctx, sample("rgb.png"), 2);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "2 channels");
    fv_picture_load(ctx, sample("none.png"), 0);
    CHECK_ERROR(ctx, FV_ERR_IO, "none.png");
    fv_ctx_destroy(&ctx);
}

static void large_pictures_are_refused(void)
{
    fv_ctx *ctx = context();
    ctx->limits.picture_pixels = 20000 * 10 - 1;
    fv_picture_load(ctx, sample("wide.png"), 0);
    CHECK_ERROR(ctx, FV_ERR_LIMIT, "20000 x 10 pixels, more than the limit of 199999");
    if (reads_jpeg) {
        ctx->limits.picture_pixels = 16 * 24;
        CHECK(fv_tensor_valid(fv_picture_load(ctx, sample("colour.jpg"), 0)));
        ctx->limits.picture_pixels--;
        fv_picture_load(ctx, sample("colour.jpg"), 0);
        CHECK_ERROR(ctx, FV_ERR_LIMIT, "24 x 16 pixels");
    }
    fv_ctx_destroy(&ctx);
}

/* ---- lists ---------------------------------------------------------------------------- */

static void lists_of_pictures(void)
{
    fv_ctx *ctx = context();
    fv_pictures *set = NULL;
    CHECK_OK(ctx, fv_pictures_open(ctx, sample("list.tsv"), &set));
    CHECK_EQ(fv_pictures_count(set), 3);
    CHECK_EQ(fv_pictures_classes(set), 2);
    CHECK_STR(fv_pictures_class(set, 0), "circle");
    CHECK_EQ(fv_pictures_label(set, 0), 1);
    CHECK_EQ(fv_pictures_label(set, 1), 0);
    CHECK_EQ(fv_pictures_label(set, 3), -1);
    CHECK(!fv_pictures_class(set, 2) && !fv_pictures_file(set, -1));
    CHECK_STR(fv_pictures_file(set, 2), sample("colour.jpg"));
    if (reads_jpeg) CHECK(fv_tensor_valid(fv_picture_load(ctx, fv_pictures_file(set, 2), 3)));
    fv_pictures_close(&set);
    fv_pictures_close(&set);
    fv_ctx_destroy(&ctx);
}

static void bad_lists_are_refused(void)
{
    static const char *const lines[] = {"no tab\n",      "/etc/a.png\tx\n",
                                        "../a.png\tx\n", "a/../../b.png\tx\n",
                                        "\tx\n",         "a.png\tx\nb/..\ty\n"};
    fv_ctx *ctx = context();
    folder_make();
    const char *path = folder_path("list.tsv");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fv_pictures *set = NULL;
        file_write(path, lines[i], strlen(lines[i]));
        CHECK_EQ(fv_pictures_open(ctx, path, &set), FV_ERR_FORMAT);
        CHECK(!set);
    }
    file_write(path, "a..png\tx\n", 9);
    fv_pictures *set = NULL;
    CHECK_OK(ctx, fv_pictures_open(ctx, path, &set));
    fv_pictures_close(&set);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* ---- floats and random changes --------------------------------------------------------- */

static void pictures_as_floats(void)
{
    fv_ctx *ctx = context();
    fv_tensor *pixels = fv_picture_load(ctx, sample("rgb.png"), 3);
    fv_tensor *x = fv_picture_floats(ctx, pixels, 0, 0);
    CHECK_EQ(fv_tensor_size(x, 0), 3);
    CHECK_EQ(fv_tensor_size(x, 2), 5);
    float v[45];
    CHECK_OK(ctx, fv_tensor_read(ctx, x, v, sizeof v));
    CHECK_NEAR(v[4], 200.0 / 255, 1e-6);
    CHECK_NEAR(v[15 + 14], 200.0 / 255, 1e-6);
    CHECK_EQ(fv_tensor_size(fv_picture_floats(ctx, pixels, 6, 0), 1), 6);
    /* One light pixel in nine is not lost when the picture shrinks. */
    const uint8_t dot[9] = {255};
    fv_tensor *small = fv_from_host(ctx, FV_U8, 3, (int64_t[]){3, 3, 1}, dot);
    CHECK_VALUES(ctx, fv_picture_floats(ctx, small, 1, 1), 1e-6, 1.0 / 9);
    fv_picture_floats(ctx, x, 0, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "u8");
    fv_ctx_take_error(ctx);
    /* Half the size: means of four pixels; larger: between its neighbours. */
    const float slope[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    x = fv_from_host(ctx, FV_F32, 3, (int64_t[]){1, 2, 4}, slope);
    CHECK(fv_picture_resize(ctx, x, 2, 4) == x);
    CHECK_VALUES(ctx, fv_picture_resize(ctx, x, 1, 2), 1e-6, 2.5, 4.5);
    CHECK_VALUES(ctx, fv_picture_resize(ctx, x, 1, 4), 1e-6, 2, 3, 4, 5);
    fv_tensor *wide = fv_picture_resize(ctx, x, 2, 8);
    CHECK_VALUES(ctx, fv_slice(ctx, wide, 1, 0, 1, 1), 1e-6, 0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75,
                 3);
    fv_picture_resize(ctx, fv_unsqueeze(ctx, x, 0), 1, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[channels, height, width]");
    fv_ctx_destroy(&ctx);
}

static void augmentation_depends_on_its_key_alone(void)
{
    const fv_augment how = {.shift = 2,
                            .flip = true,
                            .brightness = 0.3,
                            .contrast = 0.2,
                            .colour = 0.1,
                            .crop = {3, 4}};
    fv_ctx *ctx = context();
    fv_tensor *x = tensor_random(ctx, 5, 3, 2, 4, 5);
    fv_ctx_set_step(ctx, 3, 0);
    fv_tensor *a = fv_picture_augment(ctx, x, &how, 7);
    fv_rand_normal(ctx, FV_F32, 1, (int64_t[]){9}, 0, 1); /* another draw in between */
    CHECK(tensor_same(ctx, a, fv_picture_augment(ctx, x, &how, 7)));
    int different = 0;
    for (uint64_t row = 8; row < 16; row++)
        different += !tensor_same(ctx, a, fv_picture_augment(ctx, x, &how, row));
    CHECK_EQ(different, 8);
    fv_ctx_set_step(ctx, 4, 0);
    CHECK(!tensor_same(ctx, a, fv_picture_augment(ctx, x, &how, 7)));
    CHECK(tensor_same(ctx, x, fv_picture_augment(ctx, x, &(fv_augment){.shift = 0}, 7)));
    fv_picture_augment(ctx, x, &(fv_augment){.contrast = 1}, 7);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "contrast 1");
    fv_picture_augment(ctx, fv_unsqueeze(ctx, x, 0), &how, 7);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[channels, height, width]");
    fv_ctx_destroy(&ctx);
}

/* Over many rows every shift of -1 .. 1 and both directions appear, and nothing else. */
static void augmentation_reaches_its_whole_range(void)
{
    fv_ctx *ctx = context();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3}, 3, 1, 1, 3);
    const fv_augment how = {.shift = 1, .flip = true};
    int seen[3][2] = {{0}};
    for (uint64_t row = 0; row < 200; row++) {
        float v[3];
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_picture_augment(ctx, x, &how, row), v, sizeof v));
        static const float moved[3][3] = {{2, 3, 0}, {1, 2, 3}, {0, 1, 2}};
        int matches = v[0] == 0 && v[1] == 0 && v[2] == 0; /* moved up or down: one row only */
        for (int s = 0; s < 3; s++)
            for (int flip = 0; flip < 2; flip++) {
                const bool same = v[0] == moved[s][flip ? 2 : 0] && v[1] == moved[s][1] &&
                                  v[2] == moved[s][flip ? 0 : 2];
                seen[s][flip] += same;
                matches += same;
            }
        CHECK(matches >= 1);
    }
    for (int s = 0; s < 3; s++)
        CHECK(seen[s][0] > 0 && seen[s][1] > 0);
    fv_ctx_destroy(&ctx);
}

/* What a shift lets in has the fill's value, before the other changes. */
static void a_shift_lets_the_fill_in(void)
{
    enum { SIDE = 3 };
    fv_ctx *ctx = context();
    fv_tensor *x = fv_full(ctx, FV_F32, 3, (int64_t[]){1, SIDE, SIDE}, 5);
    int came_in[SIDE][SIDE] = {{0}};
    for (uint64_t row = 0; row < 100; row++) {
        float v[SIDE][SIDE];
        const fv_augment how = {.shift = 1, .fill = -2, .brightness = 0.5};
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_picture_augment(ctx, x, &how, row), v, sizeof v));
        const float middle = v[1][1] / 5;
        for (int i = 0; i < SIDE * SIDE; i++) {
            const float at = v[i / SIDE][i % SIDE] / middle;
            CHECK(fabsf(at - 5) < 1e-4f || fabsf(at + 2) < 1e-4f);
            came_in[i / SIDE][i % SIDE] += at < 0;
        }
    }
    CHECK_EQ(came_in[1][1], 0);
    CHECK(came_in[0][1] > 0 && came_in[1][0] > 0 && came_in[1][2] > 0 && came_in[2][1] > 0);
    fv_ctx_destroy(&ctx);
}

/* Crops start at every place with the same draw for all channels; colours differ by channel and
 * stay in range; both depend on the key alone. */
static void crops_and_colours(void)
{
    fv_ctx *ctx = context();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50, 60, 70, 80},
                             3, 2, 2, 4);
    int seen[2][2] = {{0}};
    for (uint64_t row = 0; row < 100; row++) {
        float v[2][3];
        fv_tensor *y = fv_picture_augment(ctx, x, &(fv_augment){.crop = {1, 3}}, row);
        CHECK_OK(ctx, fv_tensor_read(ctx, y, v, sizeof v));
        const int first = (int)v[0][0] - 1;
        CHECK(first == 0 || first == 1 || first == 4 || first == 5);
        for (int i = 0; i < 3; i++)
            CHECK(v[0][i] == (float)(first + 1 + i) && v[1][i] == 10 * v[0][i]);
        seen[first / 4 % 2][first % 4 % 2]++;
    }
    CHECK(seen[0][0] > 0 && seen[0][1] > 0 && seen[1][0] > 0 && seen[1][1] > 0);
    float least = 2, most = 0;
    for (uint64_t row = 0; row < 100; row++) {
        float v[16];
        fv_tensor *y = fv_picture_augment(ctx, x, &(fv_augment){.colour = 0.5}, row);
        CHECK_OK(ctx, fv_tensor_read(ctx, y, v, sizeof v));
        const float a = v[0], b = v[8] / 10;
        CHECK(a >= 0.5f && a <= 1.5f && b >= 0.5f && b <= 1.5f && a != b);
        CHECK(fabsf(v[7] - 8 * a) < 1e-5f && fabsf(v[15] - 80 * b) < 1e-4f);
        least = fminf(least, a);
        most = fmaxf(most, a);
    }
    CHECK(least < 0.6f && most > 1.4f);
    fv_picture_augment(ctx, x, &(fv_augment){.crop = {3, 1}}, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "a crop of 3 x 1 from 2 x 4");
    fv_picture_augment(ctx, x, &(fv_augment){.crop = {1, 5}}, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "a crop of 1 x 5 from 2 x 4");
    fv_picture_augment(ctx, x, &(fv_augment){.crop = {-1, 1}}, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "a crop of -1 x 1");
    fv_picture_augment(ctx, x, &(fv_augment){.crop = {1, -1}}, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "a crop of 1 x -1");
    fv_picture_augment(ctx, x, &(fv_augment){.colour = 1}, 0);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "colour 1");
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(png_files);
    RUN(jpeg_files);
    RUN(idx_files);
    RUN(bad_idx_files_are_refused);
    RUN(cut_files_are_refused);
    RUN(large_pictures_are_refused);
    RUN(lists_of_pictures);
    RUN(bad_lists_are_refused);
    RUN(pictures_as_floats);
    RUN(augmentation_depends_on_its_key_alone);
    RUN(augmentation_reaches_its_whole_range);
    RUN(a_shift_lets_the_fill_in);
    RUN(crops_and_colours);
    return TEST_END();
}

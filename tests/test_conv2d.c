/*
 * Convolutions of images on every SIMD level and several numbers of threads: results and gradients
 * have the bits of the reference kernels, for sizes around those of tiles, panels and blocks.
 */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/image.h"
#include "support/opcase.h"
#include "support/tensors.h"

typedef struct shape {
    int64_t batch, in, out, h, w, window[2];
    fv_conv2d_options options;
} shape;

#define PAD1 .padding = {1, 1}

static const shape shapes[] = {
    {1, 5, 5, 7, 9, {3, 3}, {PAD1}},  /* 63 pixels, rows and channels of a tile - 1 */
    {1, 6, 6, 8, 8, {3, 3}, {PAD1}},  /* 64, exactly a tile */
    {1, 7, 7, 5, 13, {3, 3}, {PAD1}}, /* 65, a tile + 1 */
    {3, 4, 63, 5, 5, {2, 3}, {PAD1}}, /* a panel of outputs - 1; tiles over images */
    {3, 4, 64, 4, 4, {4, 4}, {.stride = {2, 2}, PAD1}}, /* exactly a panel */
    {2, 3, 65, 6, 5, {3, 2}, {.stride = {2, 3}}},       /* a panel + 1, no border */
    {1, 57, 3, 3, 4, {3, 3}, {PAD1}},                   /* 513 taps */
    {2, 3, 200, 3, 3, {1, 1}, {.stride = {1, 1}}},      /* more rows than a work item has */
    {2, 4, 6, 9, 8, {3, 3}, {.stride = {3, 2}, .padding = {2, 3}, .dilation = {2, 3}, .groups = 2}},
    {5, 2, 3, 20, 30, {3, 3}, {PAD1}},                   /* several blocks of pixels */
    {2, 2, 3, 3, 3, {1, 1}, {.stride = {4, 3}}},         /* pixels that nothing reads */
    {1, 8, 8, 1, 700, {1, 3}, {.padding = {0, 1}}},      /* a row longer than a block */
    {1, 3, 5, 40, 37, {3, 3}, {.stride = {2, 2}, PAD1}}, /* every second column, over vectors */
    {2, 3, 5, 3, 16, {1, 1}, {.groups = 1}},             /* a source read in place, */
    {2, 4, 6, 3, 8, {1, 1}, {.groups = 2}},              /* in halves and groups, */
    {1, 3, 5, 3, 17, {1, 1}, {.groups = 1}},             /* copied for the last piece */
    {2, 3, 4, 37, 1, {3, 1}, {.stride = {2, 1}, .padding = {1, 0}}}, /* one pixel wide */
    {2, 3, 4, 9, 1, {3, 3}, {.padding = {1, 1}}},                    /* the same with a border */
    {1, 64, 13, 4, 4, {4, 4}, {.stride = {1, 1}, PAD1}},   /* rows of weights a page apart, */
    {1, 64, 12, 64, 64, {4, 4}, {.stride = {2, 2}, PAD1}}, /* not packed and packed */
    {1, 3, 25, 65, 64, {3, 3}, {PAD1}},                    /* packed weights, */
    {2, 6, 14, 64, 33, {2, 2}, {.groups = 2}},             /* in groups */
    {1, 2, 3, 3, 140, {1, 2}, {.stride = {1, 65}}},        /* a stride beyond 64 */
    {1, 2, 3, 140, 3, {2, 1}, {.stride = {65, 1}}},
    {1, 2, 3, 9, 64, {3, 3}, {.stride = {2, 2}, .dilation = {2, 2}}}, /* a phase without taps */
    {3, 40, 3, 40, 40, {3, 3}, {PAD1}},                               /* rounds of one image, */
    {2, 20, 3, 89, 90, {3, 2}, {.stride = {2, 2}, PAD1}},             /* of half an image */
    {2, 3, 20, 89, 90, {3, 2}, {.stride = {2, 2}, PAD1}},
    {14, 29, 35, 5, 3, {3, 3}, {PAD1}}, /* images as lanes: 14 of 16, */
    {16, 30, 36, 4, 4, {3, 3}, {PAD1}}, /* tiles of 11, 12 and 13 rows, */
    {28, 47, 61, 5, 7, {3, 2}, {.stride = {2, 3}, .padding = {1, 0}}}, /* 28 of 32, */
    {32, 65, 100, 4, 4, {2, 2}, {PAD1}},                               /* more rows than an item, */
    {32, 29, 30, 3, 3, {3, 3}, {PAD1}},                                /* exactly 32, */
    {33, 29, 30, 4, 4, {3, 3}, {PAD1}}, /* 33, too few for two rounds, */
    {62,
     60,
     58,
     9,
     8,
     {3, 3},
     {.stride = {3, 2}, .padding = {2, 3}, .dilation = {2, 3}, .groups = 2}},
    {32, 260, 257, 4, 5, {1, 1}, {.stride = {2, 2}}}, /* rows and columns that no result reads */
    {32, 16, 17, 2, 17, {1, 17}, {.padding = {0, 8}}},
    {9, 40, 2, 20, 21, {1, 1}, {.stride = {2, 2}}}, /* the same in rounds of images, of rows, */
    {1, 300, 2, 31, 33, {1, 1}, {.stride = {2, 2}}},
    {2, 5, 3, 8, 9, {2, 1}, {.stride = {2, 2}, .padding = {1, 0}}},    /* of columns alone */
    {2, 13, 14, 9, 33, {1, 1}, {.stride = {2, 2}}},                    /* below each row read, */
    {2, 3, 5, 10, 32, {1, 1}, {.stride = {2, 2}, .padding = {1, 1}}},  /* and above the first, */
    {2, 3, 5, 12, 35, {1, 2}, {.stride = {3, 2}, .padding = {1, 0}}},  /* two of them, */
    {1, 40, 3, 49, 66, {2, 1}, {.stride = {4, 2}, .padding = {2, 0}}}, /* in rounds of rows, */
    {1, 2, 3, 1, 9, {2, 1}, {.stride = {2, 2}, .padding = {1, 0}, .dilation = {2, 1}}}, /* or all */
    {1, 2, 3, 140, 9, {1, 1}, {.stride = {65, 2}}},
    {2, 4, 20, 16, 16, {1, 1}, {.groups = 1}},    /* channels a kilobyte apart: copied, */
    {1, 3, 5, 16, 32, {1, 1}, {.groups = 1}},     /* two vectors a row, */
    {1, 3, 5, 6, 64, {1, 1}, {.stride = {2, 2}}}, /* every second column, */
    {2, 3, 5, 7, 31, {1, 1}, {.stride = {2, 2}}}, /* and the last one alone */
    {1, 3, 5, 6, 30, {1, 1}, {.stride = {2, 2}, PAD1}},
    {2, 5, 130, 24, 24, {1, 1}, {.groups = 1}}, /* three panels share blocks of pixels, */
    {3, 10, 260, 17, 9, {1, 1}, {.stride = {2, 2}, .groups = 2}}, /* in groups */
};

typedef struct numbers {
    float *y, *dx, *dw;
    size_t counts[3];
} numbers;

static float *take(fv_ctx *ctx, const fv_tensor *t, size_t *count)
{
    *count = (size_t)fv_tensor_count(t);
    return tensor_floats(ctx, t);
}

/* Every seventh element of x is not finite, a zero with a sign or below the normal numbers. */
static fv_tensor *special_images(fv_ctx *ctx, const shape *s)
{
    static const float specials[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-40f};
    static float x[4096];
    const int64_t count = s->batch * s->in * s->h * s->w;
    CHECK(count <= 4096);
    for (int64_t i = 0; i < count; i++)
        x[i] = i % 7 == 3 ? specials[i / 7 % 5] : (float)(i % 11) - 5;
    return fv_from_host(ctx, FV_F32, 4, (int64_t[]){s->batch, s->in, s->h, s->w}, x);
}

static numbers compute(fv_ctx *ctx, const shape *s, bool transposed, bool special)
{
    numbers n = {NULL, NULL, NULL, {0}};
    const int64_t groups = s->options.groups ? s->options.groups : 1;
    const int64_t rows = transposed ? s->in : s->out, cols = (transposed ? s->out : s->in) / groups;
    fv_scope_begin(ctx);
    fv_tensor *x = special
                       ? special_images(ctx, s)
                       : tensor_random(ctx, 1, 4, (int)s->batch, (int)s->in, (int)s->h, (int)s->w);
    fv_leaf(ctx, x);
    fv_tensor *w = fv_leaf(
        ctx, tensor_random(ctx, 2, 4, (int)rows, (int)cols, (int)s->window[0], (int)s->window[1]));
    fv_tensor *b = tensor_random(ctx, 3, 1, (int)s->out);
    fv_tensor *y = (transposed ? fv_conv_transpose2d : fv_conv2d)(ctx, x, w, b, &s->options);
    n.y = take(ctx, y, &n.counts[0]);
    /* Twice, so that the second gradient of the weight is added to the first. */
    for (int i = 0; i < 2; i++) {
        if (i) y = (transposed ? fv_conv_transpose2d : fv_conv2d)(ctx, x, w, b, &s->options);
        fv_tensor *g = fv_sin(ctx, fv_scale(ctx, fv_detach(ctx, y), 1 + i));
        CHECK_OK(ctx, fv_backward_from(ctx, y, g));
    }
    n.dx = take(ctx, fv_grad(ctx, x), &n.counts[1]);
    n.dw = take(ctx, fv_grad(ctx, w), &n.counts[2]);
    fv_scope_end(ctx);
    return n;
}

static void numbers_free(numbers *n)
{
    free(n->y);
    free(n->dx);
    free(n->dw);
}

/* Equal bits; the bits of a NaN are the compiler's. */
static void compare(const shape *s, const char *what, fv_ctx *ctx, const float *a, const float *b,
                    size_t count)
{
    if (memcmp(a, b, count * sizeof *a) == 0) return;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(a + i, b + i, sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
        test_failed(__FILE__, __LINE__,
                    "%s of %d images [%d, %d, %d], %d outputs, window %d x %d, differs at %zu on "
                    "%s with %d threads",
                    what, (int)s->batch, (int)s->in, (int)s->h, (int)s->w, (int)s->out,
                    (int)s->window[0], (int)s->window[1], i, fv_simd_name(fv_ctx_simd(ctx)),
                    fv_ctx_threads(ctx));
        return;
    }
}

static void check_shape(fv_ctx *plain, const shape *s, bool transposed, bool special)
{
    numbers expected = compute(plain, s, transposed, special);
    for (int level = FV_SIMD_SCALAR + 1; level <= (int)fv_simd_detect(); level++)
        for (int threads = 1; threads <= 4; threads += 3) {
            fv_ctx *ctx = op_context((fv_simd)level, threads, FV_DEVICE_CPU);
            numbers got = compute(ctx, s, transposed, special);
            compare(s, "y", ctx, got.y, expected.y, got.counts[0]);
            compare(s, "dx", ctx, got.dx, expected.dx, got.counts[1]);
            compare(s, "dw", ctx, got.dw, expected.dw, got.counts[2]);
            numbers_free(&got);
            fv_ctx_destroy(&ctx);
        }
    numbers_free(&expected);
}

static void on_every_level(bool transposed)
{
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(plain, &shapes[i], transposed, false);
    fv_ctx_destroy(&plain);
}

static void convolution(void) { on_every_level(false); }
static void transposed_convolution(void) { on_every_level(true); }

/* Every width of a row of results around those of pieces, with and without stride. */
static void every_width(void)
{
    static const int widths[] = {1,  2,  3,  4,  5,  7,  8,  9,  11, 12,
                                 13, 15, 16, 17, 24, 31, 32, 33, 48, 65};
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int64_t stride = 1; stride <= 3; stride++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const shape s = {2, 2, 7, 3, widths[i], {3, 3}, {.stride = {1, stride}, PAD1}};
                check_shape(plain, &s, transposed, false);
            }
    fv_ctx_destroy(&plain);
}

/* Every number of rows of a tile, for each number of pieces, in one and in two vectors. */
static void every_number_of_rows(void)
{
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int64_t rows = 1; rows <= 13; rows++)
        for (int64_t width = 4; width <= 16; width *= 2)
            for (int64_t height = 16 / width; height <= 48 / width; height += 32 / width) {
                const shape s = {1, 3, rows, height, width, {1, 3}, {.padding = {0, 1}}};
                check_shape(plain, &s, false, false);
                check_shape(plain, &s, true, false);
            }
    fv_ctx_destroy(&plain);
}

/* A number that is not finite reaches exactly the results whose windows contain it. */
static void special_values(void)
{
    static const shape odd[] = {
        {2, 3, 5, 9, 17, {3, 3}, {PAD1}},
        {1, 3, 5, 9, 16, {3, 2}, {.stride = {2, 2}, PAD1}},
        {2, 2, 13, 4, 4, {3, 3}, {.padding = {2, 2}}},
        {16, 30, 29, 2, 2, {3, 3}, {PAD1}},
        {32, 29, 30, 2, 2, {3, 3}, {PAD1}},
    };
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        check_shape(plain, &odd[i], false, true);
        check_shape(plain, &odd[i], true, true);
    }
    fv_ctx_destroy(&plain);
}

/* A border that would need gigabytes of copied zeros is left to the reference kernel. If the taps
 * are a stride apart, only they are copied. */
static void wide_borders_need_no_memory(void)
{
    enum { WIDE = 1 << 20 };
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int64_t stride = WIDE - 1; stride <= WIDE; stride++) {
        const shape s = {1,
                         1,
                         1,
                         2,
                         2,
                         {2, 2},
                         {.padding = {WIDE, WIDE},
                          .dilation = {2 * WIDE, 2 * WIDE},
                          .stride = {stride, stride}}};
        check_shape(plain, &s, false, false);
    }
    fv_ctx_destroy(&plain);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(convolution);
    RUN(transposed_convolution);
    RUN(every_width);
    RUN(every_number_of_rows);
    RUN(special_values);
    RUN(wide_borders_need_no_memory);
    return TEST_END();
}

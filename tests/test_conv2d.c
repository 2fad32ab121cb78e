/*
 * Convolutions of images on every SIMD level and several numbers of threads: results and gradients
 * have the bits of the reference kernels, for sizes around those of tiles, panels and blocks.
 */
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
    {3, 4, 63, 5, 5, {2, 3}, {PAD1}}, /* a panel of outputs - 1; panels over images */
    {3, 4, 64, 4, 4, {4, 4}, {.stride = {2, 2}, PAD1}}, /* exactly a panel */
    {2, 3, 65, 6, 5, {3, 2}, {.stride = {2, 3}}},       /* a panel + 1, no border */
    {1, 57, 3, 3, 4, {3, 3}, {PAD1}},                   /* 513 taps: a block + 1 */
    {2, 3, 200, 3, 3, {1, 1}, {.stride = {1, 1}}},      /* more rows than a work item has */
    {2, 4, 6, 9, 8, {3, 3}, {.stride = {3, 2}, .padding = {2, 3}, .dilation = {2, 3}, .groups = 2}},
    {5, 2, 3, 20, 30, {3, 3}, {PAD1}},                   /* several blocks of pixels */
    {2, 2, 3, 3, 3, {1, 1}, {.stride = {4, 3}}},         /* pixels that nothing reads */
    {1, 8, 8, 1, 700, {1, 3}, {.padding = {0, 1}}},      /* a row longer than a block */
    {1, 3, 5, 40, 37, {3, 3}, {.stride = {2, 2}, PAD1}}, /* every second column, over vectors */
    {14, 3, 11, 5, 3, {3, 3}, {PAD1}}, /* images as lanes: 14 of 16, tiles of 11, 12 and 13 rows, */
    {16, 5, 12, 4, 4, {3, 3}, {PAD1}}, /* one block of pixels, */
    {28, 4, 13, 5, 7, {3, 2}, {.stride = {2, 3}, .padding = {1, 0}}}, /* 28 of 32, */
    {32, 2, 100, 4, 4, {2, 2}, {PAD1}},                               /* more rows than an item, */
    {33, 2, 3, 4, 4, {3, 3}, {PAD1}}, /* 33 images, too few for two rounds of 32, */
    {62,
     4,
     6,
     9,
     8,
     {3, 3},
     {.stride = {3, 2}, .padding = {2, 3}, .dilation = {2, 3}, .groups = 2}},
    {32, 2, 3, 8, 9, {1, 1}, {.stride = {2, 2}}}, /* rows and columns that no result reads */
    {32, 2, 3, 3, 9, {1, 2}, {.stride = {1, 8}}},
    {32, 2, 3, 2, 17, {1, 17}, {.padding = {0, 8}}},
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

static numbers compute(fv_ctx *ctx, const shape *s, bool transposed)
{
    numbers n = {NULL, NULL, NULL, {0}};
    const int64_t groups = s->options.groups ? s->options.groups : 1;
    const int64_t rows = transposed ? s->in : s->out, cols = (transposed ? s->out : s->in) / groups;
    fv_scope_begin(ctx);
    fv_tensor *x =
        fv_leaf(ctx, tensor_random(ctx, 1, 4, (int)s->batch, (int)s->in, (int)s->h, (int)s->w));
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

static void compare(const shape *s, const char *what, fv_ctx *ctx, const float *a, const float *b,
                    size_t count)
{
    if (memcmp(a, b, count * sizeof *a) == 0) return;
    test_failed(__FILE__, __LINE__, "%s of shape %d differs on %s with %d threads", what,
                (int)(s - shapes), fv_simd_name(fv_ctx_simd(ctx)), fv_ctx_threads(ctx));
}

static void on_every_level(bool transposed)
{
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        numbers expected = compute(plain, s, transposed);
        for (int level = FV_SIMD_SCALAR + 1; level <= (int)fv_simd_detect(); level++)
            for (int threads = 1; threads <= 4; threads += 3) {
                fv_ctx *ctx = op_context((fv_simd)level, threads, FV_DEVICE_CPU);
                numbers got = compute(ctx, s, transposed);
                compare(s, "y", ctx, got.y, expected.y, got.counts[0]);
                compare(s, "dx", ctx, got.dx, expected.dx, got.counts[1]);
                compare(s, "dw", ctx, got.dw, expected.dw, got.counts[2]);
                numbers_free(&got);
                fv_ctx_destroy(&ctx);
            }
        numbers_free(&expected);
    }
    fv_ctx_destroy(&plain);
}

static void convolution(void) { on_every_level(false); }
static void transposed_convolution(void) { on_every_level(true); }

/* A border that would need gigabytes of copied zeros is left to the reference kernel. */
static void wide_borders_need_no_memory(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    fv_tensor *x = fv_leaf(ctx, tensor_random(ctx, 1, 4, 1, 1, 2, 2));
    fv_tensor *w = fv_leaf(ctx, tensor_random(ctx, 2, 4, 1, 1, 2, 2));
    const fv_conv2d_options far = {.padding = {1 << 20, 1 << 20},
                                   .dilation = {1 << 21, 1 << 21},
                                   .stride = {1 << 20, 1 << 20}};
    fv_tensor *y = fv_conv2d(ctx, x, w, NULL, &far);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false)));
    CHECK(fv_grad(ctx, w) != NULL);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(convolution);
    RUN(transposed_convolution);
    RUN(wide_borders_need_no_memory);
    return TEST_END();
}

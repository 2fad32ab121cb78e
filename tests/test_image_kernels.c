/*
 * Pooling, resizing and batch norm of images on every SIMD level: results and gradients have the
 * bits of the reference kernels, for widths around those of vectors, with ties, NaN, infinities and
 * zeros of both signs.
 */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/image.h"
#include "support/opcase.h"
#include "support/tensors.h"

typedef enum kind { MAX, AVERAGE, NEAREST, NORM, KINDS } kind;

static const char *const names[KINDS] = {"max_pool2d", "avg_pool2d", "resize_nearest",
                                         "batch_norm"};

enum { PLANES = 3, MOST = 2 * PLANES * 5 * 70 };

/* Few different numbers, so that windows have ties; some are not finite. Infinities only where
 * nothing is added: the bits of a NaN that a sum makes are the compiler's. */
static void fill(float *x, int count, kind what)
{
    uint32_t state = 7;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t pick = state >> 24;
        x[i] = (float)(pick % 5) - 2;
        if (pick % 16 == 3) x[i] = -0.0f;
        if (what != NORM && pick % 32 == 5) x[i] = NAN;
        if (what == MAX && pick % 64 == 9) x[i] = pick % 128 == 9 ? INFINITY : -INFINITY;
        if (what == NORM) x[i] += 0.1f * (float)(pick % 7);
    }
}

typedef struct numbers {
    float *y, *dx;
    size_t y_count, dx_count;
} numbers;

static fv_tensor *apply(fv_ctx *ctx, kind what, fv_tensor *x, int h, int w)
{
    const fv_pool2d_options two = {.window = {2, 2}};
    if (what == MAX) return fv_max_pool2d(ctx, x, &two);
    if (what == AVERAGE) return fv_avg_pool2d(ctx, x, &two);
    if (what == NEAREST) return fv_resize_nearest(ctx, x, 2 * h, 2 * w);
    return fv_batch_norm(ctx, x, tensor_random(ctx, 1, 1, PLANES), tensor_random(ctx, 2, 1, PLANES),
                         1e-5, NULL, NULL);
}

static numbers compute(fv_ctx *ctx, kind what, int h, int w)
{
    static float values[MOST], grads[4 * MOST];
    numbers n = {NULL, NULL, 0, 0};
    fill(values, 2 * PLANES * h * w, what);
    fv_scope_begin(ctx);
    const int64_t shape[4] = {2, PLANES, h, w};
    fv_tensor *x = fv_leaf(ctx, fv_from_host(ctx, FV_F32, 4, shape, values));
    fv_tensor *y = apply(ctx, what, x, h, w);
    n.y_count = (size_t)fv_tensor_count(y);
    n.dx_count = (size_t)fv_tensor_count(x);
    n.y = tensor_floats(ctx, y);
    fill(grads, (int)n.y_count, what);
    fv_tensor *g = fv_from_host(ctx, FV_F32, 4, fv_tensor_shape(y), grads);
    CHECK_OK(ctx, fv_backward_from(ctx, y, g));
    n.dx = tensor_floats(ctx, fv_grad(ctx, x));
    fv_scope_end(ctx);
    return n;
}

static void compare(kind what, int h, int w, fv_ctx *ctx, const numbers *expected)
{
    numbers got = compute(ctx, what, h, w);
    if (memcmp(got.y, expected->y, got.y_count * sizeof(float)) != 0 ||
        memcmp(got.dx, expected->dx, got.dx_count * sizeof(float)) != 0)
        test_failed(__FILE__, __LINE__, "%s of %d x %d differs on %s", names[what], h, w,
                    fv_simd_name(fv_ctx_simd(ctx)));
    free(got.y);
    free(got.dx);
}

static void check_sizes(kind what)
{
    static const int widths[] = {2, 3, 15, 16, 17, 30, 31, 32, 33, 34, 35, 65};
    fv_ctx *plain = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int level = FV_SIMD_SCALAR + 1; level <= (int)fv_simd_detect(); level++) {
        fv_ctx *ctx = op_context((fv_simd)level, 2, FV_DEVICE_CPU);
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (int h = 2; h <= 5; h++) {
                numbers expected = compute(plain, what, h, widths[i]);
                compare(what, h, widths[i], ctx, &expected);
                free(expected.y);
                free(expected.dx);
            }
        fv_ctx_destroy(&ctx);
    }
    fv_ctx_destroy(&plain);
}

static void maximum(void) { check_sizes(MAX); }
static void average(void) { check_sizes(AVERAGE); }
static void nearest(void) { check_sizes(NEAREST); }
static void batch_norm(void) { check_sizes(NORM); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(maximum);
    RUN(average);
    RUN(nearest);
    RUN(batch_norm);
    return TEST_END();
}

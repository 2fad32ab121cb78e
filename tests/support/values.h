/*
 * Tensors of any dtype, made from and compared with plain lists of doubles.
 *
 *     fv_ctx *ctx = values_begin();
 *     fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(2, 2), 1, 2, 3, 4);
 *     CHECK_TENSOR(ctx, fv_neg(ctx, x), FV_F32, SHAPE(2, 2), -1, -2, -3, -4);
 *     CHECK_REFUSED(ctx, fv_reshape(ctx, x, 1, (int64_t[]){3}), FV_ERR_SHAPE, "[2,2]");
 *     values_end(&ctx);
 *
 * CHECK_TENSOR expects equal values (any NaN equals any NaN), CHECK_NEAR_TENSOR a relative and
 * absolute error of at most 2e-6 (f32) or 1e-12 (f64).
 */
#ifndef FV_TESTS_VALUES_H
#define FV_TESTS_VALUES_H

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/test.h"

/* A context on the device chosen last; the CPU by default. */
fv_ctx *values_begin(void);
void values_device(fv_device_kind device);
/* Fails the test if an error was left behind. */
void values_end(fv_ctx **ctx);

typedef struct test_shape {
    int rank;
    int64_t size[FV_MAX_RANK];
} test_shape;

#define TEST_COUNT_OF(type, ...) ((int)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define SHAPE(...)               ((test_shape){TEST_COUNT_OF(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define SCALAR                   ((test_shape){0, {0}})

fv_tensor *values_of(fv_ctx *ctx, fv_dtype dtype, test_shape shape, int n, const double *values);
/* 0, 1, 2, ... */
fv_tensor *values_counting(fv_ctx *ctx, fv_dtype dtype, test_shape shape);
fv_tensor *values_none(fv_ctx *ctx, fv_dtype dtype, test_shape shape); /* for sizes with a zero */

void values_check(const char *file, int line, fv_ctx *ctx, const fv_tensor *t, fv_dtype dtype,
                  test_shape shape, int n, const double *values, bool exact);
void values_check_refused(const char *file, int line, fv_ctx *ctx, const fv_tensor *t,
                          fv_status status, const char *text);
/* Up to `room` values of t as doubles; returns how many there are. */
int64_t values_read(fv_ctx *ctx, const fv_tensor *t, double *out, int64_t room);

#define TEST_LIST(...)                                                                             \
    TEST_COUNT_OF(double, __VA_ARGS__), (const double[]) { __VA_ARGS__ }
#define TENSOR(ctx, dtype, shape, ...) values_of(ctx, dtype, shape, TEST_LIST(__VA_ARGS__))
#define CHECK_TENSOR(ctx, t, dtype, shape, ...)                                                    \
    values_check(__FILE__, __LINE__, ctx, t, dtype, shape, TEST_LIST(__VA_ARGS__), true)
#define CHECK_NEAR_TENSOR(ctx, t, dtype, shape, ...)                                               \
    values_check(__FILE__, __LINE__, ctx, t, dtype, shape, TEST_LIST(__VA_ARGS__), false)
#define CHECK_EMPTY(ctx, t, dtype, shape)                                                          \
    values_check(__FILE__, __LINE__, ctx, t, dtype, shape, 0, NULL, true)
/* The op must fail with this status and a message that contains the text. Clears the error. */
#define CHECK_REFUSED(ctx, t, status, text)                                                        \
    values_check_refused(__FILE__, __LINE__, ctx, t, status, text)

/* Runs backward from y with a gradient of ones. */
void values_backward(fv_ctx *ctx, fv_tensor *y);

#endif

/*
 * Small helpers for tests that compare values: tensors of f32 from literals or random numbers, and
 * reading them back.
 *
 *     fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3, 4}, 2, 2, 2);   // data, rank, sizes ...
 *     CHECK_VALUES(ctx, y, 1e-6, 3, 4);                                // what y must hold
 */
#ifndef FV_TESTS_TENSORS_H
#define FV_TESTS_TENSORS_H

#include "fovea/ops.h"
#include "fovea/optim.h"
#include "support/test.h"

fv_tensor *tensor_of(fv_ctx *ctx, const float *data, int rank, ...); /* sizes: int each */
fv_tensor *indices_of(fv_ctx *ctx, const int64_t *data, int64_t n);
/* Normal numbers, a function of `key` alone. */
fv_tensor *tensor_random(fv_ctx *ctx, uint64_t key, int rank, ...);

/* Row-major copies; free() them. f32 and i64 tensors. */
float *tensor_floats(fv_ctx *ctx, const fv_tensor *t);
int64_t *tensor_indices(fv_ctx *ctx, const fv_tensor *t);

void tensor_expect(fv_ctx *ctx, const fv_tensor *t, double tolerance, const double *expected,
                   int64_t n, const char *file, int line);
#define CHECK_VALUES(ctx, t, tolerance, ...)                                                       \
    tensor_expect(ctx, t, tolerance, (double[]){__VA_ARGS__},                                      \
                  (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), __FILE__, __LINE__)

/* Same shape and bits. */
bool tensor_same(fv_ctx *ctx, const fv_tensor *a, const fv_tensor *b);
/* max |a - b|, infinite where they cannot be compared. */
double tensor_distance(fv_ctx *ctx, const fv_tensor *a, const fv_tensor *b);

/* Clears the sticky error, which must be `status` with a message that contains `text`. */
void tensor_expect_error(fv_ctx *ctx, fv_status status, const char *text, const char *file,
                         int line);
#define CHECK_ERROR(ctx, status, text) tensor_expect_error(ctx, status, text, __FILE__, __LINE__)

/* Whether every tensor of `a` is in `b` with the same bits, else the test fails; *more: how many
 * only `b` has. */
bool params_part_of(fv_ctx *ctx, fv_params *a, fv_params *b, int *more);

#endif

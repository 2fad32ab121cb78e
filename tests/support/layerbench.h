/*
 * A context and a parameter set for tests of layers.
 *
 *     bench b = bench_new();
 *     CHECK_OK(b.ctx, fv_mha_create(b.params, "m", &cfg, &heads));
 *     bench_free(&b);                                   // fails the test if an error was left
 */
#ifndef FV_TESTS_LAYERBENCH_H
#define FV_TESTS_LAYERBENCH_H

#include "fovea/layers.h"
#include "support/opcase.h"

typedef struct bench {
    fv_ctx *ctx;
    fv_params *params;
} bench;

bench bench_new(void);
void bench_free(bench *b);
/* The parameter of that name; the test fails if there is none. */
fv_tensor *bench_parameter(const bench *b, const char *name);

#endif

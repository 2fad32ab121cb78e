/*
 * Runs one case of an op descriptor and brings everything back to the host: results and the
 * gradient of every input, for fixed random output weights. The proofs are comparisons of such
 * runs: against central differences, between levels, threads and devices.
 *
 *     op_run_options options = {.dtype = FV_F32};
 *     op_result r;
 *     if (op_case_run(ctx, desc, &desc->cases[0], &options, &r)) { ... op_result_free(&r); }
 */
#ifndef FV_TESTS_OPCASE_H
#define FV_TESTS_OPCASE_H

#include "autograd/tape.h"
#include "support/test.h"

typedef enum op_layout { OP_CONTIGUOUS, OP_STRIDED, OP_TRANSPOSED } op_layout;

typedef struct op_run_options {
    fv_dtype dtype;
    op_layout layout;
    int stretch;   /* multiply every size by this; 0 and 1: as written */
    bool specials; /* sprinkle inf, NaN, zeros and denormals into the inputs */
    bool no_grad;  /* results only */
    bool quiet;    /* failures are expected (fault tests): report none */
    /* dtype BF16: inputs are bf16 where the op takes them (all of an op that has no bf16 form).
     * rounded, with dtype F32: the same numbers as floats. keep_f32: bit i, not input i. */
    bool rounded;
    unsigned keep_f32;
    /* Perturbation for differences: element `at` of input `input` gets `delta` added. */
    int input;
    int64_t at;
    double delta;
} op_run_options;

typedef struct op_array {
    bool present;
    fv_dtype dtype;
    int64_t count;
    size_t bytes;
    void *data;
} op_array;

typedef struct op_result {
    int n_out, n_in;
    bool failed; /* a call after the op itself failed: reading a result, or backward */
    op_array out[FV_OP_MAX_OUT];
    op_array grad[FV_CASE_INPUTS];
} op_result;

/* Returns false if the op refused (a stretched case that its params do not allow); the error is
 * cleared. */
bool op_case_run(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c,
                 const op_run_options *options, op_result *out);
void op_result_free(op_result *r);

/* True if input i of the case is floating-point and differentiated. */
bool op_case_differentiates(const fv_op_case *c, int i);
int64_t op_case_count(const fv_op_case *c, int i, int stretch);

/* The weighted sum of all float results, in double: the function whose gradient is checked. */
double op_result_value(const op_result *r);

/* Whether input i is bf16 in a run of that dtype. */
bool op_case_rounds(const fv_op_desc *desc, int i, const op_run_options *o);

/* Element as double; f32, f64 and bf16 arrays. */
double op_array_get(const op_array *a, int64_t i);

/* Same bits, any NaN equal to any NaN. Index of the first difference, or -1. */
int64_t op_array_differs(const op_array *a, const op_array *b);

/* A context for tests; fails the running test and returns NULL if it cannot be created. */
fv_ctx *op_context(fv_simd level, int threads, fv_device_kind device);

#endif

/*
 * The proof of one case's gradients: central differences in float64, and their comparison with
 * backward's gradients, signed and element by element.
 *
 *     proof_numbers expected = proof_differences(f64, desc, c);
 *     proof_agrees(f64, desc, c, FV_F64, OP_CONTIGUOUS, &expected, true); // else the test fails
 *     proof_numbers_free(&expected);
 */
#ifndef FV_TESTS_PROOF_H
#define FV_TESTS_PROOF_H

#include "support/opcase.h"

typedef struct proof_numbers {
    double *grad[FV_CASE_INPUTS];
    long elements;
} proof_numbers;

proof_numbers proof_differences(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c);
void proof_numbers_free(proof_numbers *n);

/* Runs the case once and compares all gradients; with `report`, failures fail the test. Returns
 * whether everything agreed: to 1e-7 + 1e-6 |g| in double, 1e-5 max |g| in float. */
bool proof_agrees(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c, fv_dtype dtype,
                  op_layout layout, const proof_numbers *expected, bool report);

#endif

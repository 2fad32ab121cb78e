/*
 * The quick check of `fovea doctor`: is the arithmetic on this machine correct? Every
 * kernel level must give the scalar level's bits (docs/architecture.md, "Bits").
 */
#ifndef FOVEA_CLI_SELFTEST_H
#define FOVEA_CLI_SELFTEST_H

#include "fovea/context.h"

typedef struct selftest_result {
    bool ok;
    char detail[160]; /* what was compared, or what went wrong */
} selftest_result;

/* Matrix products with odd sizes, transposed operands and a fused epilogue: level against scalar.
 */
void selftest_gemm(fv_simd level, selftest_result *out);

/* A two-layer network: loss and gradients at a level against scalar, and one gradient against a
 * difference quotient. */
void selftest_training(fv_simd level, selftest_result *out);

#endif

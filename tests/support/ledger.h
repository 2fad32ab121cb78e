/*
 * The cost of a recorded computation, read from the tape: the multiply-adds of its products by
 * their actual shapes, and the longest chain of calls that depend on each other.
 *
 *     fv_tensor *y = layer(ctx, x);                 // with x a leaf
 *     ledger cost = ledger_read(ctx);
 *     CHECK_EQ(cost.products, 2 * n * n * d);
 */
#ifndef FV_TESTS_LEDGER_H
#define FV_TESTS_LEDGER_H

#include "autograd/tape.h"

typedef struct ledger {
    int64_t products; /* multiply-adds of matmul, linear, conv1d and attention */
    int64_t tanhs;    /* evaluations of tanh: ops and additive scores */
    int64_t chain;    /* longest chain of products that depend on each other */
} ledger;

ledger ledger_read(fv_ctx *ctx);

#endif

/*
 * c = a == b as u8 0 or 1, broadcast. NaN equals nothing, itself included. A step function: no
 * gradient.
 */
#include "ops/op.h"

fv_tensor *fv_eq(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_EQ, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run) { fv_compare_forward(run, FV_COMPARE_EQ); }

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

const fv_op_desc fv_op_eq = {
    .id = FV_OP_EQ,
    .name = "eq",
    .formula = "c = a == b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_compare_infer,
    .forward = forward,
    .no_backward = "a comparison is a step function",
    FV_CASES(cases),
};

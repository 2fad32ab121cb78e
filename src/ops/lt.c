/*
 * c = a < b as u8 0 or 1, broadcast. False where either is NaN. A step function: no gradient.
 */
#include "ops/op.h"

fv_tensor *fv_lt(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_LT, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run) { fv_compare_forward(run, FV_COMPARE_LT); }

static const fv_op_case cases[] = {
    {.name = "3x4", .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3, 4)}},
    {.name = "column", .n_in = 2, .in = {FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "scalar", .n_in = 2, .in = {FV_IN0(NORMAL), FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 2, .in = {FV_IN(NORMAL, 0, 4), FV_IN(NORMAL, 4)}},
};

const fv_op_desc fv_op_lt = {
    .id = FV_OP_LT,
    .name = "lt",
    .formula = "c = a < b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_compare_infer,
    .forward = forward,
    .no_backward = "a comparison is a step function",
    FV_CASES(cases),
};

/*
 * c = a > b as u8 0 or 1, broadcast. False where either is NaN. A step function: no gradient.
 */
#include "ops/op.h"

fv_tensor *fv_gt(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_GT, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run) { fv_compare_forward(run, FV_COMPARE_GT); }

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

const fv_op_desc fv_op_gt = {
    .id = FV_OP_GT,
    .name = "gt",
    .formula = "c = a > b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_compare_infer,
    .forward = forward,
    .no_backward = "a comparison is a step function",
    FV_CASES(cases),
};

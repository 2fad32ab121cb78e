/*
 * y = sqrt(x);  y^2 = x, so 2 y dy = dx and dx = g / (2 y): infinite at 0.
 */
#include "ops/op.h"

fv_tensor *fv_sqrt(fv_ctx *ctx, fv_tensor *x) { return fv_op_apply(ctx, FV_OP_SQRT, 1, &x, NULL); }

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_SQRT, false, true); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_SQRT, false, true); }

static const fv_op_case cases[] = {
    {.name = "3x5", .n_in = 1, .in = {FV_IN(POSITIVE, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(POSITIVE)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(POSITIVE, 2, 0)}},
};

const fv_op_desc fv_op_sqrt = {
    .id = FV_OP_SQRT,
    .name = "sqrt",
    .formula = "y = sqrt(x)",
    .min_in = 1,
    .max_in = 1,
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

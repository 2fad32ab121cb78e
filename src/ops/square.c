/*
 * y = x^2;  dx = 2 g x.
 */
#include "ops/op.h"

fv_tensor *fv_square(fv_ctx *ctx, fv_tensor *x)
{
    return fv_op_apply(ctx, FV_OP_SQUARE, 1, &x, NULL);
}

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_SQUARE, true, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_SQUARE, true, false); }

static const fv_op_case cases[] = {
    {.name = "3x5", .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_square = {
    .id = FV_OP_SQUARE,
    .name = "square",
    .formula = "y = x^2",
    .min_in = 1,
    .max_in = 1,
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

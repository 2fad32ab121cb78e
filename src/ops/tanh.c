/*
 * y = tanh(x);  dx = g (1 - y^2).
 */
#include "ops/op.h"

fv_tensor *fv_tanh(fv_ctx *ctx, fv_tensor *x) { return fv_op_apply(ctx, FV_OP_TANH, 1, &x, NULL); }

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_TANH, false, true); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_TANH, false, true); }

static const fv_op_case cases[] = {
    {.name = "3x5", .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_tanh = {
    .id = FV_OP_TANH,
    .name = "tanh",
    .formula = "y = tanh(x)",
    .min_in = 1,
    .max_in = 1,
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

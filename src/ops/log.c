/*
 * y = ln x;  dx = g / x.  Zero gives -inf, a negative number NaN.
 */
#include "ops/op.h"

fv_tensor *fv_log(fv_ctx *ctx, fv_tensor *x) { return fv_op_apply(ctx, FV_OP_LOG, 1, &x, NULL); }

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_LOG, true, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_LOG, true, false); }

static const fv_op_case cases[] = {
    {.name = "3x5", .n_in = 1, .in = {FV_IN(POSITIVE, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(POSITIVE)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(POSITIVE, 2, 0)}},
};

const fv_op_desc fv_op_log = {
    .id = FV_OP_LOG,
    .name = "log",
    .formula = "y = ln(x)",
    .min_in = 1,
    .max_in = 1,
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

/*
 * y = x^p for a constant p, as C pow: a negative x with a fractional p gives NaN.
 *   dx = g p x^(p-1), 0 for p = 0.
 */
#include "ops/op.h"

fv_tensor *fv_pow_scalar(fv_ctx *ctx, fv_tensor *x, double exponent)
{
    return fv_op_apply(ctx, FV_OP_POW_SCALAR, 1, &x, &(fv_unary_params){.alpha = exponent});
}

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_POW, true, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_POW, true, false); }

static const fv_unary_params fractional = {.alpha = 2.5};
static const fv_unary_params inverse = {.alpha = -0.5};
static const fv_unary_params cube = {.alpha = 3.0};

static const fv_op_case cases[] = {
    {.name = "5/2", .params = &fractional, .n_in = 1, .in = {FV_IN(POSITIVE, 3, 5)}},
    {.name = "-1/2", .params = &inverse, .n_in = 1, .in = {FV_IN0(POSITIVE)}},
    {.name = "cube", .params = &cube, .n_in = 1, .in = {FV_IN(OFFZERO, 7)}},
    {.name = "empty", .params = &cube, .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_pow_scalar = {
    .id = FV_OP_POW_SCALAR,
    .name = "pow_scalar",
    .formula = "y = x^p",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_unary_params),
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

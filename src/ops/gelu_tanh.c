/*
 * y = x/2 (1 + t),  t = tanh(u),  u = sqrt(2/pi) (x + 0.044715 x^3): close to gelu, without erf.
 *   dx = g ((1 + t)/2 + x/2 (1 - t^2) u'),  u' = sqrt(2/pi) (1 + 3 0.044715 x^2).
 */
#include "ops/op.h"

fv_tensor *fv_gelu_tanh(fv_ctx *ctx, fv_tensor *x)
{
    return fv_op_apply(ctx, FV_OP_GELU_TANH, 1, &x, NULL);
}

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_GELU_TANH, true, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_GELU_TANH, true, false); }

static const fv_op_case cases[] = {
    {.name = "3x5", .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_gelu_tanh = {
    .id = FV_OP_GELU_TANH,
    .name = "gelu_tanh",
    .formula = "y = x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3)))",
    .min_in = 1,
    .max_in = 1,
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

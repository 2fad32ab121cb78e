/*
 * c = a / b, broadcast; IEEE for reals, truncation (and x/0 = 0) for integers.
 *   da = g / b, db = -g a / b^2, each summed over the axes along which its input was repeated.
 */
#include "ops/op.h"

fv_tensor *fv_div(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_DIV, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run)
{
    fv_binary_forward(run, FV_BINARY_DIV);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

static void backward(fv_op_back *back) { fv_binary_backward(back, FV_BINARY_DIV); }

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, OFFZERO)};

const fv_op_desc fv_op_div = {
    .id = FV_OP_DIV,
    .name = "div",
    .formula = "c = a / b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_arithmetic_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

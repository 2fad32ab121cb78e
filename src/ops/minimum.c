/*
 * c = the smaller of a and b, broadcast; NaN if either is NaN.
 *   da = g where a <= b, else 0; db = the rest of g: a tie goes to a. Summed over repeated axes.
 */
#include "ops/op.h"

fv_tensor *fv_minimum(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_MINIMUM, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run)
{
    fv_binary_forward(run, FV_BINARY_MIN);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

static void backward(fv_op_back *back) { fv_binary_backward(back, FV_BINARY_MIN); }

/* Few APART numbers lie within 0.18 of zero, where no OFFZERO number is: no tie within reach. */
static const fv_op_case cases[] = {FV_BROADCAST_CASES(APART, OFFZERO)};

const fv_op_desc fv_op_minimum = {
    .id = FV_OP_MINIMUM,
    .name = "minimum",
    .formula = "c = min(a, b)",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_arithmetic_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

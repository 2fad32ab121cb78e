/*
 * c = a b, broadcast.
 *   da = g b, db = g a, each summed over the axes along which its input was repeated.
 */
#include "ops/op.h"

fv_tensor *fv_mul(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_MUL, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run)
{
    fv_binary_forward(run, FV_BINARY_MUL);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

static void backward(fv_op_back *back) { fv_binary_backward(back, FV_BINARY_MUL); }

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

const fv_op_desc fv_op_mul = {
    .id = FV_OP_MUL,
    .name = "mul",
    .formula = "c = a b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_arithmetic_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

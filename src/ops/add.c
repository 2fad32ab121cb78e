/*
 * c = a + b, broadcast.
 *   da = db = g, each summed over the axes along which its input was repeated; where none was, g
 * itself travels on, without a copy.
 */
#include "ops/op.h"

fv_tensor *fv_add(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_ADD, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run) { fv_binary_forward(run, FV_BINARY_ADD); }

static void backward(fv_op_back *back)
{
    fv_back_send_reduced(back, 0, back->grad[0]);
    fv_back_send_reduced(back, 1, back->grad[0]);
}

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

const fv_op_desc fv_op_add = {
    .id = FV_OP_ADD,
    .name = "add",
    .formula = "c = a + b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_arithmetic_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

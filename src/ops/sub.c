/*
 * c = a - b, broadcast.
 *   da = g, db = -g, each summed over the axes along which its input was repeated.
 */
#include "ops/op.h"

fv_tensor *fv_sub(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_SUB, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run) { fv_binary_forward(run, FV_BINARY_SUB); }

static void backward(fv_op_back *back)
{
    fv_back_send_reduced(back, 0, back->grad[0]);
    if (!fv_back_wants(back, 1)) return;
    fv_tensor *negated = fv_tensor_like(back->ctx, back->grad[0]);
    if (back->ctx->error != FV_OK) return;
    fv_map_args args;
    args.op = FV_UNARY_NEG;
    args.alpha = args.beta = 0.0;
    fv_launch_map(back->ctx, FV_KERNEL_UNARY, negated->dtype, &args, 2,
                  (fv_tensor *[]){negated, back->grad[0]});
    fv_back_send_reduced(back, 1, negated);
}

static const fv_op_case cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

const fv_op_desc fv_op_sub = {
    .id = FV_OP_SUB,
    .name = "sub",
    .formula = "c = a - b",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_arithmetic_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

/*
 * c = a^b, broadcast, as C pow.
 *   da = g b a^(b-1), db = g a^b ln a (0 where a is 0 and b > 0), summed over repeated axes.
 */
#include "ops/op.h"

fv_tensor *fv_pow(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_POW, 2, (fv_tensor *[]){a, b}, NULL);
}

static fv_status infer(fv_op_run *run)
{
    FV_FORWARD(fv_need_real(run, 0)); /* there is no power of integers */
    return fv_binary_infer(run);
}

static void forward(fv_op_run *run)
{
    fv_binary_forward(run, FV_BINARY_POW);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

static void backward(fv_op_back *back) { fv_binary_backward(back, FV_BINARY_POW); }

static const fv_op_case cases[] = {FV_BROADCAST_CASES(POSITIVE, NORMAL)};

const fv_op_desc fv_op_pow = {
    .id = FV_OP_POW,
    .name = "pow",
    .formula = "c = a^b",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

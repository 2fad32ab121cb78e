/*
 * y = ln sum e^x over the axes, shifted by the maximum so that nothing overflows; -inf for nothing.
 *   dx = g e^(x - y): softmax weights; 0 where all of a sum is -inf.
 */
#include "ops/reduce.h"

fv_tensor *fv_logsumexp(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep)
{
    return fv_reduce_apply(ctx, FV_OP_LOGSUMEXP, x, n_axes, axes, keep);
}

static void forward(fv_op_run *run)
{
    fv_reduce_forward(run, FV_REDUCE_LOGSUMEXP, 1.0);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->out[0]);
}

static void backward(fv_op_back *back)
{
    fv_reduce_backward(back, FV_REDUCE_LOGSUMEXP, 1.0, back->saved[0], back->saved[1]);
}

const fv_op_desc fv_op_logsumexp = {
    .id = FV_OP_LOGSUMEXP,
    .name = "logsumexp",
    .formula = "y = ln(sum(exp(x)))",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_reduce_params),
    .infer = fv_reduce_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(fv_reduce_cases),
};

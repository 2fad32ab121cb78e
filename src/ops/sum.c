/*
 * y = the sum of x over the axes (16 lanes, see kernels/kernel.h), 0 for nothing;  dx = g,
 * repeated.
 */
#include "ops/reduce.h"

fv_tensor *fv_sum(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep)
{
    return fv_reduce_apply(ctx, FV_OP_SUM, x, n_axes, axes, keep);
}

static void forward(fv_op_run *run) { fv_reduce_forward(run, FV_REDUCE_SUM, 1.0); }

static void backward(fv_op_back *back) { fv_reduce_backward(back, FV_REDUCE_SUM, 1.0, NULL, NULL); }

const fv_op_desc fv_op_sum = {
    .id = FV_OP_SUM,
    .name = "sum",
    .formula = "y = sum(x)",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_reduce_params),
    .infer = fv_reduce_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(fv_reduce_cases),
};

/*
 * y = sum(x) / n over the axes, NaN for nothing;  dx = g / n, repeated.
 */
#include "ops/reduce.h"

fv_tensor *fv_mean(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep)
{
    return fv_reduce_apply(ctx, FV_OP_MEAN, x, n_axes, axes, keep);
}

/* 1/n, n being the number of elements behind each result. */
static double share(const fv_reduce_params *params, int rank, const int64_t *shape)
{
    return 1.0 / (double)fv_reduce_length(params, rank, shape);
}

static void forward(fv_op_run *run)
{
    const fv_tensor *x = run->in[0];
    fv_reduce_forward(run, FV_REDUCE_SUM, share(run->params, x->rank, x->shape));
}

static void backward(fv_op_back *back)
{
    double alpha = share(back->params, fv_back_rank(back, 0), fv_back_shape(back, 0));
    fv_reduce_backward(back, FV_REDUCE_SUM, alpha, NULL, NULL);
}

const fv_op_desc fv_op_mean = {
    .id = FV_OP_MEAN,
    .name = "mean",
    .formula = "y = sum(x)/n",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_reduce_params),
    .infer = fv_reduce_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(fv_reduce_cases),
};

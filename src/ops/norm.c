/*
 * y = sqrt(sum x^2) over the axes.
 *   y^2 = sum x^2, so y dy = sum x dx and dx = g x / y; 0 where y is 0.
 */
#include "ops/reduce.h"

fv_tensor *fv_norm(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep)
{
    return fv_reduce_apply(ctx, FV_OP_NORM, x, n_axes, axes, keep);
}

static void forward(fv_op_run *run)
{
    fv_reduce_forward(run, FV_REDUCE_NORM, 1.0);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->out[0]);
}

static void backward(fv_op_back *back)
{
    fv_reduce_backward(back, FV_REDUCE_NORM, 1.0, back->saved[0], back->saved[1]);
}

static const fv_reduce_params all = {.n_axes = 0};
static const fv_reduce_params last_kept = {.n_axes = 1, .axes = {-1}, .keep = true};
static const fv_reduce_params first = {.n_axes = 1, .axes = {0}};
static const fv_reduce_params outer = {.n_axes = 2, .axes = {2, 0}};

static const fv_op_case cases[] = {
    {.name = "all", .params = &all, .n_in = 1, .in = {FV_IN(NORMAL, 3, 4)}},
    {.name = "last", .params = &last_kept, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "first", .params = &first, .n_in = 1, .in = {FV_IN(NORMAL, 4, 3)}},
    {.name = "outer", .params = &outer, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "scalar", .params = &all, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &last_kept, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_norm = {
    .id = FV_OP_NORM,
    .name = "norm",
    .formula = "y = sqrt(sum(x^2))",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_reduce_params),
    .infer = fv_reduce_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

/*
 * y_i = e^(x_i) / sum_j e^(x_j) along one axis.
 *   dy_j/dx_i = y_j ([i = j] - y_i), hence
 *   dx_i = sum_j g_j y_j ([i = j] - y_i) = y_i (g_i - sum_j y_j g_j):   terms 0 and 1.
 * A row of nothing but -inf gives zeros and, by the formula, a gradient of zero.
 */
#include "ops/softmax_rows.h"

fv_tensor *fv_softmax(fv_ctx *ctx, fv_tensor *x, int axis)
{
    const fv_softmax_params params = {axis};
    return fv_op_apply(ctx, FV_OP_SOFTMAX, 1, &x, &params);
}

static void forward(fv_op_run *run) { fv_softmax_forward(run, false); }
static void backward(fv_op_back *back) { fv_softmax_backward(back, false); }

static const fv_softmax_params last = {-1}, first = {0}, middle = {1};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "one row", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 4)}},
    {.name = "wide", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 1, 19)}},
    {.name = "columns", .params = &first, .n_in = 1, .in = {FV_IN(NORMAL, 4, 3)}},
    {.name = "middle", .params = &middle, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 2)}},
    {.name = "no rows", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
    {.name = "no columns", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_softmax = {
    .id = FV_OP_SOFTMAX,
    .name = "softmax",
    .formula = "y = exp(x) / sum exp(x) along an axis",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_softmax_params),
    .infer = fv_softmax_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

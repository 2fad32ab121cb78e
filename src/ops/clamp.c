/*
 * y = x held to [low, high];  dx = g where low <= x <= high, else 0. NaN stays NaN.
 */
#include "ops/op.h"

fv_tensor *fv_clamp(fv_ctx *ctx, fv_tensor *x, double low, double high)
{
    fv_unary_params params = {.alpha = low, .beta = high};
    return fv_op_apply(ctx, FV_OP_CLAMP, 1, &x, &params);
}

static fv_status infer(fv_op_run *run)
{
    const fv_unary_params *p = run->params;
    if (!(p->alpha <= p->beta)) /* a NaN is no bound either */
        return fv_op_error(run, FV_ERR_ARGUMENT, "bounds %g and %g are not in order", p->alpha,
                           p->beta);
    return fv_unary_infer(run);
}

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_CLAMP, true, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_CLAMP, true, false); }

/* The inputs keep away from 0, so that no bound in use is near an element. */
static const fv_unary_params below = {.alpha = 0.0, .beta = 100.0};
static const fv_unary_params above = {.alpha = -100.0, .beta = 0.0};
static const fv_unary_params wide = {.alpha = -100.0, .beta = 100.0};

static const fv_op_case cases[] = {
    {.name = "below", .params = &below, .n_in = 1, .in = {FV_IN(OFFZERO, 3, 5)}},
    {.name = "above", .params = &above, .n_in = 1, .in = {FV_IN(OFFZERO, 8)}},
    {.name = "scalar", .params = &wide, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &wide, .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_clamp = {
    .id = FV_OP_CLAMP,
    .name = "clamp",
    .formula = "y = min(max(x, low), high)",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_unary_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

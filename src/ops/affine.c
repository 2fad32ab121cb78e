/*
 * y = s x + t for constants s, t, rounded once;  dx = s g.
 */
#include "ops/op.h"

fv_tensor *fv_affine(fv_ctx *ctx, fv_tensor *x, double scale, double shift)
{
    fv_unary_params params = {.alpha = scale, .beta = shift};
    return fv_op_apply(ctx, FV_OP_AFFINE, 1, &x, &params);
}

fv_tensor *fv_scale(fv_ctx *ctx, fv_tensor *x, double scale)
{
    return fv_affine(ctx, x, scale, 0.0);
}

static void forward(fv_op_run *run) { fv_unary_forward(run, FV_UNARY_AFFINE, false, false); }
static void backward(fv_op_back *back) { fv_unary_backward(back, FV_UNARY_AFFINE, false, false); }

static const fv_unary_params line = {.alpha = -1.7, .beta = 0.3};
static const fv_unary_params half = {.alpha = 0.5};

static const fv_op_case cases[] = {
    {.name = "3x5", .params = &line, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .params = &line, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "scale", .params = &half, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 2)}},
    {.name = "empty", .params = &line, .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_affine = {
    .id = FV_OP_AFFINE,
    .name = "affine",
    .formula = "y = s x + t",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_unary_params),
    .infer = fv_unary_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

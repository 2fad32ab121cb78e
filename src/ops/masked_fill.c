/*
 * y = value where mask, else x; the mask broadcasts to x.
 *   dx = 0 where mask, else g. The mask gets no gradient.
 */
#include "ops/op.h"

typedef struct masked_fill_params {
    double value;
} masked_fill_params;

fv_tensor *fv_masked_fill(fv_ctx *ctx, fv_tensor *x, fv_tensor *mask, double value)
{
    return fv_op_apply(ctx, FV_OP_MASKED_FILL, 2, (fv_tensor *[]){x, mask},
                       &(masked_fill_params){value});
}

static fv_status infer(fv_op_run *run)
{
    const fv_tensor *x = run->in[0];
    if (!x) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    FV_TRY(fv_need_dtype(run, 1, FV_U8));
    FV_TRY(fv_spec_broadcast(run, 0, 0, 1));
    const fv_spec *spec = &run->spec[0];
    if (!fv_shape_equal(spec->rank, spec->shape, x->rank, x->shape))
        return fv_op_mismatch(run, 0, 1, "(x and mask): the mask must broadcast to x");
    return FV_OK;
}

static void fill_where(fv_ctx *ctx, fv_tensor *out, fv_tensor *mask, double value, fv_tensor *x)
{
    fv_elementwise_args args;
    args.op = 0;
    args.alpha = value;
    args.beta = 0.0;
    fv_launch_elementwise(ctx, FV_KERNEL_SELECT, out->dtype, &args, 4,
                          (fv_tensor *[]){out, mask, NULL, x});
}

static void forward(fv_op_run *run)
{
    const masked_fill_params *p = run->params;
    fill_where(run->ctx, run->out[0], run->in[1], p->value, run->in[0]);
    fv_save(run, 0, run->in[1]);
}

static void backward(fv_op_back *back)
{
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    fill_where(back->ctx, dx, back->saved[0], 0.0, back->grad[0]);
    fv_back_send(back, 0, dx);
}

static const masked_fill_params seven = {.value = 7.0};

static const fv_op_case cases[] = {
    {.name = "3x4", .params = &seven, .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(MASK, 3, 4)}},
    {.name = "row", .params = &seven, .n_in = 2, .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(MASK, 4)}},
    {.name = "column", .params = &seven, .n_in = 2, .in = {FV_IN(NORMAL, 6, 2), FV_IN(MASK, 6, 1)}},
    {.name = "scalar", .params = &seven, .n_in = 2, .in = {FV_IN0(NORMAL), FV_IN0(MASK)}},
    {.name = "empty", .params = &seven, .n_in = 2, .in = {FV_IN(NORMAL, 0, 4), FV_IN(MASK, 4)}},
};

const fv_op_desc fv_op_masked_fill = {
    .id = FV_OP_MASKED_FILL,
    .name = "masked_fill",
    .formula = "y = mask ? value : x",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(masked_fill_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

/*
 * y = x as another dtype (kernels/convert.h says how numbers are rounded).
 *   dx = g as x's dtype, between floats; an integer result carries no gradient.
 */
#include "ops/op.h"

typedef struct cast_params {
    fv_dtype dtype;
} cast_params;

fv_tensor *fv_cast(fv_ctx *ctx, fv_tensor *x, fv_dtype dtype)
{
    return fv_op_apply(ctx, FV_OP_CAST, 1, &x, &(cast_params){dtype});
}

static fv_status infer(fv_op_run *run)
{
    const cast_params *p = run->params;
    if (!run->in[0]) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    if (fv_dtype_size(p->dtype) == 0)
        return fv_op_error(run, FV_ERR_DTYPE, "unknown dtype %d", (int)p->dtype);
    fv_spec_like(run, 0, 0);
    run->spec[0].dtype = p->dtype;
    return FV_OK;
}

static void forward(fv_op_run *run) { fv_copy_into(run->ctx, run->out[0], run->in[0]); }

static void backward(fv_op_back *back)
{
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    fv_copy_into(back->ctx, dx, back->grad[0]);
    fv_back_send(back, 0, dx);
}

/* To double: exact from f32 and f64, so that central differences work. */
static const cast_params widen = {.dtype = FV_F64};

static const fv_op_case cases[] = {
    {.name = "3x5", .params = &widen, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .params = &widen, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &widen, .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_cast = {
    .id = FV_OP_CAST,
    .name = "cast",
    .formula = "y = x as another dtype",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(cast_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};

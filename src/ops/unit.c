/*
 * y = x / |x| over the last axis; a row of zeros stays zero.
 *   dy_j/dx_i = ([i = j] - y_i y_j) / |x|, hence
 *   dx = (g - y (y . g)) / |x|:   terms 0 and 1;   0 for a row of zeros, which has no direction.
 * Rows whose gradient g is zero get zero even if they hold NaN, as a masked key may.
 */
#include "kernels/rows.h"
#include "ops/rows.h"

enum { SAVED_Y, SAVED_RNORM };

fv_tensor *fv_unit(fv_ctx *ctx, fv_tensor *x) { return fv_op_apply(ctx, FV_OP_UNIT, 1, &x, NULL); }

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_rank(run, 0, 1, FV_MAX_RANK));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

static fv_unit_args args_of(const fv_tensor *x)
{
    return (fv_unit_args){.rows = fv_row_count(x), .cols = x->shape[x->rank - 1]};
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[0]), *y = run->out[0];
    if (ctx->error != FV_OK) return;
    const fv_unit_args args = args_of(x);
    fv_tensor *rnorm = fv_tensor_new(ctx, x->dtype, 1, &args.rows);
    if (ctx->error != FV_OK) return;
    if (x->count > 0)
        fv_launch(ctx, FV_KERNEL_UNIT, x->dtype, (void *[]){y->data, rnorm->data, x->data}, &args,
                  sizeof args);
    fv_save(run, SAVED_Y, y);
    fv_save(run, SAVED_RNORM, rnorm);
    fv_drop_copy(ctx, x, run->in[0]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *y = back->saved[SAVED_Y], *rnorm = back->saved[SAVED_RNORM];
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]), *dx = fv_back_new(back, 0);
    if (ctx->error != FV_OK) return;
    const fv_unit_args args = args_of(dx);
    if (dx->count > 0)
        fv_launch(ctx, FV_KERNEL_UNIT_GRAD, dx->dtype,
                  (void *[]){dx->data, g->data, y->data, rnorm->data}, &args, sizeof args);
    fv_back_send(back, 0, dx);
}

static const fv_op_case cases[] = {
    {.name = "rows", .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "long", .n_in = 1, .in = {FV_IN(NORMAL, 2, 19)}},
    {.name = "vector", .n_in = 1, .in = {FV_IN(NORMAL, 4)}},
    {.name = "sign", .n_in = 1, .in = {FV_IN(OFFZERO, 2, 2, 1)}},
    {.name = "no rows", .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_unit = {
    .id = FV_OP_UNIT,
    .name = "unit",
    .formula = "y = x / |x| over the last axis, 0 for 0",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

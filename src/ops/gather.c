/*
 * y[..i..] = x[..index[..i..]..] along one axis.
 * Each result copies one element, so the gradient is a scatter:
 *
 *     dx[..index[..i..]..] += g[..i..]
 */
#include "ops/axis_index.h"
#include "ops/rows.h"

enum { X, INDEX };

fv_tensor *fv_gather(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, int axis)
{
    const fv_axis_params params = {axis};
    return fv_op_apply(ctx, FV_OP_GATHER, 2, (fv_tensor *[]){x, index}, &params);
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_axis_index_check(run));
    fv_spec_like(run, 0, INDEX);
    run->spec[0].dtype = run->in[X]->dtype;
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]);
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[INDEX]);
    if (ctx->error != FV_OK) return;
    const fv_gather_args args = fv_axis_index_args(run->params, x->rank, x->shape, index);
    if (index->count > 0)
        fv_launch(ctx, FV_KERNEL_GATHER, x->dtype,
                  (void *[]){run->out[0]->data, x->data, index->data}, &args, sizeof args);
    fv_save(run, 0, index);
    fv_drop_copy(ctx, x, run->in[X]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *index = back->saved[0], *g = fv_contiguous_raw(ctx, back->grad[0]);
    bool accumulate;
    fv_tensor *dx = fv_back_dest(back, X, &accumulate);
    if (ctx->error != FV_OK) return;
    if (!accumulate) fv_fill(ctx, dx, 0.0);
    const fv_gather_args args = fv_axis_index_args(back->params, dx->rank, dx->shape, index);
    if (index->count > 0)
        fv_launch(ctx, FV_KERNEL_SCATTER_ADD, dx->dtype, (void *[]){dx->data, g->data, index->data},
                  &args, sizeof args);
    fv_back_commit(back, X, dx, accumulate);
}

static const fv_axis_params first = {0}, middle = {1}, last = {-1};

static const fv_op_case cases[] = {
    {.name = "columns",
     .params = &first,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 2, 3)}},
    {.name = "rows", .params = &last, .n_in = 2, .in = {FV_IN(NORMAL, 2, 4), FV_INDEX(4, 2, 6)}},
    {.name = "middle",
     .params = &middle,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 3, 2), FV_INDEX(3, 2, 5, 2)}},
    {.name = "none", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 0, 3)}},
};

const fv_op_desc fv_op_gather = {
    .id = FV_OP_GATHER,
    .name = "gather",
    .formula = "y[..i..] = x[..index[..i..]..]",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(fv_axis_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

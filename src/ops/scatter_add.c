/*
 * y = x, then y[..index[..i..]..] += src[..i..] along one axis.
 *   dx = g,  dsrc[..i..] = g[..index[..i..]..].
 */
#include "ops/axis_index.h"
#include "ops/rows.h"

enum { X, INDEX, SRC };

fv_tensor *fv_scatter_add(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, fv_tensor *src, int axis)
{
    const fv_axis_params params = {axis};
    return fv_op_apply(ctx, FV_OP_SCATTER_ADD, 3, (fv_tensor *[]){x, index, src}, &params);
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_axis_index_check(run));
    const fv_tensor *x = run->in[X], *index = run->in[INDEX], *src = run->in[SRC];
    FV_TRY(fv_need_dtype(run, SRC, x->dtype));
    if (!fv_shape_equal(index->rank, index->shape, src->rank, src->shape))
        return fv_op_mismatch(run, INDEX, SRC, "(index and source) must be equal");
    fv_spec_like(run, 0, X);
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[INDEX]);
    fv_tensor *src = fv_contiguous_raw(ctx, run->in[SRC]), *out = run->out[0];
    if (ctx->error != FV_OK) return;
    fv_copy_into(ctx, out, run->in[X]);
    const fv_gather_args args = fv_axis_index_args(run->params, out->rank, out->shape, index);
    if (index->count > 0)
        fv_launch(ctx, FV_KERNEL_SCATTER_ADD, out->dtype,
                  (void *[]){out->data, src->data, index->data}, &args, sizeof args);
    fv_save(run, 0, index);
    fv_drop_copy(ctx, src, run->in[SRC]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_back_send(back, X, back->grad[0]);
    if (!fv_back_wants(back, SRC)) return;
    fv_tensor *index = back->saved[0], *g = fv_contiguous_raw(ctx, back->grad[0]);
    fv_tensor *dsrc = fv_back_new(back, SRC);
    if (ctx->error != FV_OK) return;
    const fv_gather_args args = fv_axis_index_args(back->params, g->rank, g->shape, index);
    if (index->count > 0)
        fv_launch(ctx, FV_KERNEL_GATHER, g->dtype, (void *[]){dsrc->data, g->data, index->data},
                  &args, sizeof args);
    fv_back_send(back, SRC, dsrc);
}

static const fv_axis_params first = {0}, last = {-1};

static const fv_op_case cases[] = {
    {.name = "columns",
     .params = &first,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 5, 3), FV_IN(NORMAL, 5, 3)}},
    {.name = "rows",
     .params = &last,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 4), FV_INDEX(4, 2, 3), FV_IN(NORMAL, 2, 3)}},
    {.name = "none",
     .params = &first,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 0, 3), FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_scatter_add = {
    .id = FV_OP_SCATTER_ADD,
    .name = "scatter_add",
    .formula = "y = x; y[..index[..i..]..] += src[..i..]",
    .min_in = 3,
    .max_in = 3,
    .params_bytes = sizeof(fv_axis_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

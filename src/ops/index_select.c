/*
 * y = the slices index[0], index[1], ... of x along one axis.
 *   dx: slice index[i] += slice i of g, i ascending.
 */
#include "ops/axis_index.h"
#include "ops/rows.h"

enum { X, INDEX };

fv_tensor *fv_index_select(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, int axis)
{
    const fv_axis_params params = {axis};
    return fv_op_apply(ctx, FV_OP_INDEX_SELECT, 2, (fv_tensor *[]){x, index}, &params);
}

static fv_status infer(fv_op_run *run)
{
    const fv_axis_params *params = run->params;
    int axis;
    if (!run->in[X] || run->in[X]->dtype != FV_I64) FV_TRY(fv_need_real(run, X));
    FV_TRY(fv_need_dtype(run, INDEX, FV_I64));
    FV_TRY(fv_need_rank(run, INDEX, 1, 1));
    FV_TRY(fv_need_axis(run, X, params->axis, &axis));
    fv_spec_like(run, 0, X);
    run->spec[0].shape[axis] = run->in[INDEX]->shape[0];
    return FV_OK;
}

/* x: a tensor of the input's shape. */
static fv_rows_index_args args_of(const void *params, const fv_tensor *x, const fv_tensor *index)
{
    int axis = ((const fv_axis_params *)params)->axis;
    if (axis < 0) axis += x->rank;
    return (fv_rows_index_args){.outer = fv_outer_count(x, axis),
                                .count = index->count,
                                .rows = x->shape[axis],
                                .cols = fv_inner_count(x, axis),
                                .padding_index = -1};
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]);
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[INDEX]);
    if (ctx->error != FV_OK) return;
    const fv_rows_index_args args = args_of(run->params, x, index);
    if (run->out[0]->count > 0)
        fv_launch(ctx, FV_KERNEL_GATHER_ROWS, x->dtype,
                  (void *[]){run->out[0]->data, x->data, index->data}, &args, sizeof args);
    fv_save(run, 0, index);
    fv_drop_copy(ctx, x, run->in[X]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *index = back->saved[0], *g = fv_contiguous_raw(ctx, back->grad[0]);
    bool accumulate = false;
    /* The sum of rows is f32: that of bf16 rows is rounded when it is sent. */
    fv_tensor *dx = g->dtype == FV_BF16
                        ? fv_tensor_new(ctx, FV_F32, fv_back_rank(back, X), fv_back_shape(back, X))
                        : fv_back_dest(back, X, &accumulate);
    if (ctx->error != FV_OK) return;
    if (!accumulate) fv_fill(ctx, dx, 0.0);
    const fv_rows_index_args args = args_of(back->params, dx, index);
    if (g->count > 0)
        fv_launch(ctx, FV_KERNEL_INDEX_ADD, g->dtype, (void *[]){dx->data, g->data, index->data},
                  &args, sizeof args);
    fv_back_commit(back, X, dx, accumulate);
}

static const fv_axis_params first = {0}, middle = {1}, last = {-1};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 6)}},
    {.name = "middle",
     .params = &middle,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 3, 2), FV_INDEX(3, 2)}},
    {.name = "columns", .params = &last, .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_INDEX(4, 3)}},
    {.name = "none", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 0)}},
};

const fv_op_desc fv_op_index_select = {
    .id = FV_OP_INDEX_SELECT,
    .name = "index_select",
    .formula = "y[..i..] = x[..index[i]..]",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(fv_axis_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};

#include "ops/softmax_rows.h"

#include "kernels/rows.h"
#include "ops/rows.h"

fv_status fv_softmax_infer(fv_op_run *run)
{
    const fv_softmax_params *params = run->params;
    int axis;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_axis(run, 0, params->axis, &axis));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

static int axis_of(const void *params, int rank)
{
    const int axis = ((const fv_softmax_params *)params)->axis;
    return axis < 0 ? axis + rank : axis;
}

static fv_softmax_args args_of(const fv_tensor *rows, bool log)
{
    return (fv_softmax_args){
        .rows = fv_row_count(rows), .cols = rows->shape[rows->rank - 1], .log = log};
}

void fv_softmax_forward(fv_op_run *run, bool log)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = run->in[0], *out = run->out[0];
    fv_save(run, 0, out);
    if (out->count == 0) return;
    const int axis = axis_of(run->params, x->rank);
    fv_tensor *x_rows = fv_rows_of(ctx, x, axis), *y_rows = fv_rows_buffer(ctx, out, axis);
    if (ctx->error != FV_OK) return;
    const fv_softmax_args args = args_of(x_rows, log);
    fv_launch(ctx, FV_KERNEL_SOFTMAX, x->dtype, (void *[]){y_rows->data, x_rows->data}, &args,
              sizeof args);
    fv_rows_store(ctx, out, axis, y_rows);
    fv_drop_copy(ctx, x_rows, x);
}

void fv_softmax_backward(fv_op_back *back, bool log)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *dx = fv_back_new(back, 0);
    if (ctx->error != FV_OK) return;
    if (dx->count > 0) {
        const int axis = axis_of(back->params, dx->rank);
        fv_tensor *y = fv_rows_of(ctx, back->saved[0], axis);
        fv_tensor *g = fv_rows_of(ctx, back->grad[0], axis);
        fv_tensor *buffer = fv_rows_buffer(ctx, dx, axis);
        if (ctx->error != FV_OK) return;
        const fv_softmax_args args = args_of(y, log);
        fv_launch(ctx, FV_KERNEL_SOFTMAX_GRAD, dx->dtype,
                  (void *[]){buffer->data, y->data, g->data}, &args, sizeof args);
        fv_rows_store(ctx, dx, axis, buffer);
    }
    fv_back_send(back, 0, dx);
}

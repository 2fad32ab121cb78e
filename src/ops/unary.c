/* What all ops y = f(x) share: they differ in the kernel's op code and in what backward needs. */
#include "ops/op.h"

fv_status fv_unary_infer(fv_op_run *run)
{
    FV_FORWARD(fv_need_real(run, 0));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

static fv_map_args map_args(fv_unary op, const void *params)
{
    const fv_unary_params *p = params;
    fv_map_args args;
    args.op = (int)op;
    args.alpha = p ? p->alpha : 0.0;
    args.beta = p ? p->beta : 0.0;
    return args;
}

void fv_unary_forward(fv_op_run *run, fv_unary op, bool save_x, bool save_y)
{
    fv_map_args args = map_args(op, run->params);
    fv_launch_map(run->ctx, FV_KERNEL_UNARY, run->out[0]->dtype, &args, 2,
                  (fv_tensor *[]){run->out[0], run->in[0]});
    if (save_x) fv_save(run, 0, run->in[0]);
    if (save_y) fv_save(run, 1, run->out[0]);
}

void fv_unary_backward(fv_op_back *back, fv_unary op, bool saved_x, bool saved_y)
{
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    fv_map_args args = map_args(op, back->params);
    fv_launch_map(back->ctx, FV_KERNEL_UNARY_GRAD, dx->dtype, &args, 4,
                  (fv_tensor *[]){dx, back->grad[0], saved_x ? back->saved[0] : NULL,
                                  saved_y ? back->saved[1] : NULL});
    fv_back_send(back, 0, dx);
}

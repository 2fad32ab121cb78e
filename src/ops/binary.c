/* What all broadcasting ops c = f(a, b) share. */
#include "ops/op.h"

fv_status fv_binary_infer(fv_op_run *run)
{
    for (int i = 0; i < 2; i++)
        if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    if (run->in[0]->dtype != run->in[1]->dtype)
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                           fv_dtype_name(run->in[0]->dtype), fv_dtype_name(run->in[1]->dtype));
    return fv_spec_broadcast(run, 0, 0, 1);
}

fv_status fv_arithmetic_infer(fv_op_run *run)
{
    FV_FORWARD(fv_binary_infer(run));
    fv_dtype dtype = run->in[0]->dtype;
    if (dtype != FV_F32 && dtype != FV_F64 && dtype != FV_I32 && dtype != FV_I64)
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s, they must be f32, f64, i32 or i64",
                           fv_dtype_name(dtype));
    return FV_OK;
}

void fv_binary_forward(fv_op_run *run, fv_binary op)
{
    fv_map_args args;
    args.op = (int)op;
    fv_launch_map(run->ctx, FV_KERNEL_BINARY, run->out[0]->dtype, &args, 3,
                  (fv_tensor *[]){run->out[0], run->in[0], run->in[1]});
}

void fv_binary_backward(fv_op_back *back, fv_binary op)
{
    for (int which = 0; which < 2; which++) {
        if (!fv_back_wants(back, which)) continue;
        fv_tensor *out = fv_tensor_like(back->ctx, back->grad[0]);
        if (back->ctx->error != FV_OK) return;
        fv_map_args args;
        args.op = (int)op;
        args.which = which;
        fv_launch_map(back->ctx, FV_KERNEL_BINARY_GRAD, out->dtype, &args, 4,
                      (fv_tensor *[]){out, back->grad[0], back->saved[0], back->saved[1]});
        fv_back_send_reduced(back, which, out);
    }
}

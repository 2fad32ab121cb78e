/* What the comparisons share: u8 results, no gradient. */
#include "ops/op.h"

fv_status fv_compare_infer(fv_op_run *run)
{
    FV_FORWARD(fv_binary_infer(run));
    run->spec[0].dtype = FV_U8;
    return FV_OK;
}

void fv_compare_forward(fv_op_run *run, fv_compare op)
{
    fv_map_args args;
    args.op = (int)op;
    fv_launch_map(run->ctx, FV_KERNEL_COMPARE, run->in[0]->dtype, &args, 3,
                  (fv_tensor *[]){run->out[0], run->in[0], run->in[1]});
}

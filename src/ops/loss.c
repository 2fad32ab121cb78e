#include "ops/loss.h"

#include "kernels/reduce.h"

fv_status fv_loss_infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_real(run, 1));
    FV_TRY(fv_need_same_real(run));
    const fv_tensor *a = run->in[0], *b = run->in[1];
    if (!fv_shape_equal(a->rank, a->shape, b->rank, b->shape))
        return fv_op_mismatch(run, 0, 1, "must be equal");
    fv_spec_set(run, 0, a->dtype, 0, NULL);
    return FV_OK;
}

void fv_launch_unary(fv_ctx *ctx, fv_unary op, double alpha, double beta, fv_tensor *y,
                     fv_tensor *x)
{
    fv_elementwise_args args = {.op = (int)op, .alpha = alpha, .beta = beta};
    fv_launch_elementwise(ctx, FV_KERNEL_UNARY, y->dtype, &args, 2, (fv_tensor *[]){y, x});
}

void fv_launch_binary(fv_ctx *ctx, fv_binary op, fv_tensor *y, fv_tensor *a, fv_tensor *b)
{
    fv_elementwise_args args = {.op = (int)op};
    fv_launch_elementwise(ctx, FV_KERNEL_BINARY, y->dtype, &args, 3, (fv_tensor *[]){y, a, b});
}

void fv_launch_sum(fv_ctx *ctx, fv_tensor *out, fv_tensor *t, double alpha)
{
    if (ctx->error != FV_OK) return;
    fv_reduce_args args = {.op = FV_REDUCE_SUM, .red_rank = 1, .alpha = alpha};
    args.red_shape[0] = t->count;
    args.red_stride[0] = 1;
    fv_launch(ctx, FV_KERNEL_REDUCE, t->dtype, (void *[]){out->data, NULL, t->data}, &args,
              sizeof args);
}

double fv_mean_factor(int64_t n) { return n > 0 ? 1.0 / (double)n : 0.0; }

void fv_back_difference(fv_op_back *back, fv_tensor *d, fv_tensor *a, fv_tensor *b)
{
    const bool first = fv_back_term(back, 0), second = fv_back_term(back, 1);
    if (first && second)
        fv_launch_binary(back->ctx, FV_BINARY_SUB, d, a, b);
    else if (first)
        fv_copy_into(back->ctx, d, a);
    else
        fv_launch_unary(back->ctx, FV_UNARY_NEG, 0.0, 0.0, d, b);
}

void fv_back_scale(fv_op_back *back, fv_tensor *d, double factor)
{
    fv_launch_binary(back->ctx, FV_BINARY_MUL, d, d, back->grad[0]);
    fv_launch_unary(back->ctx, FV_UNARY_AFFINE, factor, 0.0, d, d);
}

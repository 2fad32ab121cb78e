/*
 * y = x, stored row-major without gaps.
 *   dx = g itself.
 * The op always copies; the public function returns x itself if it is contiguous already.
 */
#include "ops/op.h"

fv_tensor *fv_contiguous(fv_ctx *ctx, fv_tensor *x)
{
    const unsigned unusable = FV_TENSOR_INVALID | FV_TENSOR_RELEASED;
    if (ctx->error == FV_OK && x && x->ctx == ctx && !(x->flags & unusable) &&
        fv_tensor_contiguous(x))
        return x;
    return fv_op_apply(ctx, FV_OP_CONTIGUOUS, 1, &x, NULL);
}

static fv_status infer(fv_op_run *run)
{
    if (!run->in[0]) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

static void forward(fv_op_run *run) { fv_copy_into(run->ctx, run->out[0], run->in[0]); }
static void backward(fv_op_back *back) { fv_back_send(back, 0, back->grad[0]); }

static const fv_op_case cases[] = {
    {.name = "2x3x4", .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "scalar", .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 1, .in = {FV_IN(NORMAL, 2, 0)}},
};

const fv_op_desc fv_op_contiguous = {
    .id = FV_OP_CONTIGUOUS,
    .name = "contiguous",
    .formula = "y = x without gaps",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};

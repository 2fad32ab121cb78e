/*
 * loss = mean(d^2), d = a - b.
 *   da = 2 g d / n,  db = -da.
 */
#include "ops/loss.h"

fv_tensor *fv_mse(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_MSE, 2, (fv_tensor *[]){a, b}, NULL);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *d = fv_tensor_like(ctx, run->in[0]), *squares = fv_tensor_like(ctx, run->in[0]);
    if (ctx->error != FV_OK) return;
    fv_launch_binary(ctx, FV_BINARY_SUB, d, run->in[0], run->in[1]);
    fv_launch_unary(ctx, FV_UNARY_SQUARE, 0.0, 0.0, squares, d);
    fv_launch_sum(ctx, run->out[0], squares, fv_mean_factor(d->count));
    fv_save(run, 0, d);
    fv_tensor_free(ctx, &squares);
    if (!run->recording) fv_tensor_free(ctx, &d);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *d = back->saved[0], *da = fv_tensor_like(ctx, d);
    if (ctx->error != FV_OK) return;
    fv_copy_into(ctx, da, d);
    fv_back_scale(back, da, 2.0 * fv_mean_factor(d->count));
    fv_back_send(back, 0, da);
    if (!fv_back_wants(back, 1)) return;
    fv_tensor *db = fv_tensor_like(ctx, d);
    if (ctx->error != FV_OK) return;
    fv_launch_unary(ctx, FV_UNARY_NEG, 0.0, 0.0, db, da);
    fv_back_send(back, 1, db);
}

static const fv_op_case cases[] = {
    {.name = "3x4", .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3, 4)}},
    {.name = "scalar", .n_in = 2, .in = {FV_IN0(NORMAL), FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 2, .in = {FV_IN(NORMAL, 0, 4), FV_IN(NORMAL, 0, 4)}},
};

const fv_op_desc fv_op_mse = {
    .id = FV_OP_MSE,
    .name = "mse",
    .formula = "mean((a - b)^2)",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_loss_infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

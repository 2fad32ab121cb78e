/*
 * The binary cross-entropy of p = sigmoid(x), from x:
 *   -t ln p - (1 - t) ln(1 - p) = max(x, 0) - t x + ln(1 + e^-|x|),
 *   the last of which is softplus(-|x|): nothing overflows and nothing cancels.
 *   dx = g (sigmoid(x) - t) / n:   terms 0 and 1. t gets no gradient.
 */
#include "ops/loss.h"

fv_tensor *fv_bce_logits(fv_ctx *ctx, fv_tensor *x, fv_tensor *target)
{
    return fv_op_apply(ctx, FV_OP_BCE_LOGITS, 2, (fv_tensor *[]){x, target}, NULL);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = run->in[0], *t = run->in[1];
    fv_tensor *sum = fv_tensor_like(ctx, x), *part = fv_tensor_like(ctx, x);
    if (ctx->error != FV_OK) return;
    fv_launch_unary(ctx, FV_UNARY_RELU, 0.0, 0.0, sum, x);
    fv_launch_binary(ctx, FV_BINARY_MUL, part, x, t);
    fv_launch_binary(ctx, FV_BINARY_SUB, sum, sum, part);
    fv_launch_unary(ctx, FV_UNARY_ABS, 0.0, 0.0, part, x);
    fv_launch_unary(ctx, FV_UNARY_NEG, 0.0, 0.0, part, part);
    fv_launch_unary(ctx, FV_UNARY_SOFTPLUS, 0.0, 0.0, part, part);
    fv_launch_binary(ctx, FV_BINARY_ADD, sum, sum, part);
    fv_launch_sum(ctx, run->out[0], sum, fv_mean_factor(x->count));
    fv_save(run, 0, x);
    fv_save(run, 1, t);
    fv_tensor_free(ctx, &sum);
    fv_tensor_free(ctx, &part);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    if (!fv_back_wants(back, 0)) return;
    fv_tensor *x = back->saved[0], *dx = fv_tensor_like(ctx, x), *p = fv_tensor_like(ctx, x);
    if (ctx->error != FV_OK) return;
    fv_launch_unary(ctx, FV_UNARY_SIGMOID, 0.0, 0.0, p, x);
    fv_back_difference(back, dx, p, back->saved[1]);
    fv_back_scale(back, dx, fv_mean_factor(x->count));
    fv_back_send(back, 0, dx);
}

static const fv_op_case cases[] = {
    {.name = "3x4",
     .n_in = 2,
     .in = {FV_IN(OFFZERO, 3, 4),
            {.gen = FV_GEN_UNIT, .rank = 2, .shape = {3, 4}, .constant = true}}},
    {.name = "scalar",
     .n_in = 2,
     .in = {FV_IN0(OFFZERO), {.gen = FV_GEN_UNIT, .rank = 0, .constant = true}}},
    {.name = "empty",
     .n_in = 2,
     .in = {FV_IN(OFFZERO, 0), {.gen = FV_GEN_UNIT, .rank = 1, .shape = {0}, .constant = true}}},
};

const fv_op_desc fv_op_bce_logits = {
    .id = FV_OP_BCE_LOGITS,
    .name = "bce_logits",
    .formula = "mean(max(x, 0) - t x + ln(1 + e^-|x|))",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_loss_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

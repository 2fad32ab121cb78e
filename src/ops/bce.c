/*
 * loss = -mean(t ln p + (1 - t) ln(1 - p)), each logarithm held at >= -100.
 *   dp = g (p - t) / (p (1 - p)) / n:   terms 0 and 1; the denominator is held at >= 1e-12, as the
 *   logarithms are. t gets no gradient.
 */
#include <math.h>

#include "ops/loss.h"

fv_tensor *fv_bce(fv_ctx *ctx, fv_tensor *p, fv_tensor *target)
{
    return fv_op_apply(ctx, FV_OP_BCE, 2, (fv_tensor *[]){p, target}, NULL);
}

/* y = weight max(ln x, -100); y may be x. */
static void weighted_log(fv_ctx *ctx, fv_tensor *y, fv_tensor *x, fv_tensor *weight)
{
    fv_launch_unary(ctx, FV_UNARY_LOG, 0.0, 0.0, y, x);
    fv_launch_unary(ctx, FV_UNARY_CLAMP, -100.0, INFINITY, y, y);
    fv_launch_binary(ctx, FV_BINARY_MUL, y, y, weight);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *p = run->in[0], *t = run->in[1];
    fv_tensor *hit = fv_tensor_like(ctx, p), *miss = fv_tensor_like(ctx, p);
    fv_tensor *rest = fv_tensor_like(ctx, p);
    if (ctx->error != FV_OK) return;
    weighted_log(ctx, hit, p, t);
    fv_launch_unary(ctx, FV_UNARY_AFFINE, -1.0, 1.0, rest, t);
    fv_launch_unary(ctx, FV_UNARY_AFFINE, -1.0, 1.0, miss, p);
    weighted_log(ctx, miss, miss, rest);
    fv_launch_binary(ctx, FV_BINARY_ADD, hit, hit, miss);
    fv_launch_sum(ctx, run->out[0], hit, -fv_mean_factor(p->count));
    fv_save(run, 0, p);
    fv_save(run, 1, t);
    fv_tensor_free(ctx, &hit);
    fv_tensor_free(ctx, &miss);
    fv_tensor_free(ctx, &rest);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    if (!fv_back_wants(back, 0)) return;
    fv_tensor *p = back->saved[0], *t = back->saved[1];
    fv_tensor *dp = fv_tensor_like(ctx, p), *spread = fv_tensor_like(ctx, p);
    if (ctx->error != FV_OK) return;
    fv_launch_unary(ctx, FV_UNARY_AFFINE, -1.0, 1.0, spread, p);
    fv_launch_binary(ctx, FV_BINARY_MUL, spread, spread, p);
    fv_launch_unary(ctx, FV_UNARY_CLAMP, 1e-12, INFINITY, spread, spread);
    fv_back_difference(back, dp, p, t);
    fv_launch_binary(ctx, FV_BINARY_DIV, dp, dp, spread);
    fv_back_scale(back, dp, fv_mean_factor(p->count));
    fv_back_send(back, 0, dp);
}

static const fv_op_case cases[] = {
    {.name = "3x4",
     .n_in = 2,
     .in = {FV_IN(UNIT, 3, 4), {.gen = FV_GEN_UNIT, .rank = 2, .shape = {3, 4}, .constant = true}}},
    {.name = "scalar",
     .n_in = 2,
     .in = {FV_IN0(UNIT), {.gen = FV_GEN_UNIT, .rank = 0, .constant = true}}},
    {.name = "empty",
     .n_in = 2,
     .in = {FV_IN(UNIT, 0), {.gen = FV_GEN_UNIT, .rank = 1, .shape = {0}, .constant = true}}},
};

const fv_op_desc fv_op_bce = {
    .id = FV_OP_BCE,
    .name = "bce",
    .formula = "-mean(t ln p + (1 - t) ln(1 - p))",
    .min_in = 2,
    .max_in = 2,
    .infer = fv_loss_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    FV_CASES(cases),
};

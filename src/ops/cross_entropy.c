/*
 * For each row x of C logits with target t, and s the smoothing:
 *   q_i = (1 - s) [i = t] + s / C,  l = -sum_i q_i ln softmax(x)_i
 *     = (1 - s) (lse - x_t) + s (lse - mean(x)),  lse = ln sum_j e^(x_j);
 * the loss is the sum or the mean of l over the rows with target != ignore, of which there are
 * `kept`.
 *   dl/dx_i = e^(x_i - lse) - (1 - s) [i = t] - s / C:   terms 0, 1, 2, times g and, for a mean,
 *   1/kept.
 * The device counts them, so nothing here waits for it. If there are none, the loss and every
 * gradient are 0, since a count of 0 is taken as 1.
 */
#include <math.h>

#include "kernels/rows.h"
#include "ops/loss.h"
#include "ops/rows.h"

enum { LOGITS, TARGET };
enum { SAVED_LOGITS, SAVED_TARGET, SAVED_LSE, SAVED_SCALE };

typedef struct cross_entropy_params {
    int64_t ignore;
    double smoothing;
    fv_reduction reduction;
} cross_entropy_params;

fv_tensor *fv_cross_entropy(fv_ctx *ctx, fv_tensor *logits, fv_tensor *target, int64_t ignore,
                            double smoothing, fv_reduction reduction)
{
    const cross_entropy_params params = {ignore, smoothing, reduction};
    return fv_op_apply(ctx, FV_OP_CROSS_ENTROPY, 2, (fv_tensor *[]){logits, target}, &params);
}

static fv_status infer(fv_op_run *run)
{
    const cross_entropy_params *params = run->params;
    FV_TRY(fv_need_real(run, LOGITS));
    FV_TRY(fv_need_dtype(run, TARGET, FV_I64));
    FV_TRY(fv_need_rank(run, LOGITS, 1, FV_MAX_RANK));
    const fv_tensor *logits = run->in[LOGITS], *target = run->in[TARGET];
    if (!fv_shape_equal(target->rank, target->shape, logits->rank - 1, logits->shape))
        return fv_op_mismatch(run, LOGITS, TARGET,
                              "(logits and target): expected one target for each row of logits");
    if (logits->shape[logits->rank - 1] == 0)
        return fv_op_error(run, FV_ERR_SHAPE, "expected at least one class, got logits of width 0");
    if (!(params->smoothing >= 0.0 && params->smoothing < 1.0))
        return fv_op_error(run, FV_ERR_ARGUMENT, "smoothing is %g, expected [0, 1)",
                           params->smoothing);
    if (params->reduction != FV_REDUCTION_MEAN && params->reduction != FV_REDUCTION_SUM)
        return fv_op_error(run, FV_ERR_ARGUMENT, "unknown reduction %d", (int)params->reduction);
    fv_spec_set(run, 0, fv_result_dtype(run), 0, NULL);
    return FV_OK;
}

/* A real scalar: the number of targets other than `ignore`, but at least 1. */
static fv_tensor *count_kept(fv_ctx *ctx, fv_dtype dtype, fv_tensor *target, int64_t ignore)
{
    fv_tensor *kept = fv_tensor_new(ctx, dtype, 0, NULL);
    fv_tensor *marks = fv_tensor_new(ctx, FV_U8, target->rank, target->shape);
    fv_tensor *ones = fv_tensor_new(ctx, dtype, target->rank, target->shape);
    fv_tensor *ignored = fv_from_host(ctx, FV_I64, 0, NULL, &ignore);
    if (ctx->error != FV_OK) return kept;
    fv_elementwise_args args = {.op = FV_COMPARE_NE};
    fv_launch_elementwise(ctx, FV_KERNEL_COMPARE, FV_I64, &args, 3,
                          (fv_tensor *[]){marks, target, ignored});
    fv_copy_into(ctx, ones, marks);
    fv_launch_sum(ctx, kept, ones, 1.0);
    fv_launch_unary(ctx, FV_UNARY_CLAMP, 1.0, INFINITY, kept, kept);
    fv_tensor_free(ctx, &marks);
    fv_tensor_free(ctx, &ones);
    fv_tensor_free(ctx, &ignored);
    return kept;
}

static fv_cross_entropy_args args_of(const cross_entropy_params *params, const fv_tensor *logits)
{
    return (fv_cross_entropy_args){.rows = fv_row_count(logits),
                                   .cols = logits->shape[logits->rank - 1],
                                   .ignore = params->ignore,
                                   .smoothing = params->smoothing};
}

/* Entry i of a tensor of two, as a scalar. */
static fv_tensor *entry(fv_ctx *ctx, fv_tensor *pair, int i)
{
    return fv_tensor_view(ctx, pair, 0, NULL, NULL, i);
}

/* What the gradient kernel multiplies by: the gradient of the loss (known later) and 1/kept. */
static fv_tensor *make_scale(fv_ctx *ctx, fv_dtype dtype, fv_tensor *kept)
{
    fv_tensor *scale = fv_tensor_new(ctx, dtype, 1, (int64_t[]){2});
    fv_tensor *share = entry(ctx, scale, 1);
    if (ctx->error != FV_OK) return scale;
    if (kept)
        fv_launch_unary(ctx, FV_UNARY_RECIPROCAL, 0.0, 0.0, share, kept);
    else
        fv_fill(ctx, share, 1.0);
    fv_tensor_free(ctx, &share);
    return scale;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const cross_entropy_params *params = run->params;
    fv_tensor *logits = fv_contiguous_raw(ctx, run->in[LOGITS]);
    fv_tensor *target = fv_contiguous_raw(ctx, run->in[TARGET]), *out = run->out[0];
    const fv_dtype wide = fv_wide_dtype(logits->dtype);
    fv_tensor *losses = fv_tensor_new(ctx, wide, target->rank, target->shape);
    fv_tensor *lse = fv_tensor_like(ctx, losses), *kept = NULL;
    if (ctx->error != FV_OK) return;
    const fv_cross_entropy_args args = args_of(params, logits);
    fv_launch(ctx, FV_KERNEL_CROSS_ENTROPY, logits->dtype,
              (void *[]){losses->data, lse->data, logits->data, target->data}, &args, sizeof args);
    fv_launch_sum(ctx, out, losses, 1.0);
    if (params->reduction == FV_REDUCTION_MEAN) {
        kept = count_kept(ctx, wide, target, params->ignore);
        if (ctx->error == FV_OK) fv_launch_binary(ctx, FV_BINARY_DIV, out, out, kept);
    }
    fv_tensor_free(ctx, &losses);
    if (run->recording) {
        fv_save(run, SAVED_LOGITS, logits);
        fv_save(run, SAVED_TARGET, target);
        fv_save(run, SAVED_LSE, lse);
        fv_save(run, SAVED_SCALE, make_scale(ctx, wide, kept));
    } else {
        fv_tensor_free(ctx, &lse);
        fv_drop_copy(ctx, logits, run->in[LOGITS]);
        fv_drop_copy(ctx, target, run->in[TARGET]);
    }
    fv_tensor_free(ctx, &kept);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *logits = back->saved[SAVED_LOGITS], *target = back->saved[SAVED_TARGET];
    fv_tensor *lse = back->saved[SAVED_LSE], *scale = back->saved[SAVED_SCALE];
    /* The logits are the largest tensor of a language model. */
    fv_tensor *dx = fv_back_over(back, LOGITS, logits), *upstream = entry(ctx, scale, 0);
    if (ctx->error != FV_OK) return;
    fv_copy_into(ctx, upstream, back->grad[0]);
    const fv_cross_entropy_args args = args_of(back->params, logits);
    fv_launch(ctx, FV_KERNEL_CROSS_ENTROPY_GRAD, dx->dtype,
              (void *[]){dx->data, logits->data, lse->data, target->data, scale->data}, &args,
              sizeof args);
    fv_back_send(back, LOGITS, dx);
}

static const cross_entropy_params mean = {-100, 0.0, FV_REDUCTION_MEAN},
                                  smooth = {-100, 0.2, FV_REDUCTION_MEAN},
                                  some = {1, 0.1, FV_REDUCTION_MEAN},
                                  sum = {1, 0.1, FV_REDUCTION_SUM};

static const fv_op_case cases[] = {
    {.name = "mean", .params = &mean, .n_in = 2, .in = {FV_IN(NORMAL, 4, 5), FV_INDEX(5, 4)}},
    {.name = "smooth",
     .params = &smooth,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 3, 4), FV_INDEX(4, 2, 3)}},
    {.name = "ignoring", .params = &some, .n_in = 2, .in = {FV_IN(NORMAL, 8, 3), FV_INDEX(3, 8)}},
    {.name = "sum", .params = &sum, .n_in = 2, .in = {FV_IN(NORMAL, 6, 3), FV_INDEX(3, 6)}},
    {.name = "one row",
     .params = &smooth,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 5), {.gen = FV_GEN_INDEX, .rank = 0, .bound = 5}}},
    {.name = "no rows", .params = &mean, .n_in = 2, .in = {FV_IN(NORMAL, 0, 3), FV_INDEX(3, 0)}},
};

const fv_op_desc fv_op_cross_entropy = {
    .id = FV_OP_CROSS_ENTROPY,
    .name = "cross_entropy",
    .formula = "mean or sum of -sum_i q_i ln softmax(x)_i, q the smoothed target",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(cross_entropy_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 3,
    .bf16 = FV_BF16_SUMS,
    .bf16_inputs = 1u << LOGITS,
    FV_CASES(cases),
};

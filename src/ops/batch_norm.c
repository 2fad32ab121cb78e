/*
 * Over all N elements of each channel of x [n, c, ...]:
 *   m = mean(x),  v = mean((x - m)^2),  s = 1/sqrt(v + eps),  h = (x - m) s,  y = h gamma + beta.
 * As in layer_norm.c, with gamma the same for all elements of a channel,
 *   dx = gamma s (g - mean(g) - h mean(g h)):  terms 0, 1, 2;
 * m and v are results too: dm/dx = 1/N and dv/dx = 2 (x - m) / N give terms 3 and 4.
 *   dgamma = sum(g h),  dbeta = sum(g).
 */
#include "fovea/image.h"
#include "kernels/image.h"
#include "ops/rows.h"

enum { X, GAMMA, BETA };
enum { Y, MEAN, VARIANCE };
enum { SAVED_X, SAVED_MEAN, SAVED_RSTD, SAVED_GAMMA };

typedef struct batch_norm_params {
    double eps;
} batch_norm_params;

fv_tensor *fv_batch_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, fv_tensor *beta, double eps,
                         fv_tensor **mean, fv_tensor **variance)
{
    const batch_norm_params params = {eps};
    fv_tensor *out[3];
    fv_op_apply_many(ctx, FV_OP_BATCH_NORM, 3, (fv_tensor *[]){x, gamma, beta}, &params, 3, out);
    if (mean) *mean = out[MEAN];
    if (variance) *variance = out[VARIANCE];
    return out[Y];
}

static fv_status infer(fv_op_run *run)
{
    const batch_norm_params *params = run->params;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, X, 2, FV_MAX_RANK));
    if (!(params->eps >= 0.0))
        return fv_op_error(run, FV_ERR_ARGUMENT, "eps is %g, expected >= 0", params->eps);
    const fv_tensor *x = run->in[X];
    for (int i = GAMMA; i <= BETA; i++) {
        const fv_tensor *t = run->in[i];
        if (t && (t->rank != 1 || t->shape[0] != x->shape[1]))
            return fv_op_mismatch(run, X, i,
                                  "do not match: scale and shift need one entry for "
                                  "each channel");
    }
    run->n_out = 3;
    fv_spec_like(run, Y, X);
    fv_spec_set(run, MEAN, x->dtype, 1, &x->shape[1]);
    fv_spec_set(run, VARIANCE, x->dtype, 1, &x->shape[1]);
    return FV_OK;
}

static fv_batch_norm_args args_of(const fv_tensor *x, double eps)
{
    return (fv_batch_norm_args){
        .batch = x->shape[0], .channels = x->shape[1], .inner = fv_inner_count(x, 1), .eps = eps};
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const batch_norm_params *params = run->params;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *gamma, *beta;
    void *gamma_data = fv_optional_data(ctx, run->in[GAMMA], &gamma);
    void *beta_data = fv_optional_data(ctx, run->in[BETA], &beta);
    fv_tensor *rstd = fv_tensor_new(ctx, run->in[X]->dtype, 1, &run->in[X]->shape[1]);
    if (ctx->error != FV_OK) return;
    const fv_batch_norm_args args = args_of(x, params->eps);
    if (args.channels > 0)
        fv_launch(ctx, FV_KERNEL_BATCH_NORM, x->dtype,
                  (void *[]){run->out[Y]->data, run->out[MEAN]->data, run->out[VARIANCE]->data,
                             rstd->data, x->data, gamma_data, beta_data},
                  &args, sizeof args);
    fv_save(run, SAVED_X, x);
    fv_save(run, SAVED_MEAN, run->out[MEAN]);
    fv_save(run, SAVED_RSTD, rstd);
    fv_save(run, SAVED_GAMMA, gamma);
    fv_drop_copy(ctx, beta, run->in[BETA]);
    if (run->recording) return;
    fv_tensor_free(ctx, &rstd);
    fv_drop_copy(ctx, x, run->in[X]);
    fv_drop_copy(ctx, gamma, run->in[GAMMA]);
}

static void *data_of(fv_ctx *ctx, fv_tensor *t)
{
    t = t ? fv_contiguous_raw(ctx, t) : NULL;
    return t && ctx->error == FV_OK ? t->data : NULL;
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *x = back->saved[SAVED_X], *gamma = back->saved[SAVED_GAMMA], *d[3] = {NULL};
    fv_tensor *g = back->grad[Y] ? fv_contiguous_raw(ctx, back->grad[Y])
                                 : fv_zeros(ctx, x->dtype, x->rank, x->shape);
    void *g_mean = data_of(ctx, back->grad[MEAN]), *g_var = data_of(ctx, back->grad[VARIANCE]);
    for (int i = X; i <= BETA; i++)
        if (fv_back_wants(back, i)) d[i] = fv_back_new(back, i);
    if (ctx->error != FV_OK) return;
    const fv_batch_norm_args args = args_of(x, 0);
    if (args.channels > 0)
        fv_launch(ctx, FV_KERNEL_BATCH_NORM_GRAD, x->dtype,
                  (void *[]){d[X] ? d[X]->data : NULL, d[GAMMA] ? d[GAMMA]->data : NULL,
                             d[BETA] ? d[BETA]->data : NULL, g->data, x->data,
                             back->saved[SAVED_MEAN]->data, back->saved[SAVED_RSTD]->data,
                             gamma ? gamma->data : NULL, g_mean, g_var},
                  &args, sizeof args);
    for (int i = X; i <= BETA; i++)
        if (d[i]) fv_back_send(back, i, d[i]);
}

static const batch_norm_params usual = {1e-5}, large = {0.1};

static const fv_op_case cases[] = {
    {.name = "images",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 3, 2, 3), FV_IN(NORMAL, 3), FV_IN(NORMAL, 3)}},
    {.name = "plain",
     .params = &large,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 3, 2, 4), FV_IN_NONE, FV_IN_NONE}},
    {.name = "rows",
     .params = &large,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 5, 3), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "no batch",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 3, 2), FV_IN(NORMAL, 3), FV_IN(NORMAL, 3)}},
};

const fv_op_desc fv_op_batch_norm = {
    .id = FV_OP_BATCH_NORM,
    .name = "batch_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) gamma + beta, each channel over the batch",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .params_bytes = sizeof(batch_norm_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 5,
    FV_CASES(cases),
};

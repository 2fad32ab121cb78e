/*
 * Over the last axis, of length D:
 *   m = mean(x),  s = 1/sqrt(mean((x - m)^2) + eps),  h = (x - m) s,  y = h gamma + beta.
 * With u = g gamma:
 *   dh_j/dx_i = s ([i = j] - 1/D - h_i h_j / D), the last from ds/dx_i = -s^2 h_i / D, hence
 *   dx = s (u - mean(u) - h mean(u h)):   terms 0, 1, 2.
 *   dgamma = the sum over rows of g h,  dbeta = the sum over rows of g.
 */
#include "kernels/rows.h"
#include "ops/norm_params.h"
#include "ops/rows.h"

enum { X, GAMMA, BETA };
enum { SAVED_X, SAVED_MEAN, SAVED_RSTD, SAVED_GAMMA };

fv_tensor *fv_layer_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, fv_tensor *beta, double eps)
{
    const fv_norm_params params = {eps};
    return fv_op_apply(ctx, FV_OP_LAYER_NORM, 3, (fv_tensor *[]){x, gamma, beta}, &params);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const fv_norm_params *params = run->params;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *gamma, *beta;
    void *gamma_data = fv_optional_data(ctx, run->in[GAMMA], &gamma);
    void *beta_data = fv_optional_data(ctx, run->in[BETA], &beta);
    const int64_t rows = fv_row_count(x);
    fv_tensor *mean = NULL, *rstd = NULL;
    if (run->recording) {
        const fv_dtype wide = fv_wide_dtype(x->dtype);
        mean = fv_tensor_new(ctx, wide, 1, &rows);
        rstd = fv_tensor_new(ctx, wide, 1, &rows);
    }
    if (ctx->error != FV_OK) return;
    const fv_norm_args args = {.rows = rows, .cols = x->shape[x->rank - 1], .eps = params->eps};
    if (x->count > 0)
        fv_launch(ctx, FV_KERNEL_LAYER_NORM, x->dtype,
                  (void *[]){run->out[0]->data, mean ? mean->data : NULL, rstd ? rstd->data : NULL,
                             x->data, gamma_data, beta_data},
                  &args, sizeof args);
    fv_save(run, SAVED_X, x);
    fv_save(run, SAVED_MEAN, mean);
    fv_save(run, SAVED_RSTD, rstd);
    fv_save(run, SAVED_GAMMA, gamma);
    fv_drop_copy(ctx, beta, run->in[BETA]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *x = back->saved[SAVED_X], *mean = back->saved[SAVED_MEAN];
    fv_tensor *rstd = back->saved[SAVED_RSTD], *gamma = back->saved[SAVED_GAMMA];
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    if (fv_back_wants(back, X)) {
        fv_tensor *dx = fv_back_new(back, X);
        if (ctx->error != FV_OK) return;
        const fv_norm_args args = {.rows = fv_row_count(x), .cols = x->shape[x->rank - 1]};
        if (x->count > 0)
            fv_launch(ctx, FV_KERNEL_LAYER_NORM_GRAD, x->dtype,
                      (void *[]){dx->data, g->data, x->data, mean->data, rstd->data,
                                 gamma ? gamma->data : NULL},
                      &args, sizeof args);
        fv_back_send(back, X, dx);
    }
    if (ctx->error == FV_OK) fv_norm_send_params(back, BETA, g, x, mean, rstd);
}

static const fv_norm_params usual = {1e-5}, large = {0.1};

static const fv_op_case cases[] = {
    {.name = "rows",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 3, 5), FV_IN(NORMAL, 5), FV_IN(NORMAL, 5)}},
    {.name = "plain",
     .params = &large,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 4), FV_IN_NONE, FV_IN_NONE}},
    {.name = "one row",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 6), FV_IN(NORMAL, 6), FV_IN_NONE}},
    {.name = "beta alone",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 3), FV_IN_NONE, FV_IN(NORMAL, 3)}},
    {.name = "no rows",
     .params = &usual,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 3), FV_IN(NORMAL, 3), FV_IN(NORMAL, 3)}},
};

const fv_op_desc fv_op_layer_norm = {
    .id = FV_OP_LAYER_NORM,
    .name = "layer_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) gamma + beta",
    .min_in = 3,
    .max_in = 3,
    .params_bytes = sizeof(fv_norm_params),
    .infer = fv_norm_infer,
    .forward = forward,
    .backward = backward,
    .terms = 3,
    .bf16 = FV_BF16_FOLLOWS,
    .bf16_inputs = 1u << X,
    FV_CASES(cases),
};

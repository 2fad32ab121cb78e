/*
 * Over the last axis, of length D:  s = 1/sqrt(mean(x^2) + eps),  h = x s,  y = h gamma.
 * With u = g gamma:
 *   dh_j/dx_i = s ([i = j] - h_i h_j / D), the last from ds/dx_i = -s^2 h_i / D, hence
 *   dx = s (u - h mean(u h)):   terms 0 and 1.
 *   dgamma = the sum over rows of g h.
 */
#include "kernels/rows.h"
#include "ops/norm_params.h"
#include "ops/rows.h"

enum { X, GAMMA };
enum { SAVED_X, SAVED_RRMS, SAVED_GAMMA };

fv_tensor *fv_rms_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, double eps)
{
    const fv_norm_params params = {eps};
    return fv_op_apply(ctx, FV_OP_RMS_NORM, 2, (fv_tensor *[]){x, gamma}, &params);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const fv_norm_params *params = run->params;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *gamma;
    void *gamma_data = fv_optional_data(ctx, run->in[GAMMA], &gamma);
    const int64_t rows = fv_row_count(x);
    fv_tensor *rrms = run->recording ? fv_tensor_new(ctx, fv_wide_dtype(x->dtype), 1, &rows) : NULL;
    if (ctx->error != FV_OK) return;
    const fv_norm_args args = {.rows = rows, .cols = x->shape[x->rank - 1], .eps = params->eps};
    if (x->count > 0)
        fv_launch(ctx, FV_KERNEL_RMS_NORM, x->dtype,
                  (void *[]){run->out[0]->data, rrms ? rrms->data : NULL, x->data, gamma_data},
                  &args, sizeof args);
    fv_save(run, SAVED_X, x);
    fv_save(run, SAVED_RRMS, rrms);
    fv_save(run, SAVED_GAMMA, gamma);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *x = back->saved[SAVED_X], *rrms = back->saved[SAVED_RRMS];
    fv_tensor *gamma = back->saved[SAVED_GAMMA];
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    if (fv_back_wants(back, X)) {
        fv_tensor *dx = fv_back_new(back, X);
        if (ctx->error != FV_OK) return;
        const fv_norm_args args = {.rows = fv_row_count(x), .cols = x->shape[x->rank - 1]};
        if (x->count > 0)
            fv_launch(
                ctx, FV_KERNEL_RMS_NORM_GRAD, x->dtype,
                (void *[]){dx->data, g->data, x->data, rrms->data, gamma ? gamma->data : NULL},
                &args, sizeof args);
        fv_back_send(back, X, dx);
    }
    if (ctx->error == FV_OK) fv_norm_send_params(back, -1, g, x, NULL, rrms);
}

static const fv_norm_params usual = {1e-6}, large = {0.1};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &usual, .n_in = 2, .in = {FV_IN(NORMAL, 3, 5), FV_IN(NORMAL, 5)}},
    {.name = "plain", .params = &large, .n_in = 2, .in = {FV_IN(NORMAL, 2, 2, 4), FV_IN_NONE}},
    {.name = "one row", .params = &usual, .n_in = 2, .in = {FV_IN(NORMAL, 6), FV_IN(NORMAL, 6)}},
    {.name = "no rows", .params = &usual, .n_in = 2, .in = {FV_IN(NORMAL, 0, 3), FV_IN(NORMAL, 3)}},
};

const fv_op_desc fv_op_rms_norm = {
    .id = FV_OP_RMS_NORM,
    .name = "rms_norm",
    .formula = "y = x / sqrt(mean(x^2) + eps) gamma",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(fv_norm_params),
    .infer = fv_norm_infer,
    .forward = forward,
    .backward = backward,
    .terms = 2,
    .bf16 = FV_BF16_FOLLOWS,
    .bf16_inputs = 1u << X,
    FV_CASES(cases),
};

/*
 * The k largest entries of each row, descending, and their indices (equal entries in index order).
 *   Each value copies one entry of x: dx[index[i]] = g[i], 0 elsewhere.
 */
#include "kernels/index.h"
#include "kernels/rows.h"
#include "ops/rows.h"

typedef struct topk_params {
    int64_t k;
} topk_params;

fv_tensor *fv_topk(fv_ctx *ctx, fv_tensor *x, int64_t k, fv_tensor **indices)
{
    const topk_params params = {k};
    fv_tensor *out[2];
    fv_op_apply_many(ctx, FV_OP_TOPK, 1, &x, &params, 2, out);
    if (indices) *indices = out[1];
    return out[0];
}

static fv_status infer(fv_op_run *run)
{
    const topk_params *params = run->params;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_rank(run, 0, 1, FV_MAX_RANK));
    const fv_tensor *x = run->in[0];
    if (params->k < 0 || params->k > x->shape[x->rank - 1])
        return fv_op_error(run, FV_ERR_ARGUMENT, "k is %lld, expected 0 to %lld",
                           (long long)params->k, (long long)x->shape[x->rank - 1]);
    run->n_out = 2;
    for (int k = 0; k < 2; k++) {
        fv_spec_like(run, k, 0);
        run->spec[k].view_of = -1;
        run->spec[k].shape[x->rank - 1] = params->k;
    }
    run->spec[1].dtype = FV_I64;
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const topk_params *params = run->params;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[0]), *values = run->out[0], *index = run->out[1];
    if (ctx->error != FV_OK) return;
    const fv_topk_args args = {
        .rows = fv_row_count(x), .cols = x->shape[x->rank - 1], .k = params->k};
    if (values->count > 0)
        fv_launch(ctx, FV_KERNEL_TOPK, x->dtype, (void *[]){values->data, index->data, x->data},
                  &args, sizeof args);
    fv_save(run, 0, index);
    fv_drop_copy(ctx, x, run->in[0]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *index = back->saved[0], *g = fv_contiguous_raw(ctx, back->grad[0]);
    bool accumulate;
    fv_tensor *dx = fv_back_dest(back, 0, &accumulate);
    if (ctx->error != FV_OK) return;
    if (!accumulate) fv_fill(ctx, dx, 0.0);
    const fv_gather_args args = {.outer = fv_row_count(dx),
                                 .size = dx->shape[dx->rank - 1],
                                 .count = index->shape[index->rank - 1],
                                 .inner = 1};
    if (g->count > 0)
        fv_launch(ctx, FV_KERNEL_SCATTER_ADD, dx->dtype, (void *[]){dx->data, g->data, index->data},
                  &args, sizeof args);
    fv_back_commit(back, 0, dx, accumulate);
}

static const topk_params none = {0}, one = {1}, three = {3};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &three, .n_in = 1, .in = {FV_IN(APART, 2, 6)}},
    {.name = "all", .params = &three, .n_in = 1, .in = {FV_IN(APART, 3)}},
    {.name = "best", .params = &one, .n_in = 1, .in = {FV_IN(APART, 2, 2, 3)}},
    {.name = "none", .params = &none, .n_in = 1, .in = {FV_IN(APART, 2, 3)}},
    {.name = "no rows", .params = &one, .n_in = 1, .in = {FV_IN(APART, 0, 3)}},
};

const fv_op_desc fv_op_topk = {
    .id = FV_OP_TOPK,
    .name = "topk",
    .formula = "the k largest along the last axis, descending, and their indices",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .params_bytes = sizeof(topk_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

/* Attention without parameters, for vectors that are not split into heads. */
#include "attention/attention.h"

/* [n, d] or [batch, n, d] as [batch, 1, n, d]. */
static fv_tensor *one_head(fv_ctx *ctx, fv_tensor *x)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank != 2 && x->rank != 3) {
        fv_poison(ctx, FV_ERR_SHAPE, "attention: rank %d, expected [n, d] or [batch, n, d]",
                  x->rank);
        return ctx->invalid;
    }
    x = fv_unsqueeze(ctx, x, 0);
    return x->rank == 3 ? fv_unsqueeze(ctx, x, 0) : fv_transpose(ctx, x, 0, 1);
}

/* And back to the rank it had. */
static fv_tensor *without_head(fv_ctx *ctx, fv_tensor *x, int rank)
{
    x = fv_squeeze(ctx, x, 1);
    return rank == 2 ? fv_squeeze(ctx, x, 0) : x;
}

fv_tensor *fv_attention_lookup(fv_ctx *ctx, fv_tensor *queries, fv_tensor *keys, fv_tensor *values,
                               double temperature, fv_tensor **weights)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_DOT;
    how.temperature = temperature;
    how.want_weights = weights != NULL;
    if (weights) *weights = ctx->invalid;
    const int rank = fv_tensor_rank(queries);
    const fv_attention_input in = {
        .q = one_head(ctx, queries), .k = one_head(ctx, keys), .v = one_head(ctx, values)};
    fv_attention_result r;
    fv_tensor *y = fv_attention_run(ctx, &in, &how, &r);
    if (weights && ctx->error == FV_OK) *weights = without_head(ctx, r.weights, rank);
    return ctx->error == FV_OK ? without_head(ctx, y, rank) : ctx->invalid;
}

fv_tensor *fv_attention_basic(fv_ctx *ctx, fv_tensor *x, fv_tensor **weights)
{
    return fv_attention_lookup(ctx, x, x, x, 1.0, weights);
}

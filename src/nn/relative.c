/* Relative positions: the table row of each pair of positions, as a bias or as Shaw's vectors. */
#include <math.h>

#include "fovea/layers.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

int64_t fv_relative_rows(const fv_relative *r)
{
    const int64_t limit = (int64_t)1 << 40;
    switch (r->kind) {
    case FV_RELATIVE_CLIPPED:
        return r->max_distance >= 0 && r->max_distance < limit ? 2 * r->max_distance + 1 : 0;
    case FV_RELATIVE_T5: {
        const int64_t exact = r->buckets / (r->bidirectional ? 4 : 2);
        return exact >= 1 && r->buckets < limit && r->max_distance >= 1 && r->max_distance < limit
                   ? r->buckets
                   : 0;
    }
    }
    return 0;
}

static int64_t clipped_row(const fv_relative *r, int64_t distance)
{
    if (r->reversed) distance = -distance;
    const int64_t d = distance < -r->max_distance  ? -r->max_distance
                      : distance > r->max_distance ? r->max_distance
                                                   : distance;
    return d + r->max_distance;
}

/*
 * With max_distance below the number of exact buckets, the logarithm is negative and the rows of
 * far distances fall again, which is what Hugging Face's formula gives; where it leaves the table,
 * or is 0 / 0 for max_distance = exact, the last or first row is used.
 *
 * In float, because the models that were trained with it computed it so: in double a few distances
 * would fall into a neighbouring bucket.
 */
static int64_t t5_row(const fv_relative *r, int64_t distance)
{
    int64_t row = 0, buckets = r->buckets;
    if (r->bidirectional) {
        buckets /= 2;
        if (distance > 0) row = buckets;
        distance = distance < 0 ? -distance : distance;
    } else {
        distance = distance < 0 ? -distance : 0;
    }
    const int64_t exact = buckets / 2;
    if (distance < exact) return row + distance;
    if (r->max_distance == exact) return row + buckets - 1;
    const float span = (float)log((double)r->max_distance / (double)exact);
    const float share = logf((float)distance / (float)exact) / span;
    const int64_t far = exact + (int64_t)(share * (float)(buckets - exact));
    return row + (far < 0 ? 0 : far < buckets - 1 ? far : buckets - 1);
}

fv_tensor *fv_relative_index(fv_ctx *ctx, const fv_relative *r, int64_t q_offset, int64_t n_q,
                             int64_t n_k)
{
    const int64_t shape[2] = {n_q, n_k};
    if (ctx->error == FV_OK && fv_relative_rows(r) == 0)
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "relative positions: kind %d, max_distance %lld, %lld buckets", (int)r->kind,
                  (long long)r->max_distance, (long long)r->buckets);
    int64_t *x = fv_host_alloc(ctx, FV_I64, 2, shape);
    for (int64_t i = 0; x && i < n_q; i++)
        for (int64_t j = 0; j < n_k; j++)
            x[i * n_k + j] = r->kind == FV_RELATIVE_T5 ? t5_row(r, j - (q_offset + i))
                                                       : clipped_row(r, j - (q_offset + i));
    return fv_host_tensor(ctx, FV_I64, x, 2, shape, FV_I64);
}

static fv_status check_table(fv_ctx *ctx, const fv_relative *r, const fv_tensor *table)
{
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t rows = fv_relative_rows(r);
    if (table->rank == 2 && table->shape[0] == rows) return FV_OK;
    char text[FV_SHAPE_TEXT];
    return fv_poison(ctx, FV_ERR_SHAPE,
                     "relative positions: the table has shape %s, expected [%lld, ...]",
                     fv_shape_text(text, table->rank, table->shape), (long long)rows);
}

fv_tensor *fv_relative_bias(fv_ctx *ctx, fv_tensor *table, const fv_relative *r, int64_t q_offset,
                            int64_t n_q, int64_t n_k)
{
    if (check_table(ctx, r, table) != FV_OK) return ctx->invalid;
    fv_tensor *index = fv_relative_index(ctx, r, q_offset, n_q, n_k);
    return fv_permute(ctx, fv_embedding(ctx, table, index, -1), (int[]){2, 0, 1});
}

/* The table row of each (query, key) pair, repeated for every batch and head of `shape_of` [batch,
 * heads, n_q, ...]. */
static fv_tensor *broadcast_index(fv_ctx *ctx, const fv_relative *r, const fv_tensor *shape_of,
                                  int64_t q_offset, int64_t n_k)
{
    const int64_t shape[4] = {shape_of->shape[0], shape_of->shape[1], shape_of->shape[2], n_k};
    return fv_broadcast(ctx, fv_relative_index(ctx, r, q_offset, shape[2], n_k), 4, shape);
}

static fv_status check_rank(fv_ctx *ctx, const fv_tensor *t)
{
    if (ctx->error != FV_OK || t->rank == 4) return ctx->error;
    return fv_poison(ctx, FV_ERR_SHAPE,
                     "relative positions: rank %d, expected 4: [batch, heads, n_q, ...]", t->rank);
}

fv_tensor *fv_relative_key_scores(fv_ctx *ctx, fv_tensor *q, fv_tensor *table, const fv_relative *r,
                                  int64_t q_offset, int64_t n_k)
{
    if (check_table(ctx, r, table) != FV_OK || check_rank(ctx, q) != FV_OK) return ctx->invalid;
    fv_tensor *products = fv_linear(ctx, q, table, NULL); /* of q with every table row */
    return fv_gather(ctx, products, broadcast_index(ctx, r, q, q_offset, n_k), -1);
}

fv_tensor *fv_relative_value_sums(fv_ctx *ctx, fv_tensor *weights, fv_tensor *table,
                                  const fv_relative *r, int64_t q_offset)
{
    if (check_table(ctx, r, table) != FV_OK || check_rank(ctx, weights) != FV_OK)
        return ctx->invalid;
    const int64_t shape[4] = {weights->shape[0], weights->shape[1], weights->shape[2],
                              table->shape[0]};
    /* Sums the weights of all keys that use the same table row, so that one product with the table
     * is enough. */
    fv_tensor *zeros = fv_zeros(ctx, weights->dtype, 4, shape);
    fv_tensor *index = broadcast_index(ctx, r, weights, q_offset, weights->shape[3]);
    return fv_matmul(ctx, fv_scatter_add(ctx, zeros, index, weights, -1), table);
}

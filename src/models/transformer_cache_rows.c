/* Copies, drops and reorders rows of a cache, as searches need it. */
#include <string.h>

#include "models/transformer_cache.h"
#include "tensor/launch.h"

/* The used part of a layer's tensor in a new order. */
static fv_tensor *reordered(fv_ctx *ctx, const fv_cache *c, const fv_tensor *t, int64_t rows,
                            const int64_t *from, int64_t n)
{
    fv_tensor *to =
        fv_tensor_new(ctx, t->dtype, 4, (int64_t[]){rows, t->shape[1], t->shape[2], t->shape[3]});
    for (int64_t i = 0; i < rows && ctx->error == FV_OK && n > 0; i++) {
        const int64_t used = c->length[from[i]];
        if (used == 0) continue;
        fv_copy_into(ctx, fv_cache_part(ctx, to, i, 1, 0, used),
                     fv_cache_part(ctx, t, from[i], 1, 0, used));
    }
    return to;
}

static void reorder_layer(fv_cache *c, fv_cache_layer *l, int64_t rows, const int64_t *from)
{
    fv_ctx *ctx = c->ctx;
    const int64_t n = fv_cache_longest(c);
    fv_scope_begin(ctx);
    fv_tensor *k = reordered(ctx, c, l->k, rows, from, n);
    if (ctx->error == FV_OK) fv_cache_replace(&l->k, k);
    fv_tensor *v = reordered(ctx, c, l->v, rows, from, n);
    if (ctx->error == FV_OK) fv_cache_replace(&l->v, v);
    fv_scope_end(ctx);
}

/* Source keys are gathered again only when the list of sources changes, not while beams change. */
static void choose_sources(fv_cache *c, int64_t rows, const int64_t *from)
{
    fv_ctx *ctx = c->ctx;
    bool same = rows == c->rows;
    for (int64_t i = 0; i < rows; i++) {
        c->chosen[i] = c->source[from[i]];
        same = same && c->chosen[i] == c->source[i];
    }
    if (same || !c->source_length) return;
    fv_scope_begin(ctx);
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &rows, c->chosen);
    for (int64_t i = 0; i < c->model->decoder.layers && ctx->error == FV_OK; i++) {
        fv_cache_layer *l = &c->layers[i];
        fv_tensor *k = fv_index_select(ctx, l->cross_k, index, 0);
        fv_tensor *v = fv_index_select(ctx, l->cross_v, index, 0);
        if (ctx->error != FV_OK) break;
        fv_cache_replace(&l->now_k, k);
        fv_cache_replace(&l->now_v, v);
    }
    fv_scope_end(ctx);
}

static void choose_lengths(fv_cache *c)
{
    fv_ctx *ctx = c->ctx;
    if (!c->source_length || ctx->error != FV_OK) return;
    for (int64_t i = 0; i < c->rows; i++)
        c->chosen[i] = c->source_length[c->source[i]];
    fv_scope_begin(ctx);
    fv_tensor *length = fv_cache_by_row(ctx, c, c->chosen);
    if (ctx->error == FV_OK) fv_cache_replace(&c->now_length, length);
    fv_scope_end(ctx);
}

fv_status fv_cache_select(fv_cache *c, int64_t rows, const int64_t *from)
{
    fv_ctx *ctx = c->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(rows < 1, ctx, FV_ERR_ARGUMENT, "cache: %lld rows", (long long)rows);
    for (int64_t i = 0; i < rows; i++)
        FV_RETURN_IF(from[i] < 0 || from[i] >= c->rows, ctx, FV_ERR_INDEX,
                     "cache: row %lld of %lld", (long long)from[i], (long long)c->rows);
    FV_TRY(fv_cache_reserve_rows(c, rows));
    bool same = rows <= c->rows;
    for (int64_t i = 0; i < rows; i++)
        same = same && from[i] == i;
    for (int64_t i = 0; i < c->model->decoder.layers && !same && ctx->error == FV_OK; i++)
        reorder_layer(c, &c->layers[i], rows, from);
    choose_sources(c, rows, from);
    if (ctx->error != FV_OK) return ctx->error;
    memcpy(c->source, c->chosen, (size_t)rows * sizeof *c->source);
    for (int64_t i = 0; i < rows; i++)
        c->chosen[i] = c->length[from[i]];
    memcpy(c->length, c->chosen, (size_t)rows * sizeof *c->length);
    c->rows = rows;
    choose_lengths(c);
    return ctx->error;
}

/*
 * An encoder of sets: vectors without positions, then blocks of self-attention. Permuting the
 * inputs of a row permutes its states and leaves the summary, their mean, as it is.
 *
 *     x = W e + b;  x = block(x), model.layers times;  h = norm(x);  summary = mean(h)
 *
 * e is a token's embedding or, where the field "source" holds vectors, the vector itself, of width
 * model.embedding. States have model.encoder_hidden elements.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "models/parts/parts.h"
#include "nn/weights.h"
#include "ops/draw.h"

/* Width of a head, as in most Transformers; a width that is no multiple of it has one head. */
enum { HEAD = 64 };

typedef struct set_encoder {
    int64_t vector; /* width of an input */
    int layers;
    double dropout;
    fv_tensor *embedding;
    fv_dense projection;
    fv_block block[FV_RNN_LAYERS];
    fv_norm_layer norm;
} set_encoder;

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    set_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    e->vector = c->embedding;
    e->layers = c->layers;
    e->dropout = c->dropout;
    e->embedding = fv_source_embedding(params, c);
    return ctx->error;
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    set_encoder *e = self;
    const int64_t width = c->encoder_hidden;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, width, width % HEAD ? 1 : width / HEAD);
    cfg.dropout = c->dropout;
    FV_TRY(fv_dense_create(params, "encoder.projection", c->embedding, width, true, 0,
                           &e->projection));
    for (int i = 0; i < c->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.block.%d", i);
        FV_TRY(fv_block_create(params, name, &cfg, &e->block[i]));
    }
    return fv_norm_layer_create(params, "encoder.norm", width, FV_NORM_LAYER, true, cfg.eps,
                                &e->norm);
}

static void destroy(fv_ctx *ctx, void *self) { fv_mem_free(&ctx->mem, self, sizeof(set_encoder)); }

static int64_t width(const fv_seq2seq_config *c) { return c->encoder_hidden; }

/* ---- encoding ------------------------------------------------------------------------------- */

/* The rows of a batch one after the other. */
typedef struct rows {
    const fv_field *field;
    fv_packed_sequences packed;
    int64_t *begin; /* [rows + 1]: where each row starts */
    int64_t *order; /* [all]: packed row -> row of this one */
} rows;

static size_t index_count(const rows *r)
{
    return (size_t)r->packed.sequences + 1 + (size_t)r->packed.total;
}

static void rows_free(fv_ctx *ctx, rows *r)
{
    if (r->begin) fv_mem_free(&ctx->mem, r->begin, index_count(r) * sizeof *r->begin);
    fv_packed_free(&r->packed);
}

static fv_status rows_make(fv_ctx *ctx, const fv_field *field, int64_t count, rows *r)
{
    *r = (rows){.field = field, .packed = {.ctx = ctx}};
    FV_TRY(fv_pack_sequences(ctx, count, field->length, &r->packed));
    const fv_packed_sequences *p = &r->packed;
    r->begin = fv_mem_alloc(&ctx->mem, index_count(r) * sizeof *r->begin);
    FV_RETURN_IF(!r->begin, ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)p->total);
    r->order = r->begin + count + 1;
    r->begin[0] = 0;
    for (int64_t i = 0; i < count; i++)
        r->begin[i + 1] = r->begin[i] + field->length[i];
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            r->order[p->first[t] + i] = r->begin[p->order[i]] + t;
    return FV_OK;
}

/* All entries of the field, [all] or [all, width]. */
static fv_tensor *entries(fv_ctx *ctx, const rows *r)
{
    const fv_field *f = r->field;
    const int64_t shape[] = {r->packed.total, f->rank ? f->shape[0] : 1};
    size_t one = fv_dtype_size(f->dtype), bytes = 0;
    char *all = NULL;
    if (fv_checked_mul_size(one, (size_t)shape[1], &one) &&
        fv_checked_mul_size(one, (size_t)shape[0], &bytes))
        all = fv_mem_alloc(&ctx->mem, bytes);
    if (!all) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)shape[0]);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < r->packed.sequences; i++)
        memcpy(all + (size_t)r->begin[i] * one, f->row[i], (size_t)f->length[i] * one);
    fv_tensor *t = fv_from_host(ctx, f->dtype, 1 + f->rank, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return t;
}

/* Rows are documents of one long row, so that a row's states do not depend on the others. */
static fv_tensor *run(fv_ctx *ctx, const set_encoder *e, const rows *r, bool training)
{
    const int64_t ends = r->packed.sequences + 1;
    fv_tensor *before = ctx->draw_numbers;
    if (training)
        fv_draw_numbers_set(ctx, fv_draw_numbers_of(ctx, r->packed.sequences, r->field->length));
    fv_tensor *begin = fv_from_host(ctx, FV_I64, 1, &ends, r->begin), *x = entries(ctx, r);
    if (r->field->rank == 0) x = fv_embedding(ctx, e->embedding, x, -1);
    if (training) x = fv_dropout(ctx, x, e->dropout);
    x = fv_unsqueeze(ctx, fv_dense_run(ctx, &e->projection, x), 0);
    for (int i = 0; i < e->layers; i++) {
        const fv_block_input in = {
            .x = x, .q_begin = begin, .k_begin = begin, .training = training};
        x = fv_block_run(ctx, &e->block[i], &in, NULL);
    }
    fv_draw_numbers_set(ctx, before);
    x = fv_squeeze(ctx, fv_norm_layer_run(ctx, &e->norm, x), 0);
    return fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &r->packed.total, r->order), 0);
}

static fv_status encode_rows(fv_ctx *ctx, const set_encoder *e, const rows *r,
                             const fv_encode_call *call, fv_memory *out)
{
    const fv_packed_sequences *p = &r->packed;
    fv_tensor *h = run(ctx, e, r, call->training);
    out->summary = fv_packed_pool(ctx, p, h, FV_POOL_MEAN);
    if (call->order)
        out->summary = fv_index_select(ctx, out->summary,
                                       fv_from_host(ctx, FV_I64, 1, &p->sequences, call->order), 0);
    fv_memory_from_packed(ctx, h, p, call, out);
    return ctx->error;
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const set_encoder *e = self;
    const fv_field *field = fv_batch_find(batch, "source");
    rows r;
    *out = (fv_memory){.n = 0};
    FV_RETURN_IF(!field || !field->length, ctx, FV_ERR_ARGUMENT,
                 "encoder: the batch has no sequences \"source\"");
    const bool tokens = field->rank == 0 && field->dtype == FV_I64;
    const bool vectors = field->rank == 1 && field->dtype == FV_F32 && field->shape[0] == e->vector;
    FV_RETURN_IF(!tokens && !vectors, ctx, FV_ERR_ARGUMENT,
                 "encoder: \"source\" must hold tokens, or vectors of width %lld (f32)",
                 (long long)e->vector);
    if (batch->rows == 0) return FV_OK;
    fv_status status = rows_make(ctx, field, batch->rows, &r);
    if (status == FV_OK) status = encode_rows(ctx, e, &r, call, out);
    rows_free(ctx, &r);
    return status;
}

const fv_encoder_part fv_encoder_set = {
    .name = "set",
    .summary = "self-attention without positions, for inputs whose order has no meaning",
    .field = "source",
    .reads_tokens = true,
    .axis = FV_AXIS_POINTS,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
};

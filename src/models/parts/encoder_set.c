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

#include "models/parts/documents.h"
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

/* Rows are documents of one long row, so that a row's states do not depend on the others. */
static fv_tensor *run(fv_ctx *ctx, const void *encoder, const fv_documents *r, bool training)
{
    const set_encoder *e = encoder;
    const int64_t ends = r->packed.sequences + 1;
    fv_tensor *before = ctx->draw_numbers;
    if (training)
        fv_draw_numbers_set(ctx, fv_draw_numbers_of(ctx, r->packed.sequences, r->field->length));
    fv_tensor *begin = fv_from_host(ctx, FV_I64, 1, &ends, r->begin);
    fv_tensor *x = fv_documents_embed(ctx, r, e->embedding);
    if (training) x = fv_dropout(ctx, x, e->dropout);
    x = fv_unsqueeze(ctx, fv_dense_run(ctx, &e->projection, x), 0);
    for (int i = 0; i < e->layers; i++) {
        const fv_block_input in = {
            .x = x, .q_begin = begin, .k_begin = begin, .training = training};
        x = fv_block_run(ctx, &e->block[i], &in, NULL);
    }
    fv_draw_numbers_set(ctx, before);
    return fv_squeeze(ctx, fv_norm_layer_run(ctx, &e->norm, x), 0);
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const set_encoder *e = self;
    return fv_documents_encode(ctx, e->vector, run, e, batch, call, out);
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

/*
 * An encoder of convolutions over the tokens (ConvS2S, Gehring et al. 2017; with growing dilations
 * ByteNet, Kalchbrenner et al. 2016), without recurrence: all positions at once.
 *
 *     x = W [e; p] + b
 *     x = x + a * sigma(g),  [a; g] = conv_i(x),  i = 0 .. model.conv_layers - 1   (conv_gated)
 *     x = x + tanh(conv_i(x))                                                      (otherwise)
 *     h = x;  summary = mean(h)
 *
 * e is the token's embedding, p its position, if any. A window has model.conv_window positions, and
 * in layer i a dilation of 2^i with model.conv_dilated. States have model.encoder_hidden elements.
 */
#include <stdio.h>

#include "models/parts/documents.h"
#include "models/parts/places.h"
#include "ops/draw.h"

typedef struct conv_encoder {
    int64_t vector; /* width of an input that is not a token */
    int layers;
    bool gated;
    double dropout;
    fv_tensor *embedding;
    fv_places places;
    fv_dense projection;
    fv_conv1d_layer layer[FV_CONV_LAYERS];
} conv_encoder;

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(c->conv_layers < 1 || c->conv_layers > FV_CONV_LAYERS || c->conv_window < 1 ||
                     c->conv_window > FV_CONV_WINDOW,
                 ctx, FV_ERR_ARGUMENT, "the conv encoder has 1 to %d layers and windows of 1 to %d",
                 (int)FV_CONV_LAYERS, (int)FV_CONV_WINDOW);
    FV_RETURN_IF(c->positions > FV_SEQ2SEQ_POSITIONS_LEARNED, ctx, FV_ERR_ARGUMENT,
                 "the conv encoder has positions none, sinusoid or learned");
    conv_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    e->vector = c->embedding;
    e->layers = c->conv_layers;
    e->gated = c->conv_gated;
    e->dropout = c->dropout;
    e->embedding = fv_source_embedding(params, c);
    return ctx->error;
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    conv_encoder *e = self;
    const int64_t width = c->encoder_hidden;
    FV_TRY(fv_places_create(params, "encoder", c, &e->places));
    FV_TRY(fv_dense_create(params, "encoder.projection", fv_places_width(c), width, true, 0,
                           &e->projection));
    for (int i = 0; i < e->layers; i++) {
        char name[32];
        const fv_conv1d_options options = {.causal = c->conv_causal,
                                           .dilation = c->conv_dilated ? (int64_t)1 << i : 1};
        snprintf(name, sizeof name, "encoder.conv.%d", i);
        FV_TRY(fv_conv1d_create(params, name, width, e->gated ? 2 * width : width, c->conv_window,
                                true, &options, &e->layer[i]));
    }
    return FV_OK;
}

static void destroy(fv_ctx *ctx, void *self) { fv_mem_free(&ctx->mem, self, sizeof(conv_encoder)); }

static int64_t width(const fv_seq2seq_config *c) { return c->encoder_hidden; }

/* ---- encoding ------------------------------------------------------------------------------- */

static fv_tensor *activate(fv_ctx *ctx, const conv_encoder *e, fv_tensor *x)
{
    if (!e->gated || ctx->error != FV_OK) return fv_tanh(ctx, x);
    const int64_t half = fv_tensor_size(x, 1) / 2;
    fv_tensor *gate = fv_sigmoid(ctx, fv_slice(ctx, x, 1, half, 2 * half, 1));
    return fv_mul(ctx, fv_slice(ctx, x, 1, 0, half, 1), gate);
}

/* Tokens and their positions, [total, places width]. */
static fv_tensor *inputs(fv_ctx *ctx, const conv_encoder *e, const fv_documents *d)
{
    fv_tensor *x = fv_documents_embed(ctx, d, e->embedding);
    fv_tensor *rows = fv_places_rows(ctx, &e->places, 0, d->packed.steps);
    if (!rows) return x;
    rows = fv_index_select(ctx, rows, fv_documents_places(ctx, d), 0);
    return fv_positions_apply(ctx, x, rows, e->places.how);
}

static fv_tensor *run(fv_ctx *ctx, const void *encoder, const fv_documents *d, bool training)
{
    const conv_encoder *e = encoder;
    fv_tensor *before = ctx->draw_numbers;
    if (training)
        fv_draw_numbers_set(ctx, fv_draw_numbers_of(ctx, d->packed.sequences, d->field->length));
    fv_tensor *x = inputs(ctx, e, d);
    if (training) x = fv_dropout(ctx, x, e->dropout);
    x = fv_dense_run(ctx, &e->projection, x);
    for (int i = 0; i < e->layers; i++) {
        fv_tensor *y = training ? fv_dropout(ctx, x, e->dropout) : x;
        y = fv_conv1d_run_varlen(ctx, &e->layer[i], y, d->packed.sequences, d->begin);
        x = fv_add(ctx, x, activate(ctx, e, y));
    }
    fv_draw_numbers_set(ctx, before);
    return x;
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const conv_encoder *e = self;
    return fv_documents_encode(ctx, e->vector, run, e, batch, call, out);
}

const fv_encoder_part fv_encoder_conv = {
    .name = "conv",
    .summary = "convolutions over the tokens, with residuals",
    .field = "source",
    .reads_tokens = true,
    .axis = FV_AXIS_TOKENS,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
};

#include "models/parts/decoder_rnn.h"

#include <math.h>
#include <stdio.h>

#include "nn/recurrent.h"
#include "nn/weights.h"
#include "ops/product.h"
#include "tensor/launch.h"

/* From this many rows on a pre-filter pays: computing one takes about as long as their logits. */
enum { PREFILTER_ROWS = 256 };

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_tensor *matrix(fv_params *params, const char *name, int64_t out, int64_t in)
{
    return fv_nn_weight(params, "", name, 2, (int64_t[]){out, in}, fv_init_xavier(in, out));
}

static fv_tensor *zeros(fv_params *params, const char *name, int64_t n)
{
    return fv_nn_weight(params, "", name, 1, &n, fv_init_constant(0));
}

fv_status fv_rnn_decoder_embedding(fv_params *params, const fv_seq2seq_config *c, void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_rnn_decoder *d = fv_mem_zalloc(&ctx->mem, sizeof *d);
    FV_RETURN_IF(!d, ctx, FV_ERR_MEMORY, "no memory for a decoder");
    *self = d;
    return fv_rnn_decoder_embedding_init(params, c, d);
}

fv_status fv_rnn_decoder_embedding_init(fv_params *params, const fv_seq2seq_config *c,
                                        fv_rnn_decoder *d)
{
    fv_ctx *ctx = fv_params_ctx(params);
    d->cfg = *c;
    d->embedding = fv_nn_weight(params, "decoder", "embedding.weight", 2,
                                (int64_t[]){c->target_tokens, c->embedding},
                                fv_init_normal(1.0 / sqrt((double)c->embedding)));
    return ctx->error;
}

/* The layers that turn the memory's summary into the first states. */
static void create_first(fv_params *params, int64_t memory_width, fv_rnn_decoder *d)
{
    const fv_seq2seq_config *c = &d->cfg;
    char name[64];
    for (int l = 0; l < c->layers; l++)
        for (int cell = 0; cell < (c->cell == FV_CELL_LSTM ? 2 : 1); cell++) {
            fv_tensor **to = cell ? d->first_c[l] : d->first_h[l];
            snprintf(name, sizeof name, "decoder.first_%s.%d.weight", cell ? "c" : "h", l);
            to[0] = matrix(params, name, c->hidden, memory_width);
            snprintf(name, sizeof name, "decoder.first_%s.%d.bias", cell ? "c" : "h", l);
            to[1] = zeros(params, name, c->hidden);
        }
}

fv_status fv_rnn_decoder_create_output(fv_params *params, int64_t memory_width,
                                       fv_rnn_decoder_shape shape, fv_rnn_decoder *d)
{
    static const int gates[FV_CELL_COUNT] = {1, 3, 4};
    const fv_seq2seq_config *c = &d->cfg;
    const int64_t wide = c->readout_width * (c->readout == FV_READOUT_MAXOUT ? 2 : 1);
    if (shape.feed)
        d->feed = matrix(params, "decoder.feed.weight", gates[c->cell] * c->hidden, shape.feed);
    d->read_state = matrix(params, "readout.state.weight", wide, c->hidden);
    d->read_context = matrix(params, "readout.context.weight", wide, memory_width);
    if (shape.reads_token)
        d->read_token = matrix(params, "readout.token.weight", wide, c->embedding);
    d->read_bias = zeros(params, "readout.bias", wide);
    d->output = c->tied ? d->embedding
                        : matrix(params, "output.weight", c->target_tokens, c->readout_width);
    d->output_bias = zeros(params, "output.bias", c->target_tokens);
    return fv_params_ctx(params)->error;
}

fv_status fv_rnn_decoder_create(fv_params *params, const fv_seq2seq_config *c, int64_t memory_width,
                                fv_rnn_decoder_shape shape, fv_rnn_decoder *d)
{
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = c->cell;
    rnn.layers = c->layers;
    rnn.input = c->embedding;
    rnn.dropout = c->dropout;
    rnn.hidden = c->hidden;
    FV_TRY(fv_rnn_create(params, "decoder.rnn", &rnn, &d->rnn));
    create_first(params, memory_width, d);
    d->attends = shape.attends;
    if (d->attends) fv_cross_attention_create(params, c, c->hidden, memory_width, &d->attention);
    return fv_rnn_decoder_create_output(params, memory_width, shape, d);
}

static void drop_tables(void *self)
{
    fv_rnn_decoder *d = self;
    fv_table_drop(&d->gates);
    fv_table_drop(&d->prefilter);
}

void fv_rnn_decoder_destroy(fv_ctx *ctx, void *self)
{
    drop_tables(self);
    fv_mem_free(&ctx->mem, self, sizeof(fv_rnn_decoder));
}

const fv_cross_attention *fv_rnn_decoder_attention(const void *self)
{
    const fv_rnn_decoder *d = self;
    return d->attends ? &d->attention : NULL;
}

/* ---- a step --------------------------------------------------------------------------------- */

fv_status fv_rnn_decoder_first_state(fv_ctx *ctx, void *self, const fv_memory *memory,
                                     fv_decoder_state *out)
{
    const fv_rnn_decoder *d = self;
    fv_decoder_state state = {.tensor = {NULL}};
    for (int l = 0; l < d->cfg.layers; l++) {
        fv_tensor *const *h = d->first_h[l], *const *c = d->first_c[l];
        state.tensor[FV_RNN_SLOT_H + l] =
            fv_linear_act(ctx, memory->summary, h[0], h[1], FV_ACT_TANH, NULL);
        if (d->cfg.cell == FV_CELL_LSTM)
            state.tensor[FV_RNN_SLOT_C + l] =
                fv_linear_act(ctx, memory->summary, c[0], c[1], FV_ACT_TANH, NULL);
    }
    *out = state;
    return ctx->error;
}

fv_tensor *fv_rnn_decoder_embed(fv_ctx *ctx, void *self, const fv_memory *memory, fv_tensor *tokens,
                                bool training)
{
    const fv_rnn_decoder *d = self;
    (void)memory;
    fv_tensor *x = fv_embedding(ctx, d->embedding, tokens, -1);
    return training ? fv_dropout(ctx, x, d->cfg.dropout) : x;
}

fv_tensor *fv_rnn_decoder_input(fv_ctx *ctx, void *self, fv_tensor *embedded)
{
    const fv_rnn_weights *w = &((const fv_rnn_decoder *)self)->rnn.weights[0][0];
    return fv_linear(ctx, embedded, w->input, w->input_bias);
}

fv_tensor *fv_rnn_decoder_top(const fv_rnn_decoder *d, const fv_decoder_state *state)
{
    return state->tensor[FV_RNN_SLOT_H + d->cfg.layers - 1];
}

fv_tensor *fv_rnn_decoder_cells(fv_ctx *ctx, const fv_rnn_decoder *d, const fv_decoder_call *call,
                                fv_tensor *extra, fv_decoder_state *state)
{
    fv_tensor **h = &state->tensor[FV_RNN_SLOT_H], **c = &state->tensor[FV_RNN_SLOT_C];
    fv_tensor *gates = call->input;
    if (extra) gates = fv_linear_act(ctx, extra, d->feed, NULL, FV_ACT_NONE, gates);
    for (int l = 0; l < d->cfg.layers; l++) {
        const fv_rnn_weights *w = &d->rnn.weights[l][0];
        if (l > 0) {
            fv_tensor *below = h[l - 1];
            if (call->training) below = fv_dropout(ctx, below, d->cfg.dropout);
            gates = fv_linear(ctx, below, w->input, w->input_bias);
        }
        h[l] = fv_rnn_step(ctx, d->cfg.cell, w, gates, h[l], &c[l]);
    }
    return h[d->cfg.layers - 1];
}

/* ---- the readout ---------------------------------------------------------------------------- */

fv_tensor *fv_rnn_decoder_readout(fv_ctx *ctx, void *self, fv_tensor *embedded,
                                  const fv_decoder_step *step)
{
    const fv_rnn_decoder *d = self;
    fv_tensor *sum = fv_linear(ctx, step->state, d->read_state, d->read_bias);
    sum = fv_linear_act(ctx, step->context, d->read_context, NULL, FV_ACT_NONE, sum);
    if (d->read_token) sum = fv_linear_act(ctx, embedded, d->read_token, NULL, FV_ACT_NONE, sum);
    if (d->cfg.readout == FV_READOUT_TANH) return fv_tanh(ctx, sum);
    const int64_t n = fv_tensor_size(step->state, 0);
    fv_tensor *pairs = fv_reshape(ctx, sum, 3, (int64_t[]){n, d->cfg.readout_width, 2});
    return fv_max(ctx, pairs, 1, (int[]){2}, false);
}

fv_tensor *fv_rnn_decoder_logits(fv_ctx *ctx, void *self, const fv_memory *memory,
                                 fv_tensor *readout)
{
    const fv_rnn_decoder *d = self;
    (void)memory;
    return fv_linear(ctx, readout, d->output, d->output_bias);
}

/* ---- faster steps --------------------------------------------------------------------------- */

static void pack(fv_ctx *ctx, fv_tensor *w)
{
    if (!w || ctx->error != FV_OK || w->dtype != FV_F32) return;
    if (fv_weight_packed(w)) return;
    const fv_status status = fv_linear_pack(ctx, w);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
}

void fv_rnn_decoder_pack(fv_ctx *ctx, void *self, bool output)
{
    const fv_rnn_decoder *d = self;
    for (int l = 0; l < d->cfg.layers; l++) {
        if (l > 0 || output) pack(ctx, d->rnn.weights[l][0].input);
        pack(ctx, d->rnn.weights[l][0].hidden);
    }
    pack(ctx, d->feed);
    pack(ctx, d->attention.w_q);
    if (output || !d->read_token) { /* without the token, every step has its readout */
        pack(ctx, d->read_state);
        pack(ctx, d->read_context);
    }
    if (!output) return;
    pack(ctx, d->read_token);
    pack(ctx, d->output);
}

/* Grows with every change of a weight that a table is computed from. */
static uint64_t version(const fv_rnn_decoder *d)
{
    return d->embedding->buffer->version + d->output->buffer->version +
           d->output_bias->buffer->version + fv_rnn_input_version(&d->rnn.weights[0][0]);
}

void fv_rnn_decoder_prepare(fv_ctx *ctx, void *self, int64_t rows, bool needs_argmax)
{
    fv_rnn_decoder *d = self;
    if (!fv_tables_refresh(ctx, &d->tables, version(d), rows, drop_tables, d)) return;
    const int64_t tokens = d->cfg.target_tokens;
    const bool tabulate = !d->gates && d->tables.used >= tokens &&
                          fv_table_fits(d->rnn.weights[0][0].input, tokens, 1);
    const bool filter = needs_argmax && !d->prefilter && d->tables.used >= PREFILTER_ROWS;
    if (!tabulate && !filter) return;
    fv_scope_begin(ctx);
    if (tabulate) d->gates = fv_table_keep(ctx, fv_rnn_decoder_input(ctx, d, d->embedding));
    if (filter)
        d->prefilter = fv_table_keep(ctx, fv_linear_prefilter(ctx, d->output, d->output_bias));
    fv_scope_end(ctx);
}

fv_tensor *fv_rnn_decoder_input_of_tokens(fv_ctx *ctx, void *self, fv_tensor *tokens)
{
    const fv_rnn_decoder *d = self;
    return d->gates ? fv_embedding(ctx, d->gates, tokens, -1) : NULL;
}

fv_tensor *fv_rnn_decoder_argmax(fv_ctx *ctx, void *self, fv_tensor *readout)
{
    const fv_rnn_decoder *d = self;
    if (!d->prefilter || ctx->error != FV_OK) return NULL;
    return fv_linear_argmax(ctx, readout, d->output, d->output_bias, d->prefilter);
}

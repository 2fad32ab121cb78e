/*
 * What the recurrent decoders share; decoder_fixed.c, decoder_search.c and decoder_luong.c differ
 * in what a step reads.
 *
 *     gates = W_x embedding(y_{t-1}) + b      (`input`; from a table where there is one)
 *     s_t = cells(gates + feed e_t, s_{t-1})  (e_t: the context, or the last readout)
 *     o_t = act(W_s s_t + W_c c_t (+ W_y y_{t-1}) + b)
 *     logits = W o_t + b
 */
#ifndef FV_MODELS_PARTS_DECODER_RNN_H
#define FV_MODELS_PARTS_DECODER_RNN_H

#include "models/parts/cross_attention.h"
#include "models/parts/tables.h"

/* Slots of fv_decoder_state: hidden states of the layers, LSTM cells, the readout that is fed. */
enum { FV_RNN_SLOT_H = 0, FV_RNN_SLOT_C = FV_RNN_LAYERS, FV_RNN_SLOT_FEED = 2 * FV_RNN_LAYERS };

typedef struct fv_rnn_decoder {
    fv_seq2seq_config cfg;
    fv_tensor *embedding;
    fv_rnn rnn;
    fv_tensor *first_h[FV_RNN_LAYERS][2], *first_c[FV_RNN_LAYERS][2]; /* weight, bias */
    bool attends;
    fv_cross_attention attention;
    fv_tensor *feed; /* of the context or the last readout to the gates; NULL: none */
    fv_tensor *read_state, *read_context, *read_token, *read_bias; /* read_token may be NULL */
    fv_tensor *output, *output_bias;

    fv_weight_tables tables;
    fv_tensor *gates;     /* `input` of every token; NULL: not computed */
    fv_tensor *prefilter; /* of the output layer (ops/product.h); likewise */
} fv_rnn_decoder;

/* What a kind of decoder has. */
typedef struct fv_rnn_decoder_shape {
    bool attends;
    int64_t feed;     /* width of what is fed to the gates beside the token; 0: nothing */
    bool reads_token; /* the readout reads the embedded token */
} fv_rnn_decoder_shape;

fv_status fv_rnn_decoder_create(fv_params *params, const fv_seq2seq_config *cfg,
                                int64_t memory_width, fv_rnn_decoder_shape shape,
                                fv_rnn_decoder *d);
/* The pieces of it that decoders without cells use: the settings and the embedding; readout and
 * output, with the matrix that feeds the gates if shape.feed. */
fv_status fv_rnn_decoder_embedding_init(fv_params *params, const fv_seq2seq_config *cfg,
                                        fv_rnn_decoder *d);
fv_status fv_rnn_decoder_create_output(fv_params *params, int64_t memory_width,
                                       fv_rnn_decoder_shape shape, fv_rnn_decoder *d);
/* All layers; the new top state. `extra` joins the token at the first layer, if there is one. */
fv_tensor *fv_rnn_decoder_cells(fv_ctx *ctx, const fv_rnn_decoder *d, const fv_decoder_call *call,
                                fv_tensor *extra, fv_decoder_state *state);
fv_tensor *fv_rnn_decoder_top(const fv_rnn_decoder *d, const fv_decoder_state *state);

/* Functions of fv_decoder_part. */
fv_status fv_rnn_decoder_embedding(fv_params *params, const fv_seq2seq_config *cfg, void **self);
void fv_rnn_decoder_destroy(fv_ctx *ctx, void *self);
const fv_cross_attention *fv_rnn_decoder_attention(const void *self);
fv_status fv_rnn_decoder_first_state(fv_ctx *ctx, void *self, const fv_memory *memory,
                                     fv_decoder_state *out);
fv_tensor *fv_rnn_decoder_embed(fv_ctx *ctx, void *self, const fv_memory *memory, fv_tensor *tokens,
                                bool training);
fv_tensor *fv_rnn_decoder_input(fv_ctx *ctx, void *self, fv_tensor *embedded);
fv_tensor *fv_rnn_decoder_readout(fv_ctx *ctx, void *self, fv_tensor *embedded,
                                  const fv_decoder_step *step);
fv_tensor *fv_rnn_decoder_logits(fv_ctx *ctx, void *self, const fv_memory *memory,
                                 fv_tensor *readout);
void fv_rnn_decoder_pack(fv_ctx *ctx, void *self, bool output);
void fv_rnn_decoder_prepare(fv_ctx *ctx, void *self, int64_t rows, bool needs_argmax);
fv_tensor *fv_rnn_decoder_input_of_tokens(fv_ctx *ctx, void *self, fv_tensor *tokens);
fv_tensor *fv_rnn_decoder_argmax(fv_ctx *ctx, void *self, fv_tensor *readout);

/* The functions of a table that are the same for all recurrent decoders. */
#define FV_RNN_DECODER_FUNCTIONS                                                                   \
    .choices = FV_CHOICES_VOCABULARY, .create_self_and_embedding = fv_rnn_decoder_embedding,       \
    .destroy = fv_rnn_decoder_destroy, .attention = fv_rnn_decoder_attention,                      \
    .embed = fv_rnn_decoder_embed, .input = fv_rnn_decoder_input,                                  \
    .readout = fv_rnn_decoder_readout, .logits = fv_rnn_decoder_logits,                            \
    .pack = fv_rnn_decoder_pack, .prepare = fv_rnn_decoder_prepare,                                \
    .input_of_tokens = fv_rnn_decoder_input_of_tokens, .argmax = fv_rnn_decoder_argmax

#endif

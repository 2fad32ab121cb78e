/*
 * fovea/recurrent.h: recurrent networks over sequences of different lengths, without work on
 * padding.
 *
 *     fv_packed_sequences p;
 *     s = fv_pack_sequences(ctx, 3, (int64_t[]){5, 9, 2}, &p);       // three sequences
 *     fv_tensor *ids = fv_packed_tokens(ctx, &p, tokens);           // i64 [p.total]
 *     fv_tensor *x = fv_embedding(ctx, table, ids, -1);             // [p.total, width]
 *     fv_rnn_config cfg;
 *     fv_rnn_config_init(&cfg, sizeof cfg);
 *     cfg.cell = FV_CELL_LSTM;
 *     cfg.input = width;
 *     cfg.hidden = 128;
 *     cfg.bidirectional = true;
 *     fv_rnn rnn;
 *     s = fv_rnn_create(params, "encoder", &cfg, &rnn);
 *     fv_rnn_state last;
 *     fv_tensor *h = fv_rnn_run(ctx, &rnn, x, &p, NULL, true, &last);  // [p.total, 256]
 *     fv_tensor *y = fv_packed_pool(ctx, &p, h, FV_POOL_MEAN);         // [3, 256]
 *
 * A decoder that attends to h, or a score of every step, wants them padded:
 *
 *     fv_tensor *padded = fv_packed_pad(ctx, &p, h, NULL);             // [3, 9, 256]
 *     fv_tensor *keys = fv_unsqueeze(ctx, padded, 1);                  // one head
 *     fv_attention_input in = {.q = q, .k = keys, .v = keys};
 *     in.key_lengths = fv_packed_lengths(ctx, &p, NULL);               // 5, 9, 2
 *     fv_tensor *step_scores = fv_mean(ctx, padded, 1, (int[]){-1}, false);
 *     step_scores = fv_masked_fill(ctx, step_scores, fv_packed_padding_mask(ctx, &p), -INFINITY);
 *     fv_packed_free(&p);
 *
 * Sequences are packed as in PyTorch's PackedSequence: sorted by length, longest first, and stored
 * step by step: all first tokens, then all second ones, ... Step t of the i-th longest
 * sequence is row p.first[t] + i. So the sequences that are still running at a step are its first
 * rows, and nothing else is computed.
 *
 * Cells, with sigma the logistic function, * elementwise:
 *     rnn   h' = tanh(W x + b + U h + c)
 *     gru   r, z = sigma(W x + b + U h + c);  n = tanh(W_n x + b_n + r * (U_n h + c_n))
 *           h' = (1 - z) * n + z * h
 *     lstm  i, f, o = sigma(...), g = tanh(...);  c' = f * c + i * g;  h' = o * tanh(c')
 * Parameters have PyTorch's names and layout: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
 * then "_reverse" for the other direction and l1, l2, ... for further layers.
 */
#ifndef FOVEA_RECURRENT_H
#define FOVEA_RECURRENT_H

#include "fovea/layers.h"
#include "fovea/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- packed sequences ----------------------------------------------------------------------- */

typedef struct fv_packed_sequences {
    fv_ctx *ctx;
    int64_t sequences, steps, total; /* total: rows in all */
    int64_t *length;                 /* [sequences], longest first */
    int64_t *order;                  /* [sequences]: which of the given ones is the i-th longest */
    int64_t *rank;                   /* [sequences]: and back */
    int64_t *rows, *first;           /* [steps]: running sequences, row of the first */
} fv_packed_sequences;

/* Equal lengths keep their order. Fails: ARGUMENT (a length < 1), MEMORY. */
FV_API FV_MUST_USE fv_status fv_pack_sequences(fv_ctx *ctx, int64_t sequences,
                                               const int64_t *lengths, fv_packed_sequences *out);
FV_API void fv_packed_free(fv_packed_sequences *packed); /* before the context */

/* Host tokens as packed rows: tokens[i] are those of the i-th given sequence -> i64 [total]. */
FV_API fv_tensor *fv_packed_tokens(fv_ctx *ctx, const fv_packed_sequences *packed,
                                   const int64_t *const *tokens);
/* Varlen rows [total, d] -> padded [sequences, steps, d]; padding is copies of row 0: mask it.
 * Sequence i of the result is the given one order[i], or i with order NULL. */
FV_API fv_tensor *fv_packed_pad(fv_ctx *ctx, const fv_packed_sequences *packed, fv_tensor *x,
                                const int64_t *order);
/* Their lengths in the same order, i64 [sequences]: key_lengths of an attention. */
FV_API fv_tensor *fv_packed_lengths(fv_ctx *ctx, const fv_packed_sequences *packed,
                                    const int64_t *order);

/* u8 [sequences, steps]: 1 past the end of a given sequence. */
FV_API fv_tensor *fv_packed_padding_mask(fv_ctx *ctx, const fv_packed_sequences *packed);

typedef enum fv_pool_kind { FV_POOL_LAST, FV_POOL_MEAN, FV_POOL_MAX } fv_pool_kind;
/* One row per sequence, in the given order: its last step, or the mean or maximum of its steps. */
FV_API fv_tensor *fv_packed_pool(fv_ctx *ctx, const fv_packed_sequences *packed, fv_tensor *x,
                                 fv_pool_kind kind);

/* ---- networks --------------------------------------------------------------------- */

typedef enum fv_cell { FV_CELL_RNN, FV_CELL_GRU, FV_CELL_LSTM, FV_CELL_COUNT } fv_cell;

typedef struct fv_rnn_config {
    size_t struct_size;
    fv_cell cell;          /* [gru] */
    int64_t input, hidden; /* widths [1, 1] */
    int layers;            /* 1 .. FV_RNN_LAYERS [1] */
    bool bidirectional;    /* results are concatenated: [forward, backward] [false] */
    double dropout;        /* between layers, when training [0] */
} fv_rnn_config;

enum { FV_RNN_LAYERS = 16 };

FV_API void fv_rnn_config_init(fv_rnn_config *cfg, size_t struct_size);

/* One direction of one layer. */
typedef struct fv_rnn_weights {
    fv_tensor *input, *hidden, *input_bias, *hidden_bias;
} fv_rnn_weights;

typedef struct fv_rnn {
    fv_rnn_config cfg;
    fv_rnn_weights weights[FV_RNN_LAYERS][2];
} fv_rnn;

/* Last states of every layer and direction, [sequences, hidden] each, in the given order. */
typedef struct fv_rnn_state {
    fv_tensor *h[FV_RNN_LAYERS][2];
    fv_tensor *c[FV_RNN_LAYERS][2]; /* NULL except for the LSTM */
} fv_rnn_state;

/* Parameters in `params` under `prefix`. Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_rnn_create(fv_params *params, const char *prefix,
                                           const fv_rnn_config *cfg, fv_rnn *out);

/* x [total, input] -> [total, hidden (x 2)]. `start` (or NULL: zeros) and `last` (or NULL) are in
 * the given order of sequences, and may be one struct, which continues the sequences. After a
 * failure, states that were not computed are invalid tensors. */
FV_API fv_tensor *fv_rnn_run(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *x,
                             const fv_packed_sequences *packed, const fv_rnn_state *start,
                             bool training, fv_rnn_state *last);

/* ==== sequence net ================================================================== */

/*
 * sequence_net: recurrent networks by sequence layout: one or many inputs, one or many
 * outputs.
 *
 *     one to one         x        -> y              a label for a vector
 *     one to many        x        -> y_1 ... y_T    a caption for a picture
 *     many to one        x_1 ...  -> y              a label for a sentence
 *     many to many       x_1 ...  -> y_1 ... y_T    a tag for each word
 *     many, then many    x_1 ...  -> y_1 ... y_U    a translation
 *
 *     fv_sequence_net_config cfg;
 *     fv_sequence_net_config_init(&cfg, sizeof cfg, FV_LAYOUT_MANY_TO_ONE);
 *     cfg.input = 64;
 *     cfg.hidden = 128;
 *     cfg.output = 5;                                    // labels
 *     cfg.pool = FV_POOL_MEAN;
 *     fv_sequence_net net;
 *     s = fv_sequence_net_create(params, "classifier", &cfg, &net);
 *     fv_packed_sequences p;
 *     s = fv_pack_sequences(ctx, sentences, lengths, &p);
 *     // words [p.total, 64]
 *     fv_sequence_net_input in = {.x = words, .from = &p, .training = true};
 *     fv_tensor *logits = fv_sequence_net_run(ctx, &net, &in);   // [sentences, 5]
 *
 * An encoder (`reader`) runs over the inputs; a single vector is a sequence of one step. With h its
 * states,
 *
 *     one to one, many to one    y   = O pool(h)      the last state, or the mean or maximum of all
 *     many to many               y_t = O h_t
 *     one to many, then many     y_t = O s_t          s a decoder (`writer`) that starts from the
 *                                                     encoder's last states and is fed z_t: y_{t-1}
 *                                                     from the data in training, else as generated
 */

typedef enum fv_sequence_layout {
    FV_LAYOUT_ONE_TO_ONE,
    FV_LAYOUT_ONE_TO_MANY,
    FV_LAYOUT_MANY_TO_ONE,
    FV_LAYOUT_MANY_TO_MANY,
    FV_LAYOUT_MANY_THEN_MANY,
    FV_LAYOUT_COUNT
} fv_sequence_layout;

typedef struct fv_sequence_net_config {
    size_t struct_size;
    fv_sequence_layout layout;
    fv_cell cell;          /* [gru] */
    int layers;            /* of reader and writer [1] */
    int64_t input, hidden; /* [1, 1] */
    int64_t fed;           /* width of the writer's inputs [1] */
    int64_t output;        /* width of y [1] */
    bool bidirectional;    /* of a reader without a writer [false] */
    fv_pool_kind pool;     /* to one [last: where each direction ends] */
    double dropout;        /* between layers, when training [0] */
} fv_sequence_net_config;

FV_API void fv_sequence_net_config_init(fv_sequence_net_config *cfg, size_t struct_size,
                                        fv_sequence_layout kind);

typedef struct fv_sequence_net {
    fv_sequence_net_config cfg;
    fv_rnn reader, writer; /* the writer: one to many, then many */
    fv_dense out;
} fv_sequence_net;

/* Parameters "prefix.reader...", "prefix.writer...", "prefix.out...". Fails: ARGUMENT, SHAPE,
 * MEMORY. */
FV_API FV_MUST_USE fv_status fv_sequence_net_create(fv_params *params, const char *prefix,
                                                    const fv_sequence_net_config *cfg,
                                                    fv_sequence_net *out);

typedef struct fv_sequence_net_input {
    fv_tensor *x; /* one: [n, input]; many: packed by `from`, [from->total, input] */
    const fv_packed_sequences *from; /* many; else NULL */
    fv_tensor *fed;                  /* a writer's: packed by `to`, [to->total, fed]; else NULL */
    const fv_packed_sequences *to;   /* as many sequences as x has; else NULL */
    bool training;
} fv_sequence_net_input;

/* To one: [n, output], in the given order. Many: packed like x, [from->total, output]. With a
 * writer: packed like `fed`, [to->total, output]. */
FV_API fv_tensor *fv_sequence_net_run(fv_ctx *ctx, const fv_sequence_net *net,
                                      const fv_sequence_net_input *in);

#ifdef __cplusplus
}
#endif
#endif

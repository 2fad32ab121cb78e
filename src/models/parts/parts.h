/*
 * The parts of an encoder-decoder: an encoder that reads a batch into a memory, and a decoder that
 * attends to it and chooses tokens. A model names one of each in its settings (model.encoder,
 * model.decoder); models/seq2seq*.c puts them together.
 *
 *     const fv_encoder_part *x = fv_encoder_part_at(cfg->encoder);
 *     const fv_decoder_part *y = fv_decoder_part_at(cfg->decoder);
 *     void *encoder = NULL, *decoder = NULL;
 *     s = x->create_self_and_embedding(params, cfg, &encoder);
 *     s = y->create_self_and_embedding(params, cfg, &decoder);
 *     s = x->create(params, cfg, encoder);
 *     s = y->create(params, cfg, x->width(cfg), decoder);
 *
 *     const fv_encode_call call = {.attention = y->attention(decoder)};
 *     fv_memory memory;
 *     s = x->encode(ctx, encoder, &batch, &call, &memory);
 *     fv_decoder_state state;
 *     s = y->first_state(ctx, decoder, &memory, &state);
 *     fv_decoder_call step = {.memory = &memory};
 *     step.embedded = y->embed(ctx, decoder, &memory, tokens, false);      // i64 [n] in
 *     step.input = y->input(ctx, decoder, step.embedded);
 *     fv_decoder_step done = y->step(ctx, decoder, &step, &state);
 *     fv_tensor *o = y->readout(ctx, decoder, step.embedded, &done);
 *     fv_tensor *logits = y->logits(ctx, decoder, &memory, o);             // [n, choices]
 *
 * A part is one file with one constant table, and one line in parts.def. Its settings are fields of
 * fv_seq2seq_config; one that no other part has is one more line in seq2seq_settings.c.
 *
 * Tensors follow the rules of ops: they belong to the innermost scope, and on failure the context's
 * invalid tensor comes back and the context holds the error. `self` is what create made; parts keep
 * no state of a pass in it, except what `prepare` computes from weights.
 */
#ifndef FV_MODELS_PARTS_H
#define FV_MODELS_PARTS_H

#include "base/ctx.h"
#include "fovea/batch.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "fovea/search.h"
#include "fovea/seq2seq.h"
#include "fovea/transformer.h"

typedef struct fv_cross_attention fv_cross_attention;

/*
 * What an encoder gives a decoder: n rows of up to `positions` positions. What a position is (a
 * token, a cell of a grid, a frame, a point of a set) is the encoder's `axis`.
 *
 * Two forms. Decoders that attend by an fv_cross_attention read keys and values. Decoders whose own
 * blocks project them (Transformers) read `states`, and the rows' layout in `rows`.
 */
typedef struct fv_memory {
    int64_t n, positions;
    fv_tensor *k, *v;   /* [n, 1, positions, width]; NULL where the decoder does not attend */
    fv_tensor *lengths; /* i64 [n]: positions in use */
    fv_tensor *summary; /* [n, width]: one vector for each row */

    fv_tensor *states;          /* [1, all positions, width], or [n, positions, width] */
    fv_token_rows rows;         /* layout of `states` */
    const int64_t *row_lengths; /* [n], on the host, in the caller's batch */
} fv_memory;

/* Row index[i] of each tensor becomes row i; rows [0, n) with index NULL. Key-value form only. */
fv_memory fv_memory_rows(fv_ctx *ctx, const fv_memory *memory, int64_t n, fv_tensor *index);
/* Applies `each` to every tensor of the key-value form. */
void fv_memory_map(fv_memory *memory, fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user),
                   fv_ctx *ctx, void *user);

/* ---- encoders ------------------------------------------------------------------------------- */

/* How a batch is encoded. */
typedef struct fv_encode_call {
    const int64_t *order; /* row i of the memory is row order[i] of the batch; NULL: row i */
    bool training;
    bool padded; /* Transformers: states as a rectangle, for maps of whole batches */
    const fv_pass *pass;
    const fv_cross_attention *attention; /* of the decoder; NULL: it reads no keys and values */
} fv_encode_call;

typedef struct fv_encoder_part {
    const char *name, *summary; /* in recipes; one line for help */
    const char *field;          /* of the batch that it reads: "source", "pixels", "frames" */
    bool reads_tokens;          /* the field holds tokens of the source's vocabulary */
    fv_axis axis;               /* what the memory's positions are */

    /* Makes the part with the embedding it has; then, after the decoder's, all other parameters:
     * random initial weights and files depend on this order. After a failure `destroy` is called
     * if *self was set. */
    fv_status (*create_self_and_embedding)(fv_params *params, const fv_seq2seq_config *cfg,
                                           void **self);
    fv_status (*create)(fv_params *params, const fv_seq2seq_config *cfg, void *self);
    void (*destroy)(fv_ctx *ctx, void *self);
    /* Width of keys (unless the attention projects them), values and summary. */
    int64_t (*width)(const fv_seq2seq_config *cfg);
    /* Fails: ARGUMENT (a row that is empty, or has no such field), MEMORY; what tensor ops fail
     * with is the context's error too. */
    fv_status (*encode)(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out);
    /* Rows and columns of the grid where the positions are its cells. NULL: they are none. */
    void (*grid)(const void *self, int64_t *rows, int64_t *cols);
    /* Before a search over a batch, while weights stay as they are: may compute tables that make
     * encoding faster and change no bit. NULL: none. */
    void (*prepare)(fv_ctx *ctx, void *self, const fv_batch *batch);
} fv_encoder_part;

/* The embedding of source tokens, [source_tokens, embedding]: "encoder.embedding.weight". */
fv_tensor *fv_source_embedding(fv_params *params, const fv_seq2seq_config *cfg);
/* Keys, values and lengths of *out from states [all positions, width], in packed layout;
 * keys are projected once for all decoder steps, and without the padding. */
void fv_memory_from_packed(fv_ctx *ctx, fv_tensor *states, const fv_packed_sequences *packed,
                           const fv_encode_call *call, fv_memory *out);

/* ---- decoders ------------------------------------------------------------------------------- */

/* What a decoder chooses among. */
typedef enum fv_choice_set {
    FV_CHOICES_VOCABULARY, /* tokens of the target's vocabulary */
    FV_CHOICES_INPUTS,     /* positions of the memory: rows differ in how many they have */
    FV_CHOICES_CLASSES,    /* one step, fed no token */
    FV_CHOICES_ACTIONS     /* likewise; values or logits of actions */
} fv_choice_set;

enum { FV_STATE_TENSORS = 2 * FV_RNN_LAYERS + 1 };

/* The state of n rows between steps. Tensors [n, ...], NULL where a part has none; the part decides
 * which is which. A part that keeps its state elsewhere (a cache) has `select`. */
typedef struct fv_decoder_state {
    fv_tensor *tensor[FV_STATE_TENSORS];
} fv_decoder_state;

/* Applies `each` to every tensor that the state has. */
void fv_decoder_state_map(fv_decoder_state *state,
                          fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user), fv_ctx *ctx,
                          void *user);

/* What a step is given. */
typedef struct fv_decoder_call {
    const fv_memory *memory;
    fv_tensor *tokens;   /* i64 [n], for parts without `embed` */
    fv_tensor *embedded; /* of `embed` */
    fv_tensor *input;    /* of `input` */
    int64_t t;           /* number of the step */
    bool want_weights, training;
} fv_decoder_call;

/* What a step gives besides the new state. */
typedef struct fv_decoder_step {
    fv_tensor *state, *context; /* s_t and c_t, [n, hidden] and [n, memory width] */
    fv_tensor *readout;         /* o_t where the step needs it; NULL: left to `readout` */
    fv_tensor *logits;          /* [n, choices] where the step has them; NULL: left to `logits` */
    fv_tensor *weights;         /* [n, positions], if wanted and there is attention */
    fv_tensor *log_prob, *entropy; /* [n]: of the choice, with hard attention in training */
} fv_decoder_step;

typedef struct fv_decoder_part {
    const char *name, *summary;
    fv_choice_set choices;
    bool attends; /* reads keys and values, by an fv_cross_attention */
    bool by_step; /* embeddings or logits depend on the row's memory: never all steps at once */

    fv_status (*create_self_and_embedding)(fv_params *params, const fv_seq2seq_config *cfg,
                                           void **self);
    fv_status (*create)(fv_params *params, const fv_seq2seq_config *cfg, int64_t memory_width,
                        void *self);
    void (*destroy)(fv_ctx *ctx, void *self);
    /* NULL without `attends`. */
    const fv_cross_attention *(*attention)(const void *self);

    /* Fails: as the ops that it runs; parts with a cache also LIMIT, MEMORY. */
    fv_status (*first_state)(fv_ctx *ctx, void *self, const fv_memory *memory,
                             fv_decoder_state *out);
    /* Tokens [n] -> embeddings [n, width], and what those give to a step: [n, input width]. */
    fv_tensor *(*embed)(fv_ctx *ctx, void *self, const fv_memory *memory, fv_tensor *tokens,
                        bool training);
    fv_tensor *(*input)(fv_ctx *ctx, void *self, fv_tensor *embedded);
    /* One step from `state`, which it replaces. */
    fv_decoder_step (*step)(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state);
    /* o from states, contexts and embeddings, all [n, ...]: of one step, or of all. */
    fv_tensor *(*readout)(fv_ctx *ctx, void *self, fv_tensor *embedded,
                          const fv_decoder_step *step);
    fv_tensor *(*logits)(fv_ctx *ctx, void *self, const fv_memory *memory, fv_tensor *readout);
    /* Row i continues from row from[i]. NULL: rows of the state's tensors are gathered. */
    fv_status (*select)(void *self, int64_t rows, const int64_t *from);

    /* Brings weights into the form that repeated products read best; with `output`, those of
     * readout and logits too. NULL: nothing to do. */
    void (*pack)(fv_ctx *ctx, void *self, bool output);
    /* Before a search step over `rows` rows, while weights stay as they are: may compute tables
     * that make steps faster and change no bit; with needs_argmax also for `argmax`. NULL: none. */
    void (*prepare)(fv_ctx *ctx, void *self, int64_t rows, bool needs_argmax);
    /* The input of a search step from tables; NULL, or returns NULL: use embed and input. */
    fv_tensor *(*input_of_tokens)(fv_ctx *ctx, void *self, fv_tensor *tokens);
    /* argmax of the logits, exactly, without computing all of them; NULL, or returns NULL: use
     * logits. */
    fv_tensor *(*argmax)(fv_ctx *ctx, void *self, fv_tensor *readout);
} fv_decoder_part;

/* ---- the tables ----------------------------------------------------------------------------- */

/* The number of an encoder by its name; -1: there is none. */
int fv_encoder_part_find(const char *name);
/* By their number in parts.def, which is the value of fv_seq2seq_config.encoder and .decoder; NULL:
 * there is no such part. */
const fv_encoder_part *fv_encoder_part_at(int i);
const fv_decoder_part *fv_decoder_part_at(int i);

/* The names in the same order, each after a bar: fv_encoder_choices + 1 is the list of choices of a
 * recipe's key. */
extern const char fv_encoder_choices[], fv_decoder_choices[];

#endif

/* The inside of fovea/seq2seq.h: parts, and what passes between them. */
#ifndef FV_MODELS_SEQ2SEQ_H
#define FV_MODELS_SEQ2SEQ_H

#include "base/ctx.h"
#include "fovea/ops.h"
#include "fovea/seq2seq.h"
#include "models/pairs.h"

/* What the encoder gives: keys and values [n, 1, positions, width], lengths [n], and the decoder's
 * first states. Rows are in the order that was asked for. */
typedef struct fv_memory {
    int64_t positions;
    fv_tensor *k, *v, *lengths;
    fv_tensor *summary; /* [n, width]: the last states, for FIXED and the first states */
} fv_memory;

/* A decoder's state over n rows. */
typedef struct fv_decoder_state {
    fv_tensor *h[FV_RNN_LAYERS], *c[FV_RNN_LAYERS]; /* c: LSTM only, else NULL */
    fv_tensor *feed;                                /* o of the last step; LUONG with feeding */
} fv_decoder_state;

enum { FV_STATE_TENSORS = 2 * FV_RNN_LAYERS + 1 };

/* What the choices of hard attention are measured by; the step at hand is taken in when it ends. */
typedef struct fv_hard_baseline {
    int64_t steps; /* taken in so far */
    double value;  /* moving average of ln p(y|s) over them */
    uint64_t step; /* the one at hand: its number, sum and tokens so far */
    double sum, tokens;
} fv_hard_baseline;

/* What is kept while weights do not change; NULL: not yet. */
typedef struct fv_seq2seq_ready {
    uint64_t stamp;
    int64_t read, asked;  /* source and target tokens of searches so far */
    fv_tensor *source[2]; /* fv_rnn_gates of every source token, for each direction */
    fv_tensor *gates;     /* fv_seq2seq_token_gates of every target token */
    fv_tensor *prefilter; /* of the output layer (ops/product.h) */
} fv_seq2seq_ready;

struct fv_seq2seq {
    fv_ctx *ctx;
    fv_seq2seq_config cfg;
    fv_tensor *source_embedding, *target_embedding;
    fv_rnn encoder, decoder;
    fv_tensor *first_h[FV_RNN_LAYERS][2], *first_c[FV_RNN_LAYERS][2]; /* weight, bias */
    fv_tensor *feed;                                                  /* context or o to gates */
    fv_tensor *w, *w_q, *w_k, *w_p, *v_p;                             /* of the attention */
    fv_tensor *read_state, *read_context, *read_token, *read_bias;
    fv_tensor *output, *output_bias;
    struct fv_seq2seq_search *search; /* of fv_seq2seq_stepper */
    fv_hard_baseline *baseline;       /* changes as training goes on */
    fv_seq2seq_ready ready;
};

static inline int64_t fv_seq2seq_memory_width(const fv_seq2seq_config *cfg)
{
    return cfg->encoder_hidden * (cfg->bidirectional ? 2 : 1);
}

/* Encodes; row i of the memory is the given source order[i] (or i). */
fv_memory fv_seq2seq_encode(fv_ctx *ctx, const fv_seq2seq *m, const fv_token_pairs *batch,
                            const fv_varlen *varlen, const int64_t *order, bool training);
/* Row index[i] of each part becomes row i; rows [0, n) with index NULL. */
fv_memory fv_memory_rows(fv_ctx *ctx, const fv_memory *memory, int64_t n, fv_tensor *index);

fv_decoder_state fv_seq2seq_first_state(fv_ctx *ctx, const fv_seq2seq *m, const fv_memory *memory);

/* Applies `each` to every tensor that the state has. */
void fv_decoder_state_map(fv_decoder_state *state,
                          fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user), fv_ctx *ctx,
                          void *user);

/* What a step gives besides the new state. */
typedef struct fv_decoder_step {
    fv_tensor *state, *context; /* s_t and c_t, [n, hidden] and [n, memory] */
    fv_tensor *readout; /* o_t, or NULL where it is left to the caller (all steps at once) */
    fv_tensor *weights; /* [n, positions], if wanted and there is attention */
    fv_tensor *log_prob, *entropy; /* [n]: of the choice, with hard attention in training */
} fv_decoder_step;

/* Gates that a token's embedding gives to the first layer: [n, gates]. */
fv_tensor *fv_seq2seq_token_gates(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *embedded);
/* One step from `state`, which it replaces. t: the number of the step. */
fv_decoder_step fv_seq2seq_step(fv_ctx *ctx, const fv_seq2seq *m, const fv_memory *memory,
                                fv_tensor *token_gates, int64_t t, bool want_weights, bool training,
                                fv_decoder_state *state);
/* o from states, contexts and embedded tokens, all [n, ...]. */
fv_tensor *fv_seq2seq_read(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *state, fv_tensor *context,
                           fv_tensor *embedded);
fv_tensor *fv_seq2seq_logits(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *readout);

/* Brings the weights of a step into the form that repeated products read best; those of the readout
 * and the output too, where they are met at every step. What has that form already is left. */
void fv_seq2seq_pack(fv_ctx *ctx, const fv_seq2seq *m, bool output);

void fv_seq2seq_search_free(fv_seq2seq *m);

/* Before a search reads so many source tokens. */
void fv_seq2seq_ready_to_read(fv_ctx *ctx, fv_seq2seq *m, int64_t tokens);
/* Before its step over so many tokens; a pre-filter only if the step needs no logits. */
void fv_seq2seq_ready_to_write(fv_ctx *ctx, fv_seq2seq *m, int64_t tokens, bool prefilter);
/* Whether the gates of source tokens are there, and still right. */
bool fv_seq2seq_reads_tables(const fv_seq2seq *m);
void fv_seq2seq_ready_free(fv_seq2seq *m);

/* The baseline for a part of step `step` with this mean of ln p(y|s), which is then taken in. */
double fv_seq2seq_baseline(const fv_seq2seq *m, uint64_t step, double mean, int64_t tokens);
/* Of fv_model_kind. */
void fv_seq2seq_get_counters(void *self, int64_t counters[FV_MODEL_COUNTERS]);
fv_status fv_seq2seq_set_counters(void *self, const int64_t counters[FV_MODEL_COUNTERS]);

#endif

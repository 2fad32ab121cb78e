/* The decoder: its first state, one step, and the readout. */
#include "models/seq2seq.h"
#include "ops/product.h"

static fv_tensor *first_of(fv_ctx *ctx, fv_tensor *const layer[2], const fv_memory *memory)
{
    return fv_linear_act(ctx, memory->summary, layer[0], layer[1], FV_ACT_TANH, NULL);
}

fv_decoder_state fv_seq2seq_first_state(fv_ctx *ctx, const fv_seq2seq *m, const fv_memory *memory)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_decoder_state state = {.feed = NULL};
    for (int l = 0; l < c->layers; l++) {
        state.h[l] = first_of(ctx, m->first_h[l], memory);
        if (c->cell == FV_CELL_LSTM) state.c[l] = first_of(ctx, m->first_c[l], memory);
    }
    if (c->decoder == FV_DECODER_LUONG && c->input_feeding)
        state.feed = fv_zeros(ctx, fv_tensor_dtype(memory->summary), 2,
                              (int64_t[]){fv_tensor_size(memory->summary, 0), c->readout_width});
    return state;
}

void fv_decoder_state_map(fv_decoder_state *state,
                          fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user), fv_ctx *ctx,
                          void *user)
{
    for (int l = 0; l < FV_RNN_LAYERS; l++) {
        if (state->h[l]) state->h[l] = each(ctx, state->h[l], user);
        if (state->c[l]) state->c[l] = each(ctx, state->c[l], user);
    }
    if (state->feed) state->feed = each(ctx, state->feed, user);
}

/* ---- attention -------------------------------------------------------------------- */

/* How step t attends: hard attention draws in training only. */
static fv_attention describe(const fv_seq2seq_config *c, int64_t t, bool training)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = c->score;
    how.normaliser = c->normaliser;
    if (c->normaliser == FV_ATTENTION_HARD_SAMPLE && !training)
        how.normaliser = FV_ATTENTION_HARD_ARGMAX;
    how.half_width = c->half_width;
    how.rule.q_offset = t; /* local-m: the t-th target word looks around the t-th source word */
    return how;
}

/* The context of `state`; what the attention has to tell goes into *step. */
static fv_tensor *attend(fv_ctx *ctx, const fv_seq2seq *m, const fv_memory *memory,
                         fv_tensor *state, int64_t t, bool want_weights, bool training,
                         fv_decoder_step *step)
{
    const fv_seq2seq_config *c = &m->cfg;
    const bool hard = c->normaliser == FV_ATTENTION_HARD_SAMPLE;
    const int64_t n = fv_tensor_size(state, 0), map[2] = {n, memory->positions};
    fv_attention how = describe(c, t, training);
    how.want_weights = want_weights && !hard;
    const fv_attention_input in = {
        .q = fv_reshape(ctx, state, 4, (int64_t[]){n, 1, 1, c->hidden}),
        .k = memory->k,
        .v = memory->v,
        .w = m->w,
        .w_q = m->w_q,
        .w_p = m->w_p,
        .v_p = m->v_p,
        .n_keys = memory->lengths,
    };
    fv_attention_result result;
    fv_tensor *context = fv_attention_run(ctx, &how, &in, &result);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (want_weights) {
        fv_tensor *weights =
            hard ? fv_one_hot(ctx, result.choice, memory->positions, fv_tensor_dtype(context))
                 : result.weights;
        step->weights = fv_reshape(ctx, weights, 2, map);
    }
    if (hard && training) {
        step->log_prob = fv_reshape(ctx, result.log_prob, 1, &n);
        step->entropy = fv_reshape(ctx, result.entropy, 1, &n);
    }
    return fv_reshape(ctx, context, 2, (int64_t[]){n, fv_seq2seq_memory_width(c)});
}

/* ---- a step ----------------------------------------------------------------------- */

fv_tensor *fv_seq2seq_token_gates(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *embedded)
{
    const fv_rnn_weights *w = &m->decoder.weights[0][0];
    return fv_linear(ctx, embedded, w->input, w->input_bias);
}

/* All layers; the new top state. `extra` joins the token at the first layer, if there is one. */
static fv_tensor *run_cells(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *gates, fv_tensor *extra,
                            bool training, fv_decoder_state *state)
{
    const fv_seq2seq_config *c = &m->cfg;
    if (extra) gates = fv_linear_act(ctx, extra, m->feed, NULL, FV_ACT_NONE, gates);
    for (int l = 0; l < c->layers; l++) {
        const fv_rnn_weights *w = &m->decoder.weights[l][0];
        if (l > 0) {
            fv_tensor *below = state->h[l - 1];
            if (training) below = fv_dropout(ctx, below, c->dropout);
            gates = fv_linear(ctx, below, w->input, w->input_bias);
        }
        state->h[l] = fv_rnn_step(ctx, c->cell, w, gates, state->h[l], &state->c[l]);
    }
    return state->h[c->layers - 1];
}

fv_decoder_step fv_seq2seq_step(fv_ctx *ctx, const fv_seq2seq *m, const fv_memory *memory,
                                fv_tensor *token_gates, int64_t t, bool want_weights, bool training,
                                fv_decoder_state *state)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_decoder_step step = {.readout = NULL};
    fv_tensor *extra = state->feed;
    if (c->decoder == FV_DECODER_SEARCH)
        extra = step.context =
            attend(ctx, m, memory, state->h[c->layers - 1], t, want_weights, training, &step);
    if (c->decoder == FV_DECODER_FIXED) extra = step.context = memory->summary;
    step.state = run_cells(ctx, m, token_gates, extra, training, state);
    if (c->decoder == FV_DECODER_LUONG) {
        step.context = attend(ctx, m, memory, step.state, t, want_weights, training, &step);
        step.readout = fv_seq2seq_read(ctx, m, step.state, step.context, NULL);
        if (state->feed) state->feed = step.readout;
    }
    return step;
}

static void pack(fv_ctx *ctx, fv_tensor *w)
{
    if (!w || ctx->error != FV_OK || w->dtype != FV_F32) return;
    if (fv_weight_packed(w)) return;
    const fv_status status = fv_linear_pack(ctx, w);
    if (status != FV_OK) fv_poison_last(ctx, status);
}

void fv_seq2seq_pack(fv_ctx *ctx, const fv_seq2seq *m, bool output)
{
    for (int l = 0; l < m->cfg.layers; l++) {
        if (l > 0 || output) pack(ctx, m->decoder.weights[l][0].input);
        pack(ctx, m->decoder.weights[l][0].hidden);
    }
    pack(ctx, m->feed);
    pack(ctx, m->w_q);
    if (output || m->cfg.decoder == FV_DECODER_LUONG) {
        pack(ctx, m->read_state);
        pack(ctx, m->read_context);
    }
    if (!output) return;
    pack(ctx, m->read_token);
    pack(ctx, m->output);
}

/* ---- the readout ------------------------------------------------------------------ */

fv_tensor *fv_seq2seq_read(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *state, fv_tensor *context,
                           fv_tensor *embedded)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_tensor *sum = fv_linear(ctx, state, m->read_state, m->read_bias);
    sum = fv_linear_act(ctx, context, m->read_context, NULL, FV_ACT_NONE, sum);
    if (m->read_token) sum = fv_linear_act(ctx, embedded, m->read_token, NULL, FV_ACT_NONE, sum);
    if (c->readout == FV_READOUT_TANH) return fv_tanh(ctx, sum);
    const int64_t n = fv_tensor_size(state, 0);
    fv_tensor *pairs = fv_reshape(ctx, sum, 3, (int64_t[]){n, c->readout_width, 2});
    return fv_max(ctx, pairs, 1, (int[]){2}, false);
}

fv_tensor *fv_seq2seq_logits(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *readout)
{
    return fv_linear(ctx, readout, m->output, m->output_bias);
}

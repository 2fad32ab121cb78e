/* RNNsearch (Bahdanau et al. 2015): attends from the last state, then steps.
 * c_t = attend(s_{t-1}, h); s_t = f(y_{t-1}, s_{t-1}, c_t). */
#include "models/parts/decoder_rnn.h"

static fv_status create(fv_params *params, const fv_seq2seq_config *cfg, int64_t memory_width,
                        void *self)
{
    const fv_rnn_decoder_shape shape = {.attends = true, .feed = memory_width, .reads_token = true};
    return fv_rnn_decoder_create(params, cfg, memory_width, shape, self);
}

static fv_decoder_step step(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state)
{
    const fv_rnn_decoder *d = self;
    fv_decoder_step done = {.state = NULL};
    fv_tensor *query = fv_rnn_decoder_top(d, state);
    done.context = fv_cross_attention_run(ctx, &d->attention, call, query, &done);
    done.state = fv_rnn_decoder_cells(ctx, d, call, done.context, state);
    return done;
}

const fv_decoder_part fv_decoder_search = {
    .name = "search",
    .summary = "attends from the last state, then steps (Bahdanau et al.)",
    .attends = true,
    .create = create,
    .first_state = fv_rnn_decoder_first_state,
    .step = step,
    FV_RNN_DECODER_FUNCTIONS,
};

/* Sutskever et al. 2014, Cho et al. 2014: s_t = f(y_{t-1}, s_{t-1}, c), where c is the memory's
 * summary. No attention. */
#include "models/parts/decoder_rnn.h"

static fv_status create(fv_params *params, const fv_seq2seq_config *cfg, int64_t memory_width,
                        void *self)
{
    const fv_rnn_decoder_shape shape = {.feed = memory_width, .reads_token = true};
    return fv_rnn_decoder_create(params, cfg, memory_width, shape, self);
}

static fv_decoder_step step(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state)
{
    fv_decoder_step done = {.context = call->memory->summary};
    done.state = fv_rnn_decoder_cells(ctx, self, call, done.context, state);
    return done;
}

const fv_decoder_part fv_decoder_fixed = {
    .name = "fixed",
    .summary = "reads the encoder's last state at every step; no attention",
    .create = create,
    .first_state = fv_rnn_decoder_first_state,
    .step = step,
    FV_RNN_DECODER_FUNCTIONS,
};

/* Luong et al. 2015: steps, then attends from the new state.
 * s_t = f([y_{t-1}; o_{t-1}], s_{t-1}); c_t = attend(s_t, h). Feeding o_{t-1} is optional. */
#include "models/parts/decoder_rnn.h"

static fv_status create(fv_params *params, const fv_seq2seq_config *cfg, int64_t memory_width,
                        void *self)
{
    const fv_rnn_decoder_shape shape = {.attends = true,
                                        .feed = cfg->input_feeding ? cfg->readout_width : 0};
    return fv_rnn_decoder_create(params, cfg, memory_width, shape, self);
}

static fv_status first_state(fv_ctx *ctx, void *self, const fv_memory *memory,
                             fv_decoder_state *out)
{
    const fv_rnn_decoder *d = self;
    FV_TRY(fv_rnn_decoder_first_state(ctx, self, memory, out));
    if (d->feed)
        out->tensor[FV_RNN_SLOT_FEED] =
            fv_zeros(ctx, fv_tensor_dtype(memory->summary), 2,
                     (int64_t[]){fv_tensor_size(memory->summary, 0), d->cfg.readout_width});
    return ctx->error;
}

static fv_decoder_step step(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state)
{
    const fv_rnn_decoder *d = self;
    fv_decoder_step done = {.state = NULL};
    fv_tensor **feed = &state->tensor[FV_RNN_SLOT_FEED];
    done.state = fv_rnn_decoder_cells(ctx, d, call, *feed, state);
    done.context = fv_cross_attention_run(ctx, &d->attention, call, done.state, &done);
    done.readout = fv_rnn_decoder_readout(ctx, self, NULL, &done);
    if (*feed) *feed = done.readout;
    return done;
}

const fv_decoder_part fv_decoder_luong = {
    .name = "luong",
    .summary = "steps, then attends from the new state (Luong et al.)",
    .attends = true,
    .create = create,
    .first_state = first_state,
    .step = step,
    FV_RNN_DECODER_FUNCTIONS,
};

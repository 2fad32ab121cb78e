/*
 * A decoder of attention alone: the new token attends to itself and the tokens before it, then to
 * the memory. No recurrence, norm, residual path or feed-forward layer.
 *
 *     x_t = y_{t-1} + p_t;  x_t = heads_i(x_t; x_1 .. x_t),  i = 1 .. model.self_layers
 *     s_t = x_t;  c_t = attend(s_t, h)
 *     o_t = act(W_s s_t + W_c c_t + b);  logits = W o_t + b
 *
 * Keys and values of earlier tokens are the state, so a step computes one token.
 */
#include "models/parts/decoder_rnn.h"
#include "models/parts/self_attention.h"
#include "tensor/tensor.h"

typedef struct attention_decoder {
    fv_rnn_decoder base; /* embedding, attention to the memory, readout, output; no cells */
    fv_self_attention stack;
} attention_decoder;

enum { SLOTS = 2 }; /* keys and values of a layer */

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *cfg,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    attention_decoder *d = fv_mem_zalloc(&ctx->mem, sizeof *d);
    FV_RETURN_IF(!d, ctx, FV_ERR_MEMORY, "no memory for a decoder");
    *self = d;
    return fv_rnn_decoder_embedding_init(params, cfg, &d->base);
}

static fv_status create(fv_params *params, const fv_seq2seq_config *cfg, int64_t memory_width,
                        void *self)
{
    attention_decoder *d = self;
    FV_TRY(fv_self_attention_create(params, "decoder", cfg, cfg->hidden, true, &d->stack));
    d->base.attends = true;
    fv_cross_attention_create(params, cfg, cfg->hidden, memory_width, &d->base.attention);
    return fv_rnn_decoder_create_output(params, memory_width,
                                        (fv_rnn_decoder_shape){.attends = true}, &d->base);
}

static void destroy(fv_ctx *ctx, void *self)
{
    fv_mem_free(&ctx->mem, self, sizeof(attention_decoder));
}

/* ---- a step --------------------------------------------------------------------------------- */

static fv_status first_state(fv_ctx *ctx, void *self, const fv_memory *memory,
                             fv_decoder_state *out)
{
    (void)self, (void)memory;
    *out = (fv_decoder_state){.tensor = {NULL}};
    return ctx->error;
}

static fv_tensor *input(fv_ctx *ctx, void *self, fv_tensor *embedded)
{
    (void)ctx, (void)self;
    return embedded;
}

static void append(fv_ctx *ctx, fv_tensor **slot, fv_tensor **now)
{
    if (*slot) *now = fv_concat(ctx, 2, (fv_tensor *[]){*slot, *now}, 2);
    *slot = *now;
}

/* Keys and values [n, heads, 1, d] of the new token join those of the earlier ones. */
static void append_token(void *user, fv_ctx *ctx, fv_tensor **k, fv_tensor **v)
{
    fv_tensor **slots = user;
    append(ctx, &slots[0], k);
    append(ctx, &slots[1], v);
}

static fv_tensor *attend_to_tokens(fv_ctx *ctx, const attention_decoder *d,
                                   const fv_decoder_call *call, fv_decoder_state *state)
{
    fv_tensor *x = fv_unsqueeze(ctx, call->input, 1);
    x = fv_self_attention_place(ctx, &d->stack, x, call->t);
    for (int i = 0; i < d->stack.layers; i++) {
        const fv_mha *layer = &d->stack.layer[i];
        fv_mha_input in = {.x = x,
                           .position = call->t,
                           .on_keys_values = append_token,
                           .on_keys_values_user = &state->tensor[SLOTS * i],
                           .training = call->training};
        if (layer->cfg.rotary.width)
            in.key_rotary_table = fv_rotary_table(ctx, FV_F32, &layer->cfg.rotary, call->t, 1);
        x = fv_mha_run(ctx, layer, &in, NULL);
    }
    return fv_squeeze(ctx, x, 1);
}

static fv_decoder_step step(fv_ctx *ctx, void *self, const fv_decoder_call *call,
                            fv_decoder_state *state)
{
    const attention_decoder *d = self;
    fv_decoder_step done = {.state = attend_to_tokens(ctx, d, call, state)};
    done.context = ctx->invalid;
    if (ctx->error == FV_OK)
        done.context = fv_cross_attention_run(ctx, &d->base.attention, call, done.state, &done);
    return done;
}

const fv_decoder_part fv_decoder_attention = {
    .name = "attention",
    .summary = "attends to the tokens so far, then to the source; nothing else",
    .choices = FV_CHOICES_VOCABULARY,
    .attends = true,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .attention = fv_rnn_decoder_attention,
    .first_state = first_state,
    .embed = fv_rnn_decoder_embed,
    .input = input,
    .step = step,
    .readout = fv_rnn_decoder_readout,
    .logits = fv_rnn_decoder_logits,
};

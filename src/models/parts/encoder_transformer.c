#include "models/parts/transformer_parts.h"

fv_status fv_transformer_memory(fv_ctx *ctx, const fv_transformer *m, const fv_sequences *sources,
                                const fv_encode_call *call, fv_memory *out)
{
    const fv_transformer_config *c = &m->cfg;
    *out = (fv_memory){.n = sources->count, .row_lengths = sources->length};
    for (int64_t i = 0; i < sources->count; i++)
        if (sources->length[i] > out->positions) out->positions = sources->length[i];
    out->rows = call->padded ? fv_token_rows_pad(ctx, sources, c->pad < 0 ? c->eos : c->pad)
                             : fv_transformer_rows(ctx, m, sources);
    out->states = fv_transformer_encode(ctx, m, &out->rows, call->pass);
    return ctx->error;
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const fv_sequences sources = fv_batch_sequences(batch, "source");
    return fv_transformer_memory(ctx, self, &sources, call, out);
}

const fv_encoder_part fv_encoder_transformer = {
    .name = "transformer",
    .summary = "blocks of self-attention",
    .field = "source",
    .reads_tokens = true,
    .axis = FV_AXIS_TOKENS,
    .encode = encode,
};

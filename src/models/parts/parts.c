/* The tables of parts, and what all parts do with memories and states. */
#include "models/parts/parts.h"

#include <math.h>
#include <string.h>

#include "models/parts/cross_attention.h"
#include "nn/weights.h"

#define FV_ENCODER(name) extern const fv_encoder_part fv_encoder_##name;
#define FV_DECODER(name) extern const fv_decoder_part fv_decoder_##name;
#include "models/parts/parts.def"

static const fv_encoder_part *const encoders[] = {
#define FV_ENCODER(name) &fv_encoder_##name,
#include "models/parts/parts.def"
};
static const fv_decoder_part *const decoders[] = {
#define FV_DECODER(name) &fv_decoder_##name,
#include "models/parts/parts.def"
};
enum {
    ENCODERS = (int)(sizeof encoders / sizeof *encoders),
    DECODERS = (int)(sizeof decoders / sizeof *decoders)
};

const char fv_encoder_choices[] =
#define FV_ENCODER(name) "|" #name
#include "models/parts/parts.def"
    ;
const char fv_decoder_choices[] =
#define FV_DECODER(name) "|" #name
#include "models/parts/parts.def"
    ;

const fv_encoder_part *fv_encoder_part_at(int i)
{
    return i >= 0 && i < ENCODERS ? encoders[i] : NULL;
}

int fv_encoder_part_find(const char *name)
{
    for (int i = 0; i < ENCODERS; i++)
        if (strcmp(encoders[i]->name, name) == 0) return i;
    return -1;
}

const fv_decoder_part *fv_decoder_part_at(int i)
{
    return i >= 0 && i < DECODERS ? decoders[i] : NULL;
}

/* ---- memories ------------------------------------------------------------------------------- */

static fv_tensor *some_rows(fv_ctx *ctx, fv_tensor *t, int64_t n, fv_tensor *index)
{
    if (!t) return NULL;
    return index ? fv_index_select(ctx, t, index, 0) : fv_slice(ctx, t, 0, 0, n, 1);
}

fv_memory fv_memory_rows(fv_ctx *ctx, const fv_memory *memory, int64_t n, fv_tensor *index)
{
    fv_memory out = {.n = n, .positions = memory->positions};
    out.v = some_rows(ctx, memory->v, n, index);
    out.k = memory->k == memory->v ? out.v : some_rows(ctx, memory->k, n, index);
    out.lengths = some_rows(ctx, memory->lengths, n, index);
    out.summary = some_rows(ctx, memory->summary, n, index);
    return out;
}

void fv_memory_map(fv_memory *m, fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user),
                   fv_ctx *ctx, void *user)
{
    fv_tensor **tensors[] = {&m->k, &m->v, &m->lengths, &m->summary};
    for (int i = 0; i < 4; i++)
        if (*tensors[i]) *tensors[i] = each(ctx, *tensors[i], user);
}

fv_tensor *fv_source_embedding(fv_params *params, const fv_seq2seq_config *cfg)
{
    return fv_nn_weight(params, "encoder", "embedding.weight", 2,
                        (int64_t[]){cfg->source_tokens, cfg->embedding},
                        fv_init_normal(1.0 / sqrt((double)cfg->embedding)));
}

void fv_memory_from_packed(fv_ctx *ctx, fv_tensor *states, const fv_packed_sequences *p,
                           const fv_encode_call *call, fv_memory *out)
{
    out->n = p->sequences;
    out->positions = p->steps;
    out->lengths = fv_packed_lengths(ctx, p, call->order);
    if (!call->attention) return;
    out->v = fv_unsqueeze(ctx, fv_packed_pad(ctx, p, states, call->order), 1);
    fv_tensor *keys = fv_cross_attention_keys(ctx, call->attention, states);
    out->k = keys ? fv_unsqueeze(ctx, fv_packed_pad(ctx, p, keys, call->order), 1) : out->v;
}

/* ---- states --------------------------------------------------------------------------------- */

void fv_decoder_state_map(fv_decoder_state *state,
                          fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user), fv_ctx *ctx,
                          void *user)
{
    for (int i = 0; i < FV_STATE_TENSORS; i++)
        if (state->tensor[i]) state->tensor[i] = each(ctx, state->tensor[i], user);
}

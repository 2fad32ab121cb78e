/*
 * A Transformer as an encoder part and a decoder part. Its attention stays inside its blocks: the
 * memory holds the encoder's last states, from which each decoder block projects its own keys and
 * values. Both parts are created with their model (fovea/transformer.h) and so are not in
 * parts.def; they have no create and destroy.
 *
 *     fv_transformer_decoder d = {.cache = cache, .prompts = prompts, .sources = sources};
 *     fv_stepper stepper = fv_transformer_stepper(&d);           // for fv_search
 */
#ifndef FV_MODELS_TRANSFORMER_PARTS_H
#define FV_MODELS_TRANSFORMER_PARTS_H

#include "models/parts/parts.h"
#include "models/transformer_cache.h"

/* `self` is the fv_transformer. Reads "source". */
extern const fv_encoder_part fv_encoder_transformer;
/* `self` is an fv_transformer_decoder. */
extern const fv_decoder_part fv_decoder_transformer;

/* A decoder with a cache, and what a search starts from. */
typedef struct fv_transformer_decoder {
    fv_cache *cache;
    fv_sequences prompts;        /* one for each source, each at least one token */
    fv_sequences sources;        /* count 0: the model has no encoder */
    int64_t more;                /* tokens that will follow; see fv_cache_begin */
    const int64_t *first_tokens; /* [prompts]: the last token of each; NULL: BOS everywhere */
} fv_transformer_decoder;

/* Encodes sources: varlen where the model can, or padded as `call` asks. */
fv_status fv_transformer_memory(fv_ctx *ctx, const fv_transformer *model,
                                const fv_sequences *sources, const fv_encode_call *call,
                                fv_memory *out);

/* `d` must outlive the search. */
fv_stepper fv_transformer_stepper(fv_transformer_decoder *d);

#endif

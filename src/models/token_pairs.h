/* Sentence pairs as token sequences: the fields "source" and "target" of a batch. */
#ifndef FV_MODELS_TOKEN_PAIRS_H
#define FV_MODELS_TOKEN_PAIRS_H

#include "fovea/batch.h"

/* Host tokens without BOS and EOS. Sources have at least one token; targets may be empty. */
typedef struct fv_token_pairs {
    int64_t count;
    const int64_t *const *source;
    const int64_t *source_length;
    const int64_t *const *target; /* NULL where there are only sources */
    const int64_t *target_length;
} fv_token_pairs;

static inline fv_token_pairs fv_token_pairs_of(const fv_batch *batch)
{
    const fv_sequences source = fv_batch_sequences(batch, "source"),
                       target = fv_batch_sequences(batch, "target");
    return (fv_token_pairs){.count = source.count,
                            .source = source.tokens,
                            .source_length = source.length,
                            .target = target.tokens,
                            .target_length = target.length};
}

/* Tokens that a loss sums over: all targets, and one EOS each. */
static inline int64_t fv_token_pairs_tokens(const fv_token_pairs *pairs)
{
    int64_t n = pairs->count;
    for (int64_t i = 0; i < pairs->count; i++)
        n += pairs->target_length[i];
    return n;
}

#endif

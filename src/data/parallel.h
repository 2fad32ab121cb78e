/* Sentence pairs as tokens in memory; the public part is in fovea/translate.h. */
#ifndef FV_DATA_PARALLEL_H
#define FV_DATA_PARALLEL_H

#include "base/ctx.h"
#include "fovea/translate.h"
#include "io/arena.h"

/* An empty set of pairs. The encoders must outlive it. Fails: MEMORY. */
fv_status fv_parallel_create_with(fv_ctx *ctx, fv_tokenizer_encoder *source,
                                  fv_tokenizer_encoder *target, fv_parallel **out);

/* The tokens of a text, in `arena`. Fails: FORMAT, MEMORY, STATE. */
fv_status fv_encode_to_arena(fv_ctx *ctx, fv_tokenizer_encoder *encoder, fv_string text,
                             fv_arena *arena, int64_t **tokens, int64_t *count);

#endif

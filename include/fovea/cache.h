/*
 * fovea/cache.h: Transformers one token at a time. A cache holds the keys and values of each
 * sequence so far, so that a step costs one row of every product.
 *
 *     s = fv_transformer_freeze(model, FV_WEIGHT_BF16);          // for running only; or not at all
 *     fv_cache *cache = NULL;
 *     s = fv_cache_create(model, &cache);
 *     s = fv_cache_begin(cache, &prompts, NULL, 100);            // prefill, one varlen pass
 *     fv_tensor *logits = fv_cache_step(ctx, cache, tokens);     // [rows] in, [rows, vocabulary]
 *     fv_cache_destroy(&cache);
 *
 * Rows are sequences of any lengths; a longer one costs the others memory, not time. A step gives
 * what a pass over the whole sequence gives for its last token, independent of the other rows. With
 * an encoder, every row reads the states of a source.
 *
 * As an fv_stepper (fovea/search.h) the cache serves every search; fovea/generate.h does that.
 * Steps record no gradients. A cache is used by one thread at a time and must be destroyed before
 * its model.
 */
#ifndef FOVEA_CACHE_H
#define FOVEA_CACHE_H

#include "fovea/search.h"
#include "fovea/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * For inference only: every matrix of the blocks, the embeddings and the output are replaced by
 * panels in `form` (fv_linear_freeze). Norms, biases and positions stay f32. Fails: STATE
 * (frozen already), MEMORY; matrices before the one that failed are frozen then.
 */
FV_API FV_MUST_USE fv_status fv_transformer_freeze(fv_transformer *model, fv_weight_form form);

typedef struct fv_cache fv_cache;

/* Fails: ARGUMENT (the model has no decoder), MEMORY. */
FV_API FV_MUST_USE fv_status fv_cache_create(fv_transformer *model, fv_cache **out);
FV_API void fv_cache_destroy(fv_cache **cache); /* NULL is fine */

/*
 * Starts over with one row for each prompt. All tokens of a prompt but its last go through the
 * model, in one pass for all prompts; the last one is the input of the first step. With
 * an encoder, sources[i] is what row i reads; without, sources is NULL. `more`: expected
 * number of new tokens: memory for them is allocated now, and grows by half beyond that.
 * Fails: ARGUMENT, LIMIT (a prompt is longer than the model's positions), INDEX, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_cache_begin(fv_cache *cache, const fv_sequences *prompts,
                                            const fv_sequences *sources, int64_t more);

/* The next token of every row (i64 [rows]) in; logits of the one after it, [rows, vocabulary].
 * Poisons: LIMIT (no position is left), SHAPE, INDEX, MEMORY. */
FV_API fv_tensor *fv_cache_step(fv_ctx *ctx, fv_cache *cache, fv_tensor *tokens);

/* From now on there are `rows` rows; row i continues from the previous row from[i]. */
FV_API FV_MUST_USE fv_status fv_cache_select(fv_cache *cache, int64_t rows, const int64_t *from);

FV_API int64_t fv_cache_rows(const fv_cache *cache);
FV_API int64_t fv_cache_length(const fv_cache *cache, int64_t row); /* tokens stored */
FV_API size_t fv_cache_bytes(const fv_cache *cache);                /* of keys and values */

#ifdef __cplusplus
}
#endif
#endif

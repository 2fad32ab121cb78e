/*
 * What fv_embedder, fv_classifier, fv_answerer and fv_filler of fovea/encode.h share: a model with
 * its tokenizer, and passes over texts.
 *
 *     text_encoder.c  opening, tokens, batches
 *     embedder.c, classifier.c, answerer.c, filler.c
 */
#ifndef FV_MODELS_TEXT_ENCODER_H
#define FV_MODELS_TEXT_ENCODER_H

#include "fovea/encode.h"
#include "models/model.h"

/* The first member of each of the four. */
typedef struct fv_text_encoder {
    fv_ctx *ctx;
    fv_model *model;
    fv_tokenizer *tok;
    fv_tokenizer_encoder *enc;
    size_t bytes;               /* of the whole object */
    fv_arena tokens;            /* of a batch */
    const fv_token_span *spans; /* of the last text of the batch: bytes of its tokens */
    fv_arena results;           /* of the last call */
    int64_t max_tokens; /* longer texts are cut, special tokens at the end stay; 0: none are */
    int64_t truncated;  /* texts cut in the last call */
} fv_text_encoder;

typedef struct fv_text_encoder_kind {
    fv_ability ability;
    size_t bytes;
    /* Reads what else the folder says; before weights are packed. May be NULL. */
    fv_status (*prepare)(fv_text_encoder *e, const char *folder);
} fv_text_encoder_kind;

fv_status fv_text_encoder_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                               const fv_text_encoder_kind *kind, fv_text_encoder **out);
/* On success *model becomes NULL. */
fv_status fv_text_encoder_take(fv_model **model, const char *folder, fv_weight_form form,
                               const fv_text_encoder_kind *kind, fv_text_encoder **out);
void fv_text_encoder_close(fv_text_encoder *e); /* NULL is fine */

/* One pass: texts number first to first + tokens->count - 1. Runs in a scope, without a tape. */
typedef fv_status fv_text_pass_fn(fv_text_encoder *e, void *user, int64_t first,
                                  const fv_sequences *tokens);

/* Frees the results of the last call and passes over all texts, at most `together` at a time. */
fv_status fv_text_encoder_run(fv_text_encoder *e, int64_t count, const fv_string *texts,
                              int64_t together, fv_text_pass_fn *pass, void *user);
/* The same for pairs, which are never cut. */
fv_status fv_text_encoder_run_pairs(fv_text_encoder *e, int64_t count, const fv_text_pair *pairs,
                                    int64_t together, fv_text_pass_fn *pass, void *user);

/* The values of an f32 tensor, in `results`. */
fv_status fv_text_encoder_read(fv_text_encoder *e, const fv_tensor *t, float **out);
/* An array of `count` entries with room for `more`: itself, or a larger copy in `results`. NULL:
 * out of memory, the error is set. */
void *fv_text_encoder_grow(fv_text_encoder *e, void *array, int64_t count, int64_t *capacity,
                           int64_t more, size_t bytes);

#endif

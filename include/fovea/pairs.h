/*
 * fovea/pairs.h: pairs of token sequences, and what any model of such pairs can do.
 *
 *     const fv_pair_model *m = fv_translator_model(translator);      // recurrent or not
 *     fv_tensor *loss = m->loss(ctx, m->self, &batch, NULL);         // summed over tokens
 *
 * Translators, their training and their search know models by this interface alone, so a new family
 * of models is translated with as soon as it fills the first five functions.
 */
#ifndef FOVEA_PAIRS_H
#define FOVEA_PAIRS_H

#include <stdbool.h>

#include "fovea/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Host tokens, without start and end. Sources have at least one token; targets may be empty. */
typedef struct fv_token_pairs {
    int64_t count;
    const int64_t *const *source;
    const int64_t *source_length;
    const int64_t *const *target; /* NULL where only sources are needed */
    const int64_t *target_length;
} fv_token_pairs;

/* Tokens that a loss sums over: all targets and one end each. */
FV_API int64_t fv_token_pairs_tokens(const fv_token_pairs *batch);

/* Training settings of one call; NULL for evaluation: no dropout, no smoothing. */
typedef struct fv_teaching {
    double sampling; /* share of steps that are fed the model's own likeliest token [0] */
    bool checkpoint; /* Transformers: as in fv_pass [false] */
} fv_teaching;

enum { FV_PAIR_NUMBERS = 2 };

typedef struct fv_pair_model {
    void *self;
    /* Cross-entropy of every target token and of the end, summed. */
    fv_tensor *(*loss)(fv_ctx *ctx, void *self, const fv_token_pairs *batch,
                       const fv_teaching *teaching);
    /* The attention of given targets [count, most target tokens + 1, most source tokens]: rows of
     * target steps, columns of source tokens; 0 past an end. NULL: the model has none. */
    fv_tensor *(*align)(fv_ctx *ctx, void *self, const fv_token_pairs *batch);
    /* Reads the sources and makes a stepper over them, which lives until the next call. */
    fv_status (*stepper)(void *self, const fv_token_pairs *sources, fv_stepper *out);
    /* Writes config.json, and what else says what the model is, into a folder. */
    fv_status (*save)(fv_ctx *ctx, const void *self, const char *folder);
    void (*destroy)(void *self);
    /* What training remembers beside the weights, as numbers that a state can hold; asked for
     * between steps. NULL, both: nothing. Setting fails: FORMAT. */
    void (*get_numbers)(void *self, int64_t numbers[FV_PAIR_NUMBERS]);
    fv_status (*set_numbers)(void *self, const int64_t numbers[FV_PAIR_NUMBERS]);
} fv_pair_model;

#ifdef __cplusplus
}
#endif
#endif

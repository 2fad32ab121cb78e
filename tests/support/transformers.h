/*
 * Small Transformers of every family, and a few sequences for them.
 *
 *     const fv_transformer_config cfg = small_config(FV_FAMILY_BERT);
 *     small s = small_make(&cfg);
 *     fv_tensor *states = small_states(&s, &rows);
 *     small_free(&s);                                    // fails the test if an error was left
 */
#ifndef FV_TESTS_TRANSFORMERS_H
#define FV_TESTS_TRANSFORMERS_H

#include "fovea/transformer.h"
#include "support/tensors.h"
#include "support/values.h"

enum { VOCABULARY = 23 };

typedef struct small {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer *t;
} small;

fv_transformer_config small_config(fv_family family);
small small_make(const fv_transformer_config *cfg);
void small_free(small *s);

/* Sequences of different lengths, one of a single token; others of the same lengths at most. */
enum { COUNT = 4, LONGEST = 19 };
extern const int64_t lengths[COUNT];
extern const int64_t *tokens[COUNT], *types[COUNT], *others[COUNT];
void fill_sequences(void);

fv_sequences all_of(const fv_transformer *t);
fv_sequences one_of(const fv_transformer *t, int i);

/* The last states of any model; the second side reads its own source. */
fv_tensor *small_states(small *s, const fv_token_rows *rows);

#endif

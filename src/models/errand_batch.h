/*
 * Errands (data/worlds.h) as a batch of a walker, and the walks that it makes of them.
 *
 *     fv_errand_batch b;
 *     s = fv_errand_batch_create(ctx, 64, &b);
 *     fv_errand_batch_add(&b, words, &errand);                  // words: token of each word
 *     fv_batch batch = fv_errand_batch_of(&b, 0, b.count);      // with the right actions
 *     s = fv_errand_batch_walk(&b, model);                      // with the model's own
 *     bool reached = fv_errand_reached(&b.row[0]);
 *     fv_errand_batch_free(&b);
 */
#ifndef FV_MODELS_ERRAND_BATCH_H
#define FV_MODELS_ERRAND_BATCH_H

#include "base/ctx.h"
#include "data/worlds.h"
#include "fovea/model.h"

enum { FV_ERRAND_VOCABULARY = 64 };

typedef struct fv_errand_row {
    fv_errand errand;
    int64_t words, steps;
    int64_t word[FV_ERRAND_WORDS], action[FV_ERRAND_ACTIONS];
    fv_agent agent[FV_ERRAND_ACTIONS + 1]; /* before each action, and after the last */
    float seen[FV_ERRAND_ACTIONS][FV_WORLD_SEEN];
    bool stopped;
} fv_errand_row;

enum { FV_ERRAND_FIELDS = 3 };

typedef struct fv_errand_batch {
    fv_ctx *ctx;
    int64_t count, room;
    fv_errand_row *row;
    const void **at[FV_ERRAND_FIELDS];
    int64_t *words, *steps;
} fv_errand_batch;

fv_status fv_errand_batch_create(fv_ctx *ctx, int64_t room, fv_errand_batch *out);
void fv_errand_batch_free(fv_errand_batch *b); /* accepts a zeroed one */

/* The token of each word of fv_errand_word. Fails: ARGUMENT (the tokenizer lacks one). */
fv_status fv_errand_tokens(fv_ctx *ctx, const fv_tokenizer *tokenizer,
                           int64_t out[FV_ERRAND_VOCABULARY]);
/* Adds an errand with its right actions; the batch must have room for it. */
void fv_errand_batch_add(fv_errand_batch *b, const int64_t words[FV_ERRAND_VOCABULARY],
                         const fv_errand *errand);
/* Rows first .. first + count - 1 as a batch, valid until the next call. */
fv_batch fv_errand_batch_of(fv_errand_batch *b, int64_t first, int64_t count);

/* Replaces all actions by the model's most likely ones, each in the world that the ones before led
 * to, up to FV_ERRAND_ACTIONS. */
fv_status fv_errand_batch_walk(fv_errand_batch *b, fv_model *model);
/* Whether the walk stopped at the goal with its heading. */
bool fv_errand_reached(const fv_errand_row *row);

#endif

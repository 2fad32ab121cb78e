/*
 * A search that continues when a decoder's context is full. The stepper keeps the tokens in the
 * context of each row. A row that has as many as the context holds keeps the last half of them, and
 * its BOS token if it begins with one, since models are trained on texts that do;
 * these go through the model again, from position 0 on: their keys and values depend on the tokens
 * that were dropped, so moving the cached ones would give another result.
 *
 *     fv_context_shift shift = {.ctx = ctx, .inner = stepper, .prompts = prompts, .context = 64,
 *                               .bos = -1, .refill = refill, .user = decoder};
 *     fv_stepper shifted = fv_context_shift_stepper(&shift);      // for fv_search
 *     fv_context_shift_free(&shift);                              // after the search
 */
#ifndef FV_MODELS_CONTEXT_SHIFT_H
#define FV_MODELS_CONTEXT_SHIFT_H

#include "fovea/search.h"
#include "fovea/transformer.h"

typedef struct fv_context_shift {
    fv_ctx *ctx;
    fv_stepper inner;     /* of a decoder that reads no sources */
    fv_sequences prompts; /* where it begins; they fit the context */
    int64_t context, bos; /* bos -1: none */
    /* Gives rows of `inner` new contexts, of which the last token is yet to be fed: contexts->count
     * of them, rows[i] gets number i. It may replace `inner` if `refills_all` says that it gets all
     * rows, 0, 1, ..., once one of them is full. */
    fv_status (*refill)(void *user, const fv_sequences *contexts, const int64_t *rows,
                        fv_stepper *inner);
    bool refills_all;
    void *user;
    /* Set by the stepper. */
    int64_t rows, room;      /* in use, allocated */
    int64_t *tokens, *moved; /* [room][context]: in the context; the same during a selection */
    int64_t *length, *moved_length; /* [room] */
} fv_context_shift;

/* Copies the tokens of a text that stay in a full context to `to`, which may be `tokens`, and
 * returns their number: the last half of the context, in which a BOS token at the beginning of the
 * text takes the place of the first one. `bos` is -1 where there is none. */
int64_t fv_context_shorten(const int64_t *tokens, int64_t count, int64_t context, int64_t bos,
                           int64_t *to);
/* Most tokens that fv_context_shorten leaves. */
int64_t fv_context_kept(int64_t context);

/* `shift` must outlive the search. */
fv_stepper fv_context_shift_stepper(fv_context_shift *shift);
void fv_context_shift_free(fv_context_shift *shift);

#endif

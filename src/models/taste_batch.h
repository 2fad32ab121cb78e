/*
 * Viewers (data/tastes.h) as a batch of a recommender, and its scores for them.
 *
 *     fv_taste_batch b;
 *     s = fv_taste_batch_create(ctx, 64, &b);
 *     fv_taste_batch_add(&b, 7, &viewer, FV_MADE_VALID);        // candidates: that part's ratings
 *     fv_batch batch = fv_taste_batch_of(&b, 0, b.count);
 *     s = fv_taste_batch_rate(&b, model);                       // b.row[i].score
 *     fv_taste_batch_free(&b);
 */
#ifndef FV_MODELS_TASTE_BATCH_H
#define FV_MODELS_TASTE_BATCH_H

#include "base/ctx.h"
#include "data/tastes.h"
#include "fovea/model.h"

enum { FV_TASTE_FIELDS = 5 };

typedef struct fv_taste_row {
    int64_t viewer, history_count, count; /* count: of candidates */
    int64_t history[FV_TASTE_HISTORY], candidate[FV_TASTE_MOVIES];
    float rating[FV_TASTE_HISTORY]; /* 1: liked, -1: not */
    float liked[FV_TASTE_MOVIES];   /* of candidates, 1 or 0 */
    float score[FV_TASTE_MOVIES];
    float weights[FV_TASTE_MOVIES][FV_TASTE_HISTORY]; /* of each candidate, where it attends */
} fv_taste_row;

typedef struct fv_taste_batch {
    fv_ctx *ctx;
    int64_t count, room;
    fv_taste_row *row;
    const void **at[FV_TASTE_FIELDS];
    int64_t *histories, *candidates; /* lengths */
} fv_taste_batch;

fv_status fv_taste_batch_create(fv_ctx *ctx, int64_t room, fv_taste_batch *out);
void fv_taste_batch_free(fv_taste_batch *b); /* accepts a zeroed one */

/* Adds a viewer with all ratings of training as history; the batch must have room. The candidates
 * are the viewer's ratings of `part`. number: of the viewer's own vector. */
void fv_taste_batch_add(fv_taste_batch *b, int64_t number, const fv_viewer *v, fv_made_part part);
/* Makes all movies that are not in the row's history its candidates; their `liked` is 0. */
void fv_taste_unrated(fv_taste_row *row, int movies);
/* The candidate with the highest score, the first of equal ones; its score becomes -infinity, so
 * that the next call gives the next best. */
int64_t fv_taste_take_best(fv_taste_row *row);
/* Rows first .. first + count - 1 as a batch, valid until the next call. */
fv_batch fv_taste_batch_of(fv_taste_batch *b, int64_t first, int64_t count);
/* Sets the scores of all rows, and the weights where the model attends. */
fv_status fv_taste_batch_rate(fv_taste_batch *b, fv_model *model);

#endif

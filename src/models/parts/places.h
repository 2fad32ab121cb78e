/*
 * Positions of tokens in the parts without recurrence: a table of sinusoids or learned vectors of
 * width model.embedding, added to the tokens or concatenated.
 *
 *     fv_places places;
 *     s = fv_places_create(params, "encoder", cfg, &places);        // "encoder.positions.weight"
 *     fv_tensor *rows = fv_places_rows(ctx, &places, 0, n);         // [n, embedding], or NULL
 *     if (rows) x = fv_positions_apply(ctx, x, rows, places.how);   // [.., n, fv_places_width]
 */
#ifndef FV_MODELS_PARTS_PLACES_H
#define FV_MODELS_PARTS_PLACES_H

#include "models/parts/parts.h"

typedef struct fv_places {
    fv_seq2seq_positions kind;
    fv_positions_how how;
    int64_t width;
    fv_tensor *table; /* NULL: not learned */
} fv_places;

fv_status fv_places_create(fv_params *params, const char *prefix, const fv_seq2seq_config *cfg,
                           fv_places *out);
/* Rows for n positions from `first` on; NULL: nothing is added to tokens. More positions than a
 * learned table has are a SHAPE error. */
fv_tensor *fv_places_rows(fv_ctx *ctx, const fv_places *p, int64_t first, int64_t n);
/* Width of a token with its position. */
int64_t fv_places_width(const fv_seq2seq_config *cfg);

#endif

/*
 * Draws one token of a row. All that a draw needs of a row are its largest logits and the sum over
 * all of them, so that a device need not hand over a whole vocabulary.
 *
 *     const fv_draw_row row = {.logit = top, .count = 40, .choices = vocabulary,
 *                              .log_total = sum, .weight = weight, .order = order};
 *     const int64_t place = fv_search_draw(&cfg, &row, unit);
 *     if (place < 0) ... the same again with all logits ...
 */
#ifndef FV_INFER_SAMPLING_H
#define FV_INFER_SAMPLING_H

#include "fovea/search.h"

/* The logits of one row that a token is drawn from, and room to work in. */
typedef struct fv_draw_row {
    const float
        *logit; /* [count]: all choices in their order, or the largest in descending order */
    int64_t count, choices;
    double log_total; /* where not all are here: log sum over all choices of exp(logit /
                         temperature) */
    double *weight;   /* [count] */
    int64_t *order;   /* [count] */
} fv_draw_row;

/* The place in row->logit of the choice that the number `unit`, from 0 to 1, draws; -1: that choice
 * is not among them. A draw from some of the logits and one from all have the same result. */
int64_t fv_search_draw(const fv_search_config *cfg, const fv_draw_row *row, double unit);

#endif

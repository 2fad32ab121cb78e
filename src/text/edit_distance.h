/*
 * The edit distance of two texts (Levenshtein): the least number of units that are inserted, left
 * out or replaced. An error rate is the sum of distances over the sum of the references' units.
 *
 *     int64_t errors, units;
 *     s = fv_edit_distance(ctx, text, reference, FV_EDIT_WORDS, &errors, &units);
 */
#ifndef FV_TEXT_EDIT_DISTANCE_H
#define FV_TEXT_EDIT_DISTANCE_H

#include "base/ctx.h"
#include "fovea/unicode.h"

typedef enum fv_edit_unit {
    FV_EDIT_CHARACTERS, /* code points; the texts are valid UTF-8 */
    FV_EDIT_WORDS       /* between blanks */
} fv_edit_unit;

/* *units: those of the reference. Fails: MEMORY. */
fv_status fv_edit_distance(fv_ctx *ctx, fv_string text, fv_string reference, fv_edit_unit unit,
                           int64_t *distance, int64_t *units);

#endif

/*
 * How random ops key their numbers: by seed, step and site of the context, and by the global row.
 * Rows are counted over all axes but the last (a vector has one element a row), so that a batch
 * split along its first axis draws the same numbers as the whole batch.
 */
#ifndef FV_OPS_DRAW_H
#define FV_OPS_DRAW_H

#include "ops/op.h"

typedef struct fv_draw {
    uint64_t key, row_offset;
} fv_draw;

typedef struct fv_draw_shape {
    int64_t rows, cols;
} fv_draw_shape;

fv_draw_shape fv_draw_shape_of(int rank, const int64_t *shape);

/* Takes the context's next site. The sizes must have been checked. */
fv_draw fv_draw_next(fv_ctx *ctx, int rank, const int64_t *shape);

#endif

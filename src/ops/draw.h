/*
 * How random ops key their numbers: by seed, step and site of the context, and by the number of the
 * row (kernels/draw.h). Rows are counted over all axes but the last (a vector has one element a
 * row).
 *
 * A tensor [batch, n, ...] holds sequence i of the batch in entry i; a row draws by the sequence's
 * number in the whole step and by its position in it. Where rows of several sequences stand one
 * after the other, a model says their numbers by a table:
 *
 *     fv_tensor *before = fv_draw_numbers_set(ctx, numbers);      // i64 [rows]
 *     ... ops over tensors of that many rows ...
 *     fv_draw_numbers_set(ctx, before);
 *
 * So a step draws the same numbers however its sequences are divided into batches, padded or not.
 */
#ifndef FV_OPS_DRAW_H
#define FV_OPS_DRAW_H

#include "kernels/draw.h"
#include "ops/op.h"

typedef struct fv_draw_shape {
    int64_t rows, cols;
} fv_draw_shape;

fv_draw_shape fv_draw_shape_of(int rank, const int64_t *shape);

/* Takes the context's next site. The sizes must have been checked. */
fv_draw fv_draw_next(fv_ctx *ctx, int rank, const int64_t *shape);
/* The context's table, where the shape has as many rows; else NULL. */
fv_tensor *fv_draw_numbers(const fv_ctx *ctx, int rank, const int64_t *shape);
/* The table of what follows, NULL: none. It is not kept: it must outlive its use. Returns the one
 * before. A number is (number of the sequence) << 32 | position. */
fv_tensor *fv_draw_numbers_set(fv_ctx *ctx, fv_tensor *numbers);
/* The table of sequences that stand one after the other: the number of the first is that of the
 * context's first row. On failure the context is poisoned. */
fv_tensor *fv_draw_numbers_of(fv_ctx *ctx, int64_t count, const int64_t *length);
/* Checks input i of an op, the table of numbers, which may be missing. */
fv_status fv_draw_check_numbers(fv_op_run *run, int i, int64_t rows);
/* The table at inputs[i], or NULL. */
static inline fv_tensor *fv_draw_numbers_in(fv_tensor *const *inputs, int count, int i)
{
    return i < count ? inputs[i] : NULL;
}

#endif

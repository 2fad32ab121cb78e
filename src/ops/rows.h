/*
 * Kernels over rows need contiguous memory with the axis they work along last. These bring a tensor
 * into that form, without a copy if it has it already.
 *
 *     fv_tensor *rows = fv_rows_of(ctx, x, axis);      // x itself, or a copy
 *     ... launch over fv_row_count(rows) rows of rows->shape[rows->rank - 1] ...
 *     fv_drop_copy(ctx, rows, x);                      // frees the copy, if it was one
 */
#ifndef FV_OPS_ROWS_H
#define FV_OPS_ROWS_H

#include "ops/op.h"

/* The product of all sizes but the last; 1 for a scalar. */
int64_t fv_row_count(const fv_tensor *t);
/* The products of the sizes before and after an axis. */
int64_t fv_outer_count(const fv_tensor *t, int axis);
int64_t fv_inner_count(const fv_tensor *t, int axis);

/* A view of t with `axis` moved to the end; t itself if it is there. Rank >= 1. */
fv_tensor *fv_axis_last(fv_ctx *ctx, fv_tensor *t, int axis);
/* The same as contiguous rows. */
fv_tensor *fv_rows_of(fv_ctx *ctx, fv_tensor *t, int axis);

/* For results: a contiguous tensor of t's shape with `axis` last; t itself if it has that form.
 * Pass it to fv_rows_store once filled. */
fv_tensor *fv_rows_buffer(fv_ctx *ctx, fv_tensor *t, int axis);
void fv_rows_store(fv_ctx *ctx, fv_tensor *t, int axis, fv_tensor *rows);

/* Contiguous data of an optional input, or NULL; *copy is what to drop afterwards. */
void *fv_optional_data(fv_ctx *ctx, fv_tensor *t, fv_tensor **copy);

/* Frees `copy` unless it is `of` itself. */
void fv_drop_copy(fv_ctx *ctx, fv_tensor *copy, const fv_tensor *of);

#endif

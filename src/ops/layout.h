/* Shared by the ops that move data about: views of parts of a tensor, not recorded. */
#ifndef FV_OPS_LAYOUT_H
#define FV_OPS_LAYOUT_H

#include "ops/op.h"

/* Elements begin .. begin + size - 1 of one axis; the caller has checked that they are there. */
fv_tensor *fv_layout_part(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t begin, int64_t size);

/* dst's elements from dst_begin on = src's from src_begin on, `size` of them along the axis. */
void fv_layout_copy_part(fv_ctx *ctx, fv_tensor *dst, int axis, int64_t dst_begin,
                         const fv_tensor *src, int64_t src_begin, int64_t size);

/* The given sizes as a row-major view of a contiguous tensor with as many elements. */
fv_tensor *fv_layout_as(fv_ctx *ctx, const fv_tensor *t, int rank, const int64_t *shape);

/* A view that leaves one axis out, at position `index` along it. */
fv_tensor *fv_layout_at(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t index);

/* Whether a public call may look at x's shape; what is not usable is left for the op to refuse. */
static inline bool fv_layout_known(const fv_tensor *x)
{
    return x && !(x->flags & FV_TENSOR_INVALID);
}

/* A shape as a parameter. A list that is missing or too long is remembered as rank -1, which
 * fv_shape_check refuses. */
typedef struct fv_shape_params {
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_shape_params;
fv_shape_params fv_shape_take(int rank, const int64_t *shape);
fv_status fv_shape_check(fv_op_run *run, const fv_shape_params *params);

#endif

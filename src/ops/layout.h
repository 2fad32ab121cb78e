/* Shared by the ops that move data: views of parts of a tensor. Nothing here is recorded. */
#ifndef FV_OPS_LAYOUT_H
#define FV_OPS_LAYOUT_H

#include "ops/op.h"

/* Elements begin .. begin + size - 1 of one axis; the caller has checked the range. */
fv_tensor *fv_layout_slice(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t begin, int64_t size);

/* dst's elements from dst_begin on = src's from src_begin on, `size` of them along the axis. */
void fv_layout_copy_slice(fv_ctx *ctx, fv_tensor *dst, int axis, int64_t dst_begin,
                          const fv_tensor *src, int64_t src_begin, int64_t size);

/* The given sizes as a row-major view of a contiguous tensor with as many elements. */
fv_tensor *fv_layout_reshape(fv_ctx *ctx, const fv_tensor *t, int rank, const int64_t *shape);

/* A view that leaves one axis out, at position `index` along it. */
fv_tensor *fv_layout_select(fv_ctx *ctx, const fv_tensor *t, int axis, int64_t index);

/* Whether a public function may read x's shape. If not, the op itself reports the error. */
static inline bool fv_layout_has_shape(const fv_tensor *x)
{
    return x && !(x->flags & FV_TENSOR_INVALID);
}

/* A shape as a parameter. A list that is NULL or too long becomes rank -1, which fv_shape_check
 * refuses. */
typedef struct fv_shape_params {
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_shape_params;
fv_shape_params fv_shape_params_of(int rank, const int64_t *shape);
fv_status fv_shape_check(fv_op_run *run, const fv_shape_params *params);

#endif

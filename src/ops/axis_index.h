/* Shared by gather and scatter-add: an index of x's rank whose sizes equal x's in every axis but
 * one. */
#ifndef FV_OPS_AXIS_INDEX_H
#define FV_OPS_AXIS_INDEX_H

#include "kernels/index.h"
#include "ops/op.h"

typedef struct fv_axis_params {
    int axis;
} fv_axis_params;

/* Checks input 0 (real) and input 1 (the index) against params. */
fv_status fv_axis_index_check(fv_op_run *run);
/* The kernel's arguments for a tensor of x's shape and its index. */
fv_gather_args fv_axis_index_args(const void *params, int rank, const int64_t *shape,
                                  const fv_tensor *index);

#endif

/* What gather and scatter-add share: an index of x's rank whose sizes agree with x off one axis. */
#ifndef FV_OPS_AXIS_INDEX_H
#define FV_OPS_AXIS_INDEX_H

#include "kernels/index.h"
#include "ops/op.h"

typedef struct fv_axis_params {
    int axis;
} fv_axis_params;

/* Checks input 0 (real) and input 1 (the index) against params. */
fv_status fv_axis_index_check(fv_op_run *run);
/* For a tensor of x's shape and an index beside it. */
fv_gather_args fv_axis_index_args(const void *params, int rank, const int64_t *shape,
                                  const fv_tensor *index);

#endif

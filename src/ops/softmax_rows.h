/* Shared by softmax and log-softmax: both work along one axis, which is moved last if necessary,
 * and both compute their gradient from their result. */
#ifndef FV_OPS_SOFTMAX_ROWS_H
#define FV_OPS_SOFTMAX_ROWS_H

#include "ops/op.h"

typedef struct fv_softmax_params {
    int axis;
} fv_softmax_params;

fv_status fv_softmax_infer(fv_op_run *run);
void fv_softmax_forward(fv_op_run *run, bool log);
void fv_softmax_backward(fv_op_back *back, bool log);

#endif

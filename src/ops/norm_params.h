/* The gradient of gamma and beta, the same for layer norm and RMS norm. */
#ifndef FV_OPS_NORM_PARAMS_H
#define FV_OPS_NORM_PARAMS_H

#include "ops/op.h"

typedef struct fv_norm_params {
    double eps;
} fv_norm_params;

/* Checks x, and that inputs 1 .. n_in - 1 (each may be NULL) are vectors as long as its last
 * axis; the result is like x. */
fv_status fv_norm_infer(fv_op_run *run);

/* Sends dgamma (input 1) and, with beta_input >= 0, dbeta. g and x are contiguous; mean is NULL
 * for RMS norm. */
void fv_norm_send_params(fv_op_back *back, int beta_input, fv_tensor *g, fv_tensor *x,
                         fv_tensor *mean, fv_tensor *rstd);

#endif

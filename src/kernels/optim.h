/*
 * Fused optimizer steps over contiguous parameters of n elements, in place. Formulas as in
 * torch.optim (docs/architecture.md, "Training"). `scale` multiplies the gradient first
 * (clipping). All state is the parameter's dtype.
 */
#ifndef FV_KERNELS_OPTIM_H
#define FV_KERNELS_OPTIM_H

#include "kernels/kernel.h"

typedef struct fv_optim_args {
    int64_t n;
    double lr, scale, weight_decay;
    double momentum;     /* SGD, RMSProp */
    double beta1, beta2; /* Adam; RMSProp alpha and Adadelta rho are beta2 */
    double eps;
    double correction1, correction2; /* Adam: 1 - beta^t */
    bool decoupled;                  /* AdamW: w -= lr wd w first; else g += wd w */
    bool nesterov, first;            /* SGD: first step sets the momentum buffer to g */
} fv_optim_args;

/* SUMSQ ptr: out (1 double, added to), x. Lanes in double; blocks of 4096 elements are added in
 *   order: the same bits for any number of threads.
 * SGD ptr: w, g, momentum buffer (NULL without momentum)
 * ADAM ptr: w, g, m, v.   RMSPROP ptr: w, g, v, momentum buffer (or NULL)
 * ADADELTA ptr: w, g, v (square average), u (accumulated update) */

#endif

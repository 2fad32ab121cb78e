/*
 * Fused optimizer steps over contiguous parameters of n elements, in place. Formulas as in
 * torch.optim (docs/architecture.md, "Training"). All state is the parameter's dtype.
 *
 * Whether a step is made, and by what its gradients are multiplied first (clipping), is decided on
 * the device, in a step block: the host need not wait for the norm. The order of launches is
 *
 *     FILL       block = 0
 *     BINARY     block.loss += the loss of a part, for each part in turn
 *     SUMSQ      block.sumsq += squares of a gradient, for each parameter in turn
 *     STEP_GATE  norm, scale and open from them, and from the device's fault word
 *     ADAM       ... of each parameter: with open 0 it changes nothing
 */
#ifndef FV_KERNELS_OPTIM_H
#define FV_KERNELS_OPTIM_H

#include "kernels/kernel.h"

typedef struct fv_optim_args {
    int64_t n;
    double lr, weight_decay;
    double momentum;     /* SGD, RMSProp */
    double beta1, beta2; /* Adam; RMSProp alpha and Adadelta rho are beta2 */
    double eps;
    double correction1, correction2; /* Adam: 1 - beta^t */
    bool decoupled;                  /* AdamW: w -= lr wd w first; else g += wd w */
    bool nesterov, first;            /* SGD: first step sets the momentum buffer to g */
} fv_optim_args;

/* In device memory; also what the host reads of a step, later and in one piece. */
typedef struct fv_step_block {
    double loss;  /* sum over the parts */
    double sumsq; /* of all gradients */
    double norm;  /* its root */
    double scale; /* multiplies every gradient: clip_norm / norm where that is below 1, else 1 */
    double open;  /* 1: the step is made; 0: it changes nothing */
    double fault; /* 1: not made because an earlier kernel met a bad index */
    double reserved[2];
} fv_step_block;

typedef struct fv_step_gate_args {
    double clip_norm; /* 0: no clipping */
    bool unchecked; /* only a fault closes the gate; else also a norm or loss that is not finite */
} fv_step_gate_args;

/* SUMSQ ptr: out (1 double, added to), x. Lanes in double; blocks of 4096 elements are added in
 *   order: the same bits for any number of threads.
 * STEP_GATE ptr: block; args: fv_step_gate_args.
 * The steps have one order of pointers: w, g, block (read only), the bf16 copy of an f32 w or NULL,
 * which gets the new w rounded, then the state:
 * SGD: momentum buffer (NULL without momentum)
 * ADAM: m, v.   RMSPROP: v, momentum buffer (or NULL)
 * ADADELTA: v (square average), u (accumulated update) */

#endif

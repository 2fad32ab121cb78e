/*
 * Shared by losses over all elements, which are a few elementwise launches and a sum.
 */
#ifndef FV_OPS_LOSS_H
#define FV_OPS_LOSS_H

#include "ops/op.h"

/* Two real inputs of one shape and dtype; the result is a scalar. */
fv_status fv_loss_infer(fv_op_run *run);

/* y = f(x), y = f(a, b); y may be an input. */
void fv_launch_unary(fv_ctx *ctx, fv_unary op, double alpha, double beta, fv_tensor *y,
                     fv_tensor *x);
void fv_launch_binary(fv_ctx *ctx, fv_binary op, fv_tensor *y, fv_tensor *a, fv_tensor *b);

/* out (one element) = alpha x the sum of all of t. t is contiguous. */
void fv_launch_sum(fv_ctx *ctx, fv_tensor *out, fv_tensor *t, double alpha);
/* 1/n; 0 for n = 0, so that the mean of no elements is 0. */
double fv_mean_factor(int64_t n);

/* d = a - b as terms 0 and 1 of a backward. */
void fv_back_difference(fv_op_back *back, fv_tensor *d, fv_tensor *a, fv_tensor *b);
/* d = factor g d, with g the scalar gradient of the loss. */
void fv_back_scale(fv_op_back *back, fv_tensor *d, double factor);

#endif

/* What the two convolutions of images have in common: their options and checks, and the products
 * that each uses in one direction or the other. */
#ifndef FV_OPS_CONV2D_H
#define FV_OPS_CONV2D_H

#include "fovea/image.h"
#include "kernels/image.h"
#include "ops/op.h"

enum { FV_CONV_X, FV_CONV_WEIGHT, FV_CONV_BIAS };

/* The params of both ops: defaults filled in, NULL options become all defaults. */
fv_conv2d_options fv_conv2d_defaults(const fv_conv2d_options *options);

/* Inputs of rank 4, 4 and 1 (or NULL) with options in range; fills what x and weight determine:
 * batch, groups, window, stride, pad, dilation. */
fv_status fv_conv2d_check(fv_op_run *run, fv_conv2d_args *args);

/* `forward` and `backward` of both descriptors. Each op is the other's gradient of x, so they
 * differ only in the kernel and in which of x and the result the convolution reads. */
void fv_conv2d_forward(fv_op_run *run);
void fv_conv2d_backward(fv_op_back *back);

#endif

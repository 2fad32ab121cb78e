/* What the two convolutions of images have in common: their sizes, and the products that each uses
 * in one direction or the other. */
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

/* The arguments of a call again, in forward and backward. x is the image that the convolution
 * reads, y the one that it makes; the transposed convolution has them the other way round. */
fv_conv2d_args fv_conv2d_args_of(const fv_conv2d_options *options, const int64_t *x,
                                 const int64_t *y, const int64_t *weight);

/* Sends the sum of g over all but its channels to the bias. */
void fv_conv2d_send_bias(fv_op_back *back, fv_tensor *g);
/* Sends the gradient of the weight, from contiguous x and y. */
void fv_conv2d_send_weight(fv_op_back *back, const fv_conv2d_args *args, fv_tensor *x,
                           fv_tensor *y);

#endif

/*
 * The copy of the source of a convolution with pixels as lanes: zeros around it, columns sorted by
 * their remainder modulo the step.
 *
 *     fv_conv2d_copy_source(exec, &copy, images);
 */
#ifndef FV_KERNELS_SIMD_CONV2D_COPY_H
#define FV_KERNELS_SIMD_CONV2D_COPY_H

#include "kernels/kernel.h"
#include "kernels/simd/conv2d_plan.h"

/* What the results of rows [first_row, first_row + rows) read, of images from first_image on: out
 * is [image][row][channel][remainder][column], plan->cols columns. */
typedef struct fv_conv2d_copy {
    const fv_conv2d_plan *plan;
    const float *source;
    float *out;
    int64_t first_image, first_row, rows;
} fv_conv2d_copy;

void fv_conv2d_copy_source(const fv_exec *exec, const fv_conv2d_copy *copy, int64_t images);

#endif

/*
 * Convolutions of many images at once. The lanes of a vector are images: a pixel of up to
 * FV_IMAGE_LANES images is one short row of memory, so that strides, borders and phases cost
 * nothing, and each pixel of the result uses exactly the taps that lie inside the image.
 *
 *     if (fv_conv2d_images_fit(a))
 *         fv_conv2d_images(exec, a, false, ptr);      // else: pixels as lanes, simd/conv2d.c
 */
#ifndef FV_KERNELS_SIMD_CONV2D_IMAGES_H
#define FV_KERNELS_SIMD_CONV2D_IMAGES_H

#include "kernels/image.h"
#include "kernels/simd/names.h"

/* Whether the batch fills the lanes well and the reordered images are small enough. */
bool fv_conv2d_images_fit(const fv_conv2d_args *a);
/* CONV2D, or with `data` CONV2D_DATA; ptr as theirs. */
void fv_conv2d_images(const fv_exec *exec, const fv_conv2d_args *a, bool data, void *const *ptr);
size_t fv_conv2d_images_scratch(const fv_conv2d_args *a, bool data, int threads);

#endif

/*
 * Kernels over images [batch, channels, height, width], contiguous: convolution, pooling, resizing,
 * batch norm. In arrays of two, entry 0 belongs to rows (y), entry 1 to columns (x).
 */
#ifndef FV_KERNELS_IMAGE_H
#define FV_KERNELS_IMAGE_H

#include "kernels/kernel.h"

/*
 * A convolution, its transpose and the gradient of its weight, as three matrix products. With
 * iy = oy stride - pad + ky dilation (ix likewise), w [out_c, in_c / groups, window] and sums
 * within a group:
 *
 * CONV2D ptr: y, x, w, bias (out_c, or NULL)
 *   y[n,o,oy,ox] = sum over (c, ky, kx) of w[o,c,ky,kx] x[n,c,iy,ix], + bias[o]
 * CONV2D_DATA ptr: x, y, w, bias (in_c, or NULL)
 *   x[n,c,iy,ix] = sum over (o, ky, kx) of w[o,c,ky,kx] y[n,o,oy,ox], + bias[c]; left out are the
 *   (ky, kx) for which oy or ox would not be an integer.
 * CONV2D_WEIGHT ptr: dw, x, y
 *   dw[o,c,ky,kx] = sum over (n, oy, ox) of x[n,c,iy,ix] y[n,o,oy,ox]; `accumulate` starts at dw.
 *
 * Each sum is one FMA chain in the order named, ascending. Elements outside an image count as 0,
 * and a kernel may leave out their products: that changes a result only if a weight is not finite
 * or a sum underflows to -0. f32: ref, AVX2, AVX-512, NEON with equal bits; f64: ref.
 */
typedef struct fv_conv2d_args {
    int64_t batch, groups;
    int64_t in_c, in[2];   /* of x */
    int64_t out_c, out[2]; /* of y */
    int64_t window[2], stride[2], pad[2], dilation[2];
    bool accumulate; /* CONV2D_WEIGHT */
} fv_conv2d_args;

/* Reference kernels, for sizes that the others leave to them. */
#define FV_REF_IMAGE_KERNEL(name)                                                                  \
    void fv_ref_##name##_f32(const fv_exec *exec, void *const *ptr, const void *args);             \
    void fv_ref_##name##_f64(const fv_exec *exec, void *const *ptr, const void *args)
FV_REF_IMAGE_KERNEL(conv2d);
FV_REF_IMAGE_KERNEL(conv2d_data);
FV_REF_IMAGE_KERNEL(conv2d_weight);
FV_REF_IMAGE_KERNEL(pool2d);
FV_REF_IMAGE_KERNEL(pool2d_grad);
FV_REF_IMAGE_KERNEL(resize2d);
FV_REF_IMAGE_KERNEL(resize2d_grad);
#undef FV_REF_IMAGE_KERNEL

/* Whether an output of a convolution reads this row (axis 0) or column (axis 1) of x at `tap`. */
static inline bool fv_conv2d_reads(const fv_conv2d_args *a, int axis, int64_t at, int64_t tap)
{
    return (at + a->pad[axis] - tap * a->dilation[axis]) % a->stride[axis] == 0;
}

/*
 * POOL2D ptr: y (planes, out), x (planes, in).
 *   The maximum (the first one; NaN wins) or the average over the part of each window inside x.
 *   `adaptive`: window o covers [floor(o in / out), ceil((o + 1) in / out)) along each axis; else
 *   [o stride - pad, o stride - pad + window).
 *   An average divides by the part inside x, or with `count_padding` by the part inside the padded
 *   image.
 * POOL2D_GRAD ptr: dx, g, x (max only).  Outputs ascending: dx at the maximum += g, or dx of the
 *   window += g / its divisor.
 */
typedef struct fv_pool2d_args {
    int64_t planes;
    int64_t in[2], out[2];
    int64_t window[2], stride[2], pad[2];
    bool max, adaptive, count_padding;
} fv_pool2d_args;

/*
 * RESIZE2D ptr: y (planes, out), x (planes, in).
 *   nearest: y[o] = x[floor(o in / out)] along each axis.
 *   bilinear: position s = max((o + 1/2) in / out - 1/2, 0), with align_corners
 *   o (in - 1) / (out - 1) (0 for out = 1); i = floor(s), f = s - i, j = min(i + 1, in - 1):
 *   (1 - fy) ((1 - fx) x[iy,ix] + fx x[iy,jx]) + fy ((1 - fx) x[jy,ix] + fx x[jy,jx])
 * RESIZE2D_GRAD ptr: dx, g.  Outputs ascending; bilinear: terms 0 to 3 are its four neighbours.
 */
typedef struct fv_resize2d_args {
    int64_t planes;
    int64_t in[2], out[2];
    bool bilinear, align_corners;
} fv_resize2d_args;

/*
 * x (batch, channels, inner); N = batch x inner. Sums run over images in order; within one, element
 * i goes to lane i % 16 (FV_LANES).
 * BATCH_NORM ptr: y, mean, var, rstd (channels each), x, gamma, beta (channels, or NULL)
 *   mean = sum(x)/N; var = sum((x - mean)^2)/N, two passes; rstd = 1/sqrt(var + eps);
 *   y = (x - mean) rstd gamma + beta.
 * BATCH_NORM_GRAD ptr: dx, dgamma, dbeta (NULL: not computed), g, x, mean, rstd, gamma, g_mean,
 *   g_var (each of these three may be NULL)
 *   with h = (x - mean) rstd, a = gamma rstd:
 *   dx = a (g - mean(g) - h mean(g h)) + g_mean / N + g_var 2 (x - mean) / N
 *   terms: 0 g, 1 mean(g), 2 h mean(g h), 3 of g_mean, 4 of g_var;  dgamma = sum(g h), dbeta =
 *   sum(g).
 */
typedef struct fv_batch_norm_args {
    int64_t batch, channels, inner;
    double eps;
} fv_batch_norm_args;

#endif

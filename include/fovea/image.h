/*
 * fovea/image.h: operations and layers for images [batch, channels, height, width].
 *
 *     // a small classifier: 1 x 28 x 28 digits to ten classes
 *     fv_conv2d_options same = {.padding = {1, 1}}, half = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_conv2d_layer first, second;
 *     fv_batch_norm_layer norm;
 *     fv_dense classes;
 *     s = fv_conv2d_create(params, "first", 1, 16, (int64_t[]){3, 3}, true, &same, &first);
 *     s = fv_batch_norm_create(params, "norm", 16, 1e-5, 0.1, &norm);
 *     s = fv_conv2d_create(params, "second", 16, 32, (int64_t[]){3, 3}, true, &half, &second);
 *     s = fv_dense_create(params, "classes", 32, 10, true, 0, &classes);
 *
 *     fv_tensor *h = fv_conv2d_run(ctx, &first, x);                  // x [n, 1, 28, 28]
 *     h = fv_relu(ctx, fv_batch_norm_run(ctx, &norm, h, true));           // training
 *     h = fv_relu(ctx, fv_conv2d_run(ctx, &second, h));              // [n, 32, 14, 14]
 *     h = fv_adaptive_avg_pool2d(ctx, h, 1, 1);                      // [n, 32, 1, 1]
 *     h = fv_reshape(ctx, h, 2, (int64_t[]){-1, 32});
 *     fv_tensor *logits = fv_dense_run(ctx, &classes, h);
 *
 * Operations follow fovea/ops.h and layers fovea/layers.h: inputs are real and of one dtype
 * (layers: f32), failures set the context's sticky error. Definitions are those of PyTorch. In
 * arrays of two, entry 0 belongs to rows (height), entry 1 to columns (width).
 */
#ifndef FOVEA_IMAGE_H
#define FOVEA_IMAGE_H

#include "fovea/layers.h"
#include "fovea/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution -------------------------------------------------------------------- */

/* All zeros, or NULL in a call: stride 1, no padding, dilation 1, one group. */
typedef struct fv_conv2d_options {
    int64_t stride[2];         /* 0 means 1 */
    int64_t padding[2];        /* rows (columns) of zeros on each side */
    int64_t dilation[2];       /* distance between the taps of a window; 0 means 1 */
    int64_t groups;            /* divides both numbers of channels; 0 means 1 */
    int64_t output_padding[2]; /* fv_conv_transpose2d only */
} fv_conv2d_options;

/*
 * x [n, c, h, w], weight [out, c / groups, kh, kw], bias [out] or NULL -> [n, out, oh, ow] with
 *     y[n,o,i,j] = bias[o] + sum over c, a, b of weight[o,c,a,b] x[n,c, i s - p + a d, j s - p + b
 * d] oh = floor((h + 2 p - d (kh - 1) - 1) / s) + 1 where x is 0 outside the image and c runs over
 * the channels of o's group. Errors: SHAPE, and ARGUMENT (options, a window larger than the padded
 * image).
 *
 *     fv_conv2d_options half = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_tensor *y = fv_conv2d(ctx, x, w, b, &half);               // 3 x 3: halves the image
 */
FV_API fv_tensor *fv_conv2d(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                            const fv_conv2d_options *options);

/*
 * The transpose of that map: x [n, c, h, w], weight [c, out / groups, kh, kw], bias [out] or NULL
 * -> [n, out, oh, ow], oh = (h - 1) s - 2 p + d (kh - 1) + output_padding + 1. Several sizes are
 * convolved to one; output_padding, smaller than stride or dilation, selects among them.
 *
 *     fv_conv2d_options twice = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_tensor *y = fv_conv_transpose2d(ctx, x, w, NULL, &twice);   // 4 x 4: doubles it
 */
FV_API fv_tensor *fv_conv_transpose2d(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                                      const fv_conv2d_options *options);

/* ---- pooling ------------------------------------------------------------------------ */

typedef struct fv_pool2d_options {
    int64_t window[2];
    int64_t stride[2];    /* 0 means that of the window */
    int64_t padding[2];   /* at most half of the window */
    bool exclude_padding; /* averages divide by the elements inside the image [false: inside the
                             padded image] */
} fv_pool2d_options;

/*
 * x [n, c, h, w] -> [n, c, oh, ow], oh = floor((h + 2 p - window) / s) + 1. A maximum never takes
 * padding; NaN wins; ties: the gradient goes to the first. Errors: ARGUMENT (options, a window
 * larger than the padded image).
 *
 *     y = fv_max_pool2d(ctx, x, &(fv_pool2d_options){.window = {2, 2}});
 */
FV_API fv_tensor *fv_max_pool2d(fv_ctx *ctx, fv_tensor *x, const fv_pool2d_options *options);
FV_API fv_tensor *fv_avg_pool2d(fv_ctx *ctx, fv_tensor *x, const fv_pool2d_options *options);
/* To a given size: output i covers rows floor(i h / height) to ceil((i + 1) h / height) - 1. */
FV_API fv_tensor *fv_adaptive_max_pool2d(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width);
FV_API fv_tensor *fv_adaptive_avg_pool2d(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width);

/* ---- resizing ----------------------------------------------------------------------- */

/*
 * x [n, c, h, w] -> [n, c, height, width].
 *
 *     fv_tensor *large = fv_resize_bilinear(ctx, x, 224, 224, false);
 *     fv_tensor *small = fv_avg_pool2d(ctx, large, &(fv_pool2d_options){.window = {4, 4}});
 *     fv_tensor *cells = fv_adaptive_max_pool2d(ctx, small, 7, 7);
 *     fv_tensor *blocks = fv_resize_nearest(ctx, cells, 224, 224);     // 32 x 32 pixels each
 *
 * Nearest: row i is row floor(i h / height) of x.
 */
FV_API fv_tensor *fv_resize_nearest(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width);
/* Bilinear: row i lies at (i + 1/2) h / height - 1/2, at least 0, or with align_corners at
 * i (h - 1) / (height - 1). No smoothing when an image shrinks. */
FV_API fv_tensor *fv_resize_bilinear(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width,
                                     bool align_corners);

/* ---- norms -------------------------------------------------------------------------- */

/*
 * Each channel of x [n, c, ...] with the statistics of the batch:
 *     y = (x - mean) / sqrt(variance + eps) gamma + beta,   gamma, beta [c] or NULL.
 * mean and variance (biased, divided by the number of elements) go to *mean and *variance [c]
 * unless NULL; gradients flow through them too.
 *
 *     fv_tensor *mean, *variance;
 *     y = fv_batch_norm(ctx, x, NULL, NULL, 1e-5, &mean, &variance);
 *     y = fv_group_norm(ctx, y, 4, NULL, NULL, 1e-5);
 */
FV_API fv_tensor *fv_batch_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, fv_tensor *beta,
                                double eps, fv_tensor **mean, fv_tensor **variance);
/* The channels of x [n, c, ...] in `groups` groups of c / groups, each normalised for each image;
 * gamma, beta [c] or NULL. groups = c is instance norm. */
FV_API fv_tensor *fv_group_norm(fv_ctx *ctx, fv_tensor *x, int64_t groups, fv_tensor *gamma,
                                fv_tensor *beta, double eps);

/* ---- layers ------------------------------------------------------------------------- */

typedef struct fv_conv2d_layer {
    fv_conv2d_options options;
    bool transposed;
    fv_tensor *weight; /* [out, in / groups, kh, kw]; transposed: [in, out / groups, kh, kw] */
    fv_tensor *bias;   /* [out] or NULL */
} fv_conv2d_layer;

/*
 * "prefix.weight" and "prefix.bias", drawn as PyTorch draws them: uniform within 1 / sqrt(fan in).
 * options may be NULL.
 *
 *     fv_conv2d_options twice = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_conv2d_layer up;
 *     s = fv_conv_transpose2d_create(params, "up", 64, 32, (int64_t[]){4, 4}, false, &twice, &up);
 *     y = fv_conv2d_run(ctx, &up, x);                                // [n, 64, h, w] -> 2h x 2w
 */
FV_API FV_MUST_USE fv_status fv_conv2d_create(fv_params *params, const char *prefix, int64_t in,
                                              int64_t out, const int64_t window[2], bool bias,
                                              const fv_conv2d_options *options,
                                              fv_conv2d_layer *layer);
FV_API FV_MUST_USE fv_status fv_conv_transpose2d_create(fv_params *params, const char *prefix,
                                                        int64_t in, int64_t out,
                                                        const int64_t window[2], bool bias,
                                                        const fv_conv2d_options *options,
                                                        fv_conv2d_layer *layer);
FV_API fv_tensor *fv_conv2d_run(fv_ctx *ctx, const fv_conv2d_layer *layer, fv_tensor *x);

/* Running statistics are buffers of the set: saved and loaded with it, never trained. */
typedef struct fv_batch_norm_layer {
    double eps, momentum;
    fv_tensor *weight, *bias;                   /* [channels] */
    fv_tensor *running_mean, *running_variance; /* [channels] */
} fv_batch_norm_layer;

/* "prefix.weight" (1), "prefix.bias" (0), "prefix.running_mean" (0), "prefix.running_var" (1). */
FV_API FV_MUST_USE fv_status fv_batch_norm_create(fv_params *params, const char *prefix,
                                                  int64_t channels, double eps, double momentum,
                                                  fv_batch_norm_layer *layer);
/*
 * training: with the statistics of the batch; then running = (1 - momentum) running + momentum
 * batch, with the unbiased variance. Needs more than one element a channel. The update is part of
 * the call: calls in the same order give the same statistics for any number of threads, and a call
 * that fails changes nothing. Otherwise: with the running statistics, each image on its own.
 * Within fv_checkpoint the second run would update again; keep such a layer outside.
 */
FV_API fv_tensor *fv_batch_norm_run(fv_ctx *ctx, const fv_batch_norm_layer *layer, fv_tensor *x,
                                    bool training);

/*
 * Spectral norm: a weight divided by its largest singular value, which power iteration follows from
 * call to call.
 *
 *     fv_spectral_norm norm;
 *     s = fv_spectral_norm_create(params, "critic.first", w, 0, 1, 1e-12, &norm);
 *     fv_tensor *scaled = fv_spectral_norm_run(ctx, &norm, w, true);     // w is the parameter
 *     fv_tensor *y = fv_conv2d(ctx, x, scaled, NULL, NULL);
 *
 * The weight with `axis` first is a matrix W [rows, rest]. training: `iterations` times
 * u = W v / |W v|, v = W^T u / |W^T u| (lengths at least eps), then W / (u^T W v). u and v count as
 * constants. Otherwise the last u and v are used.
 */
typedef struct fv_spectral_norm {
    int axis, iterations;
    double eps;
    fv_tensor *u, *v; /* buffers [rows] and [rest], of length one */
} fv_spectral_norm;

/* "prefix.u" and "prefix.v", drawn from a normal distribution, then refined by 15 iterations. axis
 * is 0, or 1 for the weight of a transposed convolution. */
FV_API FV_MUST_USE fv_status fv_spectral_norm_create(fv_params *params, const char *prefix,
                                                     fv_tensor *weight, int axis, int iterations,
                                                     double eps, fv_spectral_norm *norm);
FV_API fv_tensor *fv_spectral_norm_run(fv_ctx *ctx, const fv_spectral_norm *norm, fv_tensor *weight,
                                       bool training);

#ifdef __cplusplus
}
#endif
#endif

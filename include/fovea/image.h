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
 *
 *     y[n,o,i,j] = bias[o] + sum over c, a, b of w[o,c,a,b] x[n,c, i s - p + a d, j s - p + b d]
 *     oh = floor((h + 2 p - d (kh - 1) - 1) / s) + 1
 *
 * where x is 0 outside the image and c runs over the channels of o's group. Errors: SHAPE, and
 * ARGUMENT (options, a window larger than the padded image).
 *
 *     fv_conv2d_options half = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_tensor *y = fv_conv2d(ctx, x, layer.w, NULL, &half);      // 3 x 3: halves the image
 */
FV_API fv_tensor *fv_conv2d(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                            const fv_conv2d_options *options);

/*
 * The transpose of that map: x [n, c, h, w], weight [c, out / groups, kh, kw], bias [out] or NULL
 * -> [n, out, oh, ow], oh = (h - 1) s - 2 p + d (kh - 1) + output_padding + 1. Several sizes are
 * convolved to one; output_padding, smaller than stride or dilation, selects among them.
 *
 *     fv_conv2d_options twice = {.stride = {2, 2}, .padding = {1, 1}};
 *     fv_tensor *y = fv_conv_transpose2d(ctx, x, layer.w, NULL, &twice);   // 4 x 4: doubles it
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
 *     s = fv_spectral_norm_create(params, "critic.first", layer.w, 0, 1, 1e-12, &norm);
 *     fv_tensor *scaled = fv_spectral_norm_run(ctx, &norm, layer.w, true);
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

/* ---- picture files -------------------------------------------------------------------- */

/*
 * PNG and JPEG files, recognised by their first bytes, as u8 [height, width, channels], and as f32
 * [channels, height, width] in 0 .. 1.
 *
 *     fv_tensor *pixels = fv_picture_load(ctx, "cat.jpg", 3);           // 3: as RGB, 1: grey
 *     fv_tensor *cat = fv_picture_floats(ctx, pixels, 224, 224);        // f32 [3, 224, 224]
 *     fv_augment how = {.crop = {192, 192}, .flip = true, .brightness = 0.2, .colour = 0.1};
 *     cat = fv_picture_augment(ctx, cat, &how, 17);         // row 17 of the step: [3, 192, 192]
 *     cat = fv_picture_resize(ctx, cat, 224, 224);          // the crop enlarged
 *
 * channels 0 keeps what the file has, 1 or 3. Bits beyond eight are dropped; where a PNG is
 * transparent, white shows. Errors: IO, FORMAT (not a picture, damaged, ends early), LIMIT
 * (fv_limits.picture_pixels), MEMORY, UNSUPPORTED (a JPEG of CMYK colours; libpng or
 * libjpeg-turbo is missing: they are loaded by the first call that needs them).
 */
FV_API fv_tensor *fv_picture_load(fv_ctx *ctx, const char *path, int channels);
/*
 * The same from a file's bytes in memory; messages use `name`.
 *
 *     fv_tensor *grey = fv_picture_decode(ctx, "upload", scratch, need, 1);
 */
FV_API fv_tensor *fv_picture_decode(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                    int channels);

/*
 * x real [c, h, w] resized to [c, height, width]. A picture that shrinks to half or less is
 * averaged (fv_adaptive_avg_pool2d), so that thin lines do not get lost; others are resized
 * bilinearly. Errors: SHAPE.
 *
 *     x = fv_picture_resize(ctx, x, 64, 64);
 */
FV_API fv_tensor *fv_picture_resize(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width);

/* u8 [h, w, c] as f32 [c, height, width], divided by 255 and resized; height and width 0 keep the
 * size. */
FV_API fv_tensor *fv_picture_floats(fv_ctx *ctx, fv_tensor *pixels, int64_t height, int64_t width);

/* Random changes of a picture, in this order but for the crop, which follows the shift; zeros
 * change nothing. */
typedef struct fv_augment {
    int64_t shift;     /* moved by up to so many pixels along each axis; `fill` comes in */
    bool flip;         /* mirrored left to right, one time in two */
    double brightness; /* b in [0, 1): multiplied by 1 - b to 1 + b */
    double contrast;   /* c in [0, 1): the distance to the mean multiplied by 1 - c to 1 + c */
    double colour;     /* j in [0, 1): each channel multiplied by its own 1 - j to 1 + j */
    int64_t crop[2];   /* rows and columns to keep, from a random place; 0: all */
    double fill;       /* value of pixels that a shift lets in: the background's */
} fv_augment;

/* x real [c, h, w]. What is drawn depends on the context's seed and step and on `row`, the
 * picture's number in the whole step, alone. Errors: ARGUMENT, SHAPE (also a crop larger than the
 * picture). */
FV_API fv_tensor *fv_picture_augment(fv_ctx *ctx, fv_tensor *x, const fv_augment *how,
                                     uint64_t row);

/*
 * IDX files (MNIST) of u8, i32, f32 or f64, plain or compressed as in fovea/data.h. Errors: as
 * above.
 *
 *     fv_tensor *digits = fv_idx_load(ctx, "train-images-idx3-ubyte.gz");   // u8 [60000, 28, 28]
 */
FV_API fv_tensor *fv_idx_load(fv_ctx *ctx, const char *path);

/*
 * Pictures named by a TSV file, each line "file<TAB>label", the files relative to its folder.
 *
 *     fv_pictures *set = NULL;
 *     s = fv_pictures_open(ctx, "birds/train.tsv", &set);
 *     for (int64_t i = 0; s == FV_OK && i < fv_pictures_count(set); i++)
 *         printf("%s: %s, class %" PRId64 " of %" PRId64 "\n", fv_pictures_file(set, i),
 *                fv_pictures_class(set, fv_pictures_label(set, i)), fv_pictures_label(set, i),
 *                fv_pictures_classes(set));
 *     fv_tensor *first_one = fv_picture_load(ctx, fv_pictures_file(set, 0), 3);
 *     fv_pictures_close(&set);
 *
 * Classes are the different labels in the order of their bytes. Opening reads no picture. Fails:
 * IO, FORMAT (a line without a tab, an empty, absolute or upward path), LIMIT, MEMORY.
 */
typedef struct fv_pictures fv_pictures;
FV_API FV_MUST_USE fv_status fv_pictures_open(fv_ctx *ctx, const char *tsv, fv_pictures **out);
FV_API void fv_pictures_close(fv_pictures **set); /* NULL is fine */
FV_API int64_t fv_pictures_count(const fv_pictures *set);
FV_API int64_t fv_pictures_classes(const fv_pictures *set);
/* NULL and -1 for an i out of range. */
FV_API const char *fv_pictures_file(const fv_pictures *set, int64_t i);
FV_API int64_t fv_pictures_label(const fv_pictures *set, int64_t i);
FV_API const char *fv_pictures_class(const fv_pictures *set, int64_t class_number);

#ifdef __cplusplus
}
#endif
#endif

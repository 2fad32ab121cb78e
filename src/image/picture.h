/*
 * Decoders of picture files. Each gets a whole file in memory and makes bytes [height, width,
 * channels]. libpng and libjpeg-turbo are loaded when the first picture needs them, so that the
 * library itself needs neither: both are called through interfaces without structures that differ
 * between versions (png_image, which carries its own version, and TurboJPEG's handles), and without
 * jumps out of callbacks.
 */
#ifndef FV_IMAGE_PICTURE_H
#define FV_IMAGE_PICTURE_H

#include <string.h>

#include "base/ctx.h"
#include "base/library.h"

typedef struct fv_pixels {
    int64_t height, width, channels;
    uint8_t *data; /* fv_mem_free(data, bytes) */
    size_t bytes;
} fv_pixels;

typedef struct fv_picture_source {
    fv_ctx *ctx;
    const char *name; /* for messages */
    const uint8_t *data;
    size_t bytes;
    int channels; /* 1, 3, or 0: as stored */
} fv_picture_source;

/* Allocates pixels of a size that a header states. Fails: FORMAT (no pixels), LIMIT
 * (fv_limits.picture_pixels), MEMORY. */
fv_status fv_pixels_create(const fv_picture_source *in, uint64_t height, uint64_t width,
                           int64_t channels, fv_pixels *out);
void fv_pixels_free(fv_ctx *ctx, fv_pixels *pixels);

/* Fail: FORMAT, LIMIT, MEMORY, UNSUPPORTED (the library is missing). */
fv_status fv_png_decode(const fv_picture_source *in, fv_pixels *out);
fv_status fv_jpeg_decode(const fv_picture_source *in, fv_pixels *out);

#endif

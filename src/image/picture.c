/* Picture files as tensors: detects the format, reads the file, checks sizes. */
#include "image/picture.h"

#include "fovea/image.h"
#include "io/file.h"
#include "tensor/tensor.h"

fv_status fv_pixels_create(const fv_picture_source *in, uint64_t height, uint64_t width,
                           int64_t channels, fv_pixels *out)
{
    fv_ctx *ctx = in->ctx;
    const uint64_t pixels = ctx->limits.picture_pixels;
    FV_RETURN_IF(height == 0 || width == 0, ctx, FV_ERR_FORMAT, "%s: the picture has no pixels",
                 in->name);
    FV_RETURN_IF(height > pixels / width, ctx, FV_ERR_LIMIT,
                 "%s: %llu x %llu pixels, more than the limit of %llu", in->name,
                 (unsigned long long)width, (unsigned long long)height, (unsigned long long)pixels);
    const uint64_t bytes = height * width * (uint64_t)channels;
    uint8_t *data = bytes <= SIZE_MAX ? fv_mem_alloc(&ctx->mem, (size_t)bytes) : NULL;
    FV_RETURN_IF(!data, ctx, FV_ERR_MEMORY, "%s: out of memory for %llu x %llu pixels", in->name,
                 (unsigned long long)width, (unsigned long long)height);
    *out = (fv_pixels){.height = (int64_t)height,
                       .width = (int64_t)width,
                       .channels = channels,
                       .data = data,
                       .bytes = (size_t)bytes};
    return FV_OK;
}

void fv_pixels_free(fv_ctx *ctx, fv_pixels *pixels)
{
    fv_mem_free(&ctx->mem, pixels->data, pixels->bytes);
    *pixels = (fv_pixels){.data = NULL};
}

static fv_status decode(const fv_picture_source *in, fv_pixels *out)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t jpeg[3] = {0xff, 0xd8, 0xff};
    FV_RETURN_IF(in->channels != 0 && in->channels != 1 && in->channels != 3, in->ctx,
                 FV_ERR_ARGUMENT, "%s: %d channels, expected 0 (as stored), 1 or 3", in->name,
                 in->channels);
    if (in->bytes >= sizeof png && memcmp(in->data, png, sizeof png) == 0)
        return fv_png_decode(in, out);
    if (in->bytes >= sizeof jpeg && memcmp(in->data, jpeg, sizeof jpeg) == 0)
        return fv_jpeg_decode(in, out);
    return fv_fail(in->ctx, FV_ERR_FORMAT, "%s: neither a PNG nor a JPEG file", in->name);
}

fv_tensor *fv_picture_decode(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                             int channels)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_picture_source in = {
        .ctx = ctx, .name = name, .data = data, .bytes = bytes, .channels = channels};
    fv_pixels pixels = {.data = NULL};
    const fv_status s = decode(&in, &pixels);
    if (s != FV_OK) {
        fv_make_last_failure_sticky(ctx, s);
        return ctx->invalid;
    }
    fv_tensor *t = fv_from_host(
        ctx, FV_U8, 3, (int64_t[]){pixels.height, pixels.width, pixels.channels}, pixels.data);
    fv_pixels_free(ctx, &pixels);
    return t;
}

/* A whole file: at most 16 bytes for each pixel of the largest picture. */
static fv_status read_file(fv_ctx *ctx, const fv_file *file, uint8_t **data)
{
    const uint64_t largest = ctx->limits.picture_pixels;
    FV_RETURN_IF(file->bytes / 16 > largest, ctx, FV_ERR_LIMIT, "%s: %llu bytes, too large",
                 file->path, (unsigned long long)file->bytes);
    *data = fv_mem_alloc(&ctx->mem, (size_t)file->bytes + 1);
    FV_RETURN_IF(!*data, ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    const fv_status s = fv_file_read(file, *data, (size_t)file->bytes, 0);
    if (s != FV_OK) fv_mem_free(&ctx->mem, *data, (size_t)file->bytes + 1);
    return s;
}

fv_tensor *fv_picture_load(fv_ctx *ctx, const char *path, int channels)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_file file;
    uint8_t *data = NULL;
    fv_status s = fv_file_open(ctx, path, &file);
    if (s == FV_OK) {
        s = read_file(ctx, &file, &data);
        fv_file_close(&file);
    }
    if (s != FV_OK) {
        fv_make_last_failure_sticky(ctx, s);
        return ctx->invalid;
    }
    fv_tensor *t = fv_picture_decode(ctx, path, data, (size_t)file.bytes, channels);
    fv_mem_free(&ctx->mem, data, (size_t)file.bytes + 1);
    return t;
}

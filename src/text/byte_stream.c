#include "text/byte_stream.h"

#include <string.h>

fv_status fv_byte_stream_corrupt(const fv_byte_stream *stream, const char *what)
{
    return fv_fail(stream->ctx, FV_ERR_FORMAT, "%s: %s", stream->name, what);
}

static fv_status call_reader(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    const fv_status status = stream->reader(stream->user, out, n, got);
    FV_RETURN_IF(status != FV_OK, stream->ctx, status, "%s: the read callback failed",
                 stream->name);
    FV_RETURN_IF(*got > n, stream->ctx, FV_ERR_ARGUMENT,
                 "%s: the read callback returned %zu bytes, the limit is %zu", stream->name, *got,
                 n);
    return FV_OK;
}

static fv_status read_stream(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    const size_t kept = stream->start_end - stream->start_begin;
    size_t piece = kept < n ? kept : n;
    memcpy(out, stream->start + stream->start_begin, piece);
    stream->start_begin += piece;
    if (piece == 0) FV_TRY(call_reader(stream, out, n, &piece));
    *got = piece;
    return FV_OK;
}

static fv_status read_compressed(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    if (stream->reader) return read_stream(stream, out, n, got);
    uint64_t left = stream->bytes - stream->at;
    size_t piece = left < n ? (size_t)left : n;
    if (stream->is_file)
        FV_TRY(fv_file_read(&stream->file, out, piece, stream->at));
    else if (piece)
        memcpy(out, stream->memory + stream->at, piece);
    stream->at += piece;
    *got = piece;
    return FV_OK;
}

fv_status fv_byte_stream_refill(fv_byte_stream *stream, size_t *got)
{
    FV_TRY(read_compressed(stream, stream->input, FV_BYTE_STREAM_INPUT, got));
    stream->bytes_in += *got;
    return FV_OK;
}

static const fv_decompressor_kind *const kinds[] = {&fv_decompress_gzip, &fv_decompress_xz};

/* Reads only as many bytes of a stream as the format needs: an interactive caller may be waiting
 * for the answer to a short line. */
static fv_status peek(fv_byte_stream *stream)
{
    bool packed = true;
    for (size_t got = 1; packed && got > 0 && stream->start_end < FV_BYTE_STREAM_MAGIC;) {
        FV_TRY(call_reader(stream, stream->start + stream->start_end,
                           FV_BYTE_STREAM_MAGIC - stream->start_end, &got));
        stream->start_end += got;
        packed = false;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            packed = packed || stream->start[0] == kinds[i]->magic[0];
    }
    return FV_OK;
}

static fv_status first_bytes(fv_byte_stream *stream, unsigned char start[FV_BYTE_STREAM_MAGIC],
                             size_t *got)
{
    if (!stream->reader) {
        FV_TRY(read_compressed(stream, start, FV_BYTE_STREAM_MAGIC, got));
        stream->at = 0;
        return FV_OK;
    }
    FV_TRY(peek(stream));
    memcpy(start, stream->start, FV_BYTE_STREAM_MAGIC);
    *got = stream->start_end;
    return FV_OK;
}

/* Detects the format from the first bytes and starts a decompressor if needed. */
static fv_status choose_decompressor(fv_byte_stream *stream)
{
    unsigned char start[FV_BYTE_STREAM_MAGIC] = {0};
    size_t got = 0;
    FV_TRY(first_bytes(stream, start, &got));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const fv_decompressor_kind *kind = kinds[i];
        if (got < kind->magic_bytes || memcmp(start, kind->magic, kind->magic_bytes) != 0) continue;
        FV_RETURN_IF(!kind->begin, stream->ctx, FV_ERR_UNSUPPORTED,
                     "%s: %s data needs a build with %s", stream->name, kind->name, kind->library);
        stream->input = fv_mem_alloc(&stream->ctx->mem, FV_BYTE_STREAM_INPUT);
        FV_RETURN_IF(!stream->input, stream->ctx, FV_ERR_MEMORY, "%s: out of memory", stream->name);
        FV_TRY(kind->begin(stream));
        stream->kind = kind;
        return FV_OK;
    }
    return FV_OK;
}

static fv_status begin(fv_ctx *ctx, const char *name, fv_byte_stream *out)
{
    size_t n = strlen(name) + 1;
    *out = (fv_byte_stream){.ctx = ctx, .name = fv_mem_alloc(&ctx->mem, n), .name_room = n};
    FV_RETURN_IF(!out->name, ctx, FV_ERR_MEMORY, "%s: out of memory", name);
    memcpy(out->name, name, n);
    return FV_OK;
}

static fv_status finish_open(fv_byte_stream *stream)
{
    fv_status s = choose_decompressor(stream);
    if (s != FV_OK) fv_byte_stream_close(stream);
    return s;
}

fv_status fv_byte_stream_open(fv_ctx *ctx, const char *path, fv_byte_stream *out)
{
    FV_TRY(begin(ctx, path, out));
    fv_status s = fv_file_open(ctx, out->name, &out->file);
    if (s != FV_OK) {
        fv_byte_stream_close(out);
        return s;
    }
    out->is_file = true;
    out->bytes = out->file.bytes;
    return finish_open(out);
}

fv_status fv_byte_stream_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                     fv_byte_stream *out)
{
    FV_TRY(begin(ctx, name, out));
    out->memory = data;
    out->bytes = bytes;
    return finish_open(out);
}

fv_status fv_byte_stream_open_callback(fv_ctx *ctx, const char *name, fv_lines_reader read,
                                       void *user, fv_byte_stream *out)
{
    FV_TRY(begin(ctx, name, out));
    out->reader = read;
    out->user = user;
    return finish_open(out);
}

void fv_byte_stream_close(fv_byte_stream *stream)
{
    fv_mem *mem = &stream->ctx->mem;
    if (stream->kind) stream->kind->end(stream);
    if (stream->is_file) fv_file_close(&stream->file);
    fv_mem_free(mem, stream->input, FV_BYTE_STREAM_INPUT);
    fv_mem_free(mem, stream->name, stream->name_room);
    *stream = (fv_byte_stream){.ctx = stream->ctx};
}

/* A small file may not decompress to an endless one. */
static fv_status check_ratio(const fv_byte_stream *stream)
{
    enum { FREE = 1 << 20 };
    const uint64_t ratio = stream->ctx->limits.decompressed_ratio;
    const bool over =
        stream->bytes_out > FREE && (stream->bytes_out - FREE) / ratio > stream->bytes_in;
    FV_RETURN_IF(
        over, stream->ctx, FV_ERR_LIMIT,
        "%s: %llu bytes of %s data decompress to %llu or more, the limit is %llu times as many",
        stream->name, (unsigned long long)stream->bytes_in, stream->kind->name,
        (unsigned long long)stream->bytes_out, (unsigned long long)ratio);
    return FV_OK;
}

fv_status fv_byte_stream_read(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    const uint64_t limit = stream->ctx->limits.total_bytes;
    FV_TRY(stream->kind ? stream->kind->read(stream, out, n, got)
                        : read_compressed(stream, out, n, got));
    stream->bytes_out += *got;
    if (stream->kind) FV_TRY(check_ratio(stream));
    FV_RETURN_IF(stream->bytes_out > limit, stream->ctx, FV_ERR_LIMIT,
                 "%s: exceeds the limit of %llu bytes", stream->name, (unsigned long long)limit);
    return FV_OK;
}

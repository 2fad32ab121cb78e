/*
 * A file, memory or callback as a stream of bytes; gzip and xz data is decompressed.
 *
 *     fv_byte_stream stream;
 *     FV_TRY(fv_byte_stream_open(ctx, path, &stream));
 *     s = fv_byte_stream_read(&stream, buf, sizeof buf, &got);   // got 0: the end
 *     fv_byte_stream_close(&stream);
 */
#ifndef FV_TEXT_BYTE_STREAM_H
#define FV_TEXT_BYTE_STREAM_H

#include "fovea/data.h"
#include "io/file.h"

enum { FV_BYTE_STREAM_INPUT = 1 << 16, FV_BYTE_STREAM_MAGIC = 8 };

typedef struct fv_byte_stream {
    fv_ctx *ctx;
    char *name;
    size_t name_room;
    fv_file file;
    bool is_file;
    const char *memory;
    uint64_t bytes, at; /* size of the input, and how much of it has been read */
    /* for a callback: the callback, and the first bytes, which were read to detect the format */
    fv_lines_reader reader;
    void *user;
    unsigned char start[FV_BYTE_STREAM_MAGIC];
    size_t start_begin, start_end;
    uint64_t bytes_in;  /* compressed bytes read so far */
    uint64_t bytes_out; /* decompressed bytes returned so far */
    unsigned char *input;
    struct fv_decompressor *decompressor; /* NULL: not compressed */
    const struct fv_decompressor_kind *kind;
} fv_byte_stream;

fv_status fv_byte_stream_open(fv_ctx *ctx, const char *path, fv_byte_stream *out);
fv_status fv_byte_stream_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                     fv_byte_stream *out);
fv_status fv_byte_stream_open_callback(fv_ctx *ctx, const char *name, fv_lines_reader read,
                                       void *user, fv_byte_stream *out);
void fv_byte_stream_close(fv_byte_stream *stream);

/* Reads up to n > 0 bytes; *got is 0 only at the end. */
fv_status fv_byte_stream_read(fv_byte_stream *stream, void *out, size_t n, size_t *got);

/* ---- for decompressors ----------------------------------------------------------- */

/* Reads the next compressed bytes, up to FV_BYTE_STREAM_INPUT, to stream->input; *got is 0 at the
 * end. */
fv_status fv_byte_stream_refill(fv_byte_stream *stream, size_t *got);

/* Fails with FV_ERR_FORMAT and "name: what". */
fv_status fv_byte_stream_corrupt(const fv_byte_stream *stream, const char *what);

typedef struct fv_decompressor_kind {
    const char *name; /* of the format */
    const char *library;
    unsigned char magic[6];
    size_t magic_bytes;
    /* NULL in a build without the library. begin sets stream->decompressor. */
    fv_status (*begin)(fv_byte_stream *stream);
    fv_status (*read)(fv_byte_stream *stream, void *out, size_t n, size_t *got);
    void (*end)(fv_byte_stream *stream);
} fv_decompressor_kind;

extern const fv_decompressor_kind fv_decompress_gzip, fv_decompress_xz;

#endif

/*
 * A file as a stream of bytes, unpacked if it begins like gzip or xz.
 *
 *     fv_byte_stream source;
 *     FV_FORWARD(fv_byte_stream_open(ctx, path, &source));
 *     s = fv_byte_stream_read(&source, buf, sizeof buf, &got);   // got 0: the end
 *     fv_byte_stream_close(&source);
 */
#ifndef FV_TEXT_BYTE_STREAM_H
#define FV_TEXT_BYTE_STREAM_H

#include "fovea/corpus.h"
#include "io/file.h"

enum { FV_BYTE_STREAM_INPUT = 1 << 16, FV_BYTE_STREAM_MAGIC = 8 };

typedef struct fv_byte_stream {
    fv_ctx *ctx;
    char *name;
    size_t name_room;
    fv_file file;
    bool is_file;
    const char *memory;
    uint64_t bytes, at; /* packed size, and how much of it was read */
    /* or a stream: its reader, and its first bytes, which were looked at before they were asked for
     */
    fv_lines_reader reader;
    void *user;
    unsigned char start[FV_BYTE_STREAM_MAGIC];
    size_t start_begin, start_end;
    uint64_t bytes_out; /* unpacked bytes handed out */
    unsigned char *input;
    struct fv_decompressor *decompressor; /* NULL: the bytes are as they are */
    const struct fv_decompressor_kind *kind;
} fv_byte_stream;

fv_status fv_byte_stream_open(fv_ctx *ctx, const char *path, fv_byte_stream *out);
fv_status fv_byte_stream_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                     fv_byte_stream *out);
fv_status fv_byte_stream_open_callback(fv_ctx *ctx, const char *name, fv_lines_reader read,
                                       void *user, fv_byte_stream *out);
void fv_byte_stream_close(fv_byte_stream *stream);

/* Up to n bytes, n > 0; *got is 0 at the end only. */
fv_status fv_byte_stream_read(fv_byte_stream *stream, void *out, size_t n, size_t *got);

/* ---- for unpackers --------------------------------------------------------------- */

/* The next packed bytes, up to FV_BYTE_STREAM_INPUT, at source->input; *got 0: there are no more.
 */
fv_status fv_byte_stream_refill(fv_byte_stream *stream, size_t *got);

/* "name: what" as FV_ERR_FORMAT. */
fv_status fv_byte_stream_corrupt(const fv_byte_stream *stream, const char *what);

typedef struct fv_decompressor_kind {
    const char *name; /* of the format */
    const char *library;
    unsigned char magic[6];
    size_t magic_bytes;
    /* NULL in a build without the library. begin fills source->unpacker. */
    fv_status (*begin)(fv_byte_stream *stream);
    fv_status (*read)(fv_byte_stream *stream, void *out, size_t n, size_t *got);
    void (*end)(fv_byte_stream *stream);
} fv_decompressor_kind;

extern const fv_decompressor_kind fv_decompress_gzip, fv_decompress_xz;

#endif

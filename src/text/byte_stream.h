/*
 * A file as a stream of bytes, unpacked if it begins like gzip or xz.
 *
 *     fv_source source;
 *     FV_FORWARD(fv_source_open(ctx, path, &source));
 *     s = fv_source_read(&source, buf, sizeof buf, &got);   // got 0: the end
 *     fv_source_close(&source);
 */
#ifndef FV_TEXT_SOURCE_H
#define FV_TEXT_SOURCE_H

#include "fovea/corpus.h"
#include "io/file.h"

enum { FV_SOURCE_INPUT = 1 << 16, FV_SOURCE_START = 8 };

typedef struct fv_source {
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
    unsigned char start[FV_SOURCE_START];
    size_t start_begin, start_end;
    uint64_t given; /* unpacked bytes handed out */
    unsigned char *input;
    struct fv_unpacker *unpacker; /* NULL: the bytes are as they are */
    const struct fv_unpacker_kind *kind;
} fv_source;

fv_status fv_source_open(fv_ctx *ctx, const char *path, fv_source *out);
fv_status fv_source_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                fv_source *out);
fv_status fv_source_open_stream(fv_ctx *ctx, const char *name, fv_lines_reader read, void *user,
                                fv_source *out);
void fv_source_close(fv_source *source);

/* Up to n bytes, n > 0; *got is 0 at the end only. */
fv_status fv_source_read(fv_source *source, void *out, size_t n, size_t *got);

/* ---- for unpackers --------------------------------------------------------------- */

/* The next packed bytes, up to FV_SOURCE_INPUT, at source->input; *got 0: there are no more. */
fv_status fv_source_more(fv_source *source, size_t *got);

/* "name: what" as FV_ERR_FORMAT. */
fv_status fv_source_damaged(const fv_source *source, const char *what);

typedef struct fv_unpacker_kind {
    const char *name; /* of the format */
    const char *library;
    unsigned char magic[6];
    size_t magic_bytes;
    /* NULL in a build without the library. begin fills source->unpacker. */
    fv_status (*begin)(fv_source *source);
    fv_status (*read)(fv_source *source, void *out, size_t n, size_t *got);
    void (*end)(fv_source *source);
} fv_unpacker_kind;

extern const fv_unpacker_kind fv_unpack_gzip, fv_unpack_xz;

#endif

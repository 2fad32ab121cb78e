/*
 * The subset of ZIP that .npz and PyTorch's files need: the central directory, ZIP64, stored and
 * (with zlib) deflated entries, CRC-32; no encryption, one disk. Archives are not trusted: entries
 * must not overlap, and must decompress to exactly the size they declare.
 */
#ifndef FV_IO_ZIP_H
#define FV_IO_ZIP_H

#include "io/arena.h"
#include "io/crc.h"
#include "io/file.h"

typedef struct fv_zip_entry {
    const char *name; /* valid UTF-8 without NUL */
    size_t name_bytes;
    bool deflated;
    uint32_t crc;
    uint64_t compressed_bytes, bytes; /* size in the file and decompressed */
    uint64_t header;                  /* offset of the local header */
    uint64_t offset;                  /* offset of the compressed data */
} fv_zip_entry;

/* Lists the entries in directory order; they are allocated in the arena. */
fv_status fv_zip_list(const fv_file *file, fv_arena *arena, fv_zip_entry **entries, size_t *count);

/* ---- reading an entry ---------------- -------------------------------------------- */

typedef struct fv_zip_reader {
    const fv_file *file;
    const fv_zip_entry *entry;
    const fv_crc *crc;
    uint32_t sum;                   /* CRC-32 of the bytes read so far */
    uint64_t done;                  /* decompressed bytes read so far */
    struct fv_zip_inflate *inflate; /* NULL for a stored entry */
} fv_zip_reader;

fv_status fv_zip_begin(fv_zip_reader *r, const fv_file *file, const fv_zip_entry *entry,
                       const fv_crc *crc);
/* Reads the next n bytes; fails with FV_ERR_FORMAT if fewer are left. */
fv_status fv_zip_read(fv_zip_reader *r, void *out, size_t n);
/* Fails with FV_ERR_FORMAT unless all bytes were read and the CRC matches. */
fv_status fv_zip_check(fv_zip_reader *r);
void fv_zip_end(fv_zip_reader *r);

/* ---- writing --------------------------------------------------------------------- */

enum { FV_ZIP_LOCAL_BYTES = 30, FV_ZIP_CENTRAL_BYTES = 46, FV_ZIP_END_BYTES = 22 };

/* Write the fixed parts of a stored entry's two headers (its name follows each) and of the end
 * record. Sizes and offsets are below 2^32, the length of the name below 2^16. */
void fv_zip_put_local(const fv_zip_entry *entry, unsigned char out[FV_ZIP_LOCAL_BYTES]);
void fv_zip_put_central(const fv_zip_entry *entry, unsigned char out[FV_ZIP_CENTRAL_BYTES]);
void fv_zip_put_end(size_t count, uint64_t directory, uint64_t directory_bytes,
                    unsigned char out[FV_ZIP_END_BYTES]);

#endif

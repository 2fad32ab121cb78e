/*
 * Just enough of ZIP for .npz: the central directory, stored and (with zlib) deflated entries,
 * CRC-32, no encryption, no ZIP64, one disk. An archive is not trusted: entries must lie
 * apart from each other inside the file, and unpack to exactly what they declare.
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
    uint64_t compressed_bytes, bytes; /* stored and unpacked size */
    uint64_t header;                  /* of the local header in the file */
    uint64_t offset;                  /* of the compressed data in the file */
} fv_zip_entry;

/* The archive's entries, in the order of its directory, in the arena. */
fv_status fv_zip_list(const fv_file *file, fv_arena *arena, fv_zip_entry **entries, size_t *count);

/* ---- reading one entry from its start -------------------------------------------- */

typedef struct fv_zip_reader {
    const fv_file *file;
    const fv_zip_entry *entry;
    const fv_crc *crc;
    uint32_t sum;                   /* of what was read */
    uint64_t done;                  /* unpacked bytes read */
    struct fv_zip_inflate *inflate; /* NULL for a stored entry */
} fv_zip_reader;

fv_status fv_zip_begin(fv_zip_reader *r, const fv_file *file, const fv_zip_entry *entry,
                       const fv_crc *crc);
/* The next n bytes; fewer left is FV_ERR_FORMAT. */
fv_status fv_zip_read(fv_zip_reader *r, void *out, size_t n);
/* FV_ERR_FORMAT unless everything was read and the CRC is right. */
fv_status fv_zip_check(fv_zip_reader *r);
void fv_zip_end(fv_zip_reader *r);

/* ---- writing --------------------------------------------------------------------- */

enum { FV_ZIP_LOCAL_BYTES = 30, FV_ZIP_CENTRAL_BYTES = 46, FV_ZIP_END_BYTES = 22 };

/* The fixed parts of a stored entry's two headers (the name follows each) and of the end. Sizes
 * and offsets are below 2^32, the name below 2^16. */
void fv_zip_put_local(const fv_zip_entry *entry, unsigned char out[FV_ZIP_LOCAL_BYTES]);
void fv_zip_put_central(const fv_zip_entry *entry, unsigned char out[FV_ZIP_CENTRAL_BYTES]);
void fv_zip_put_end(size_t count, uint64_t directory, uint64_t directory_bytes,
                    unsigned char out[FV_ZIP_END_BYTES]);

#endif

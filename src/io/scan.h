/*
 * Large arrays, read and checked in one pass: each thread reads a chunk and, while it is in the
 * cache, computes its checksum and looks for NaN and infinity.
 */
#ifndef FV_IO_SCAN_H
#define FV_IO_SCAN_H

#include "fovea/file.h"
#include "io/crc32c.h"
#include "io/file.h"

typedef struct fv_scan {
    const fv_crc32c *crc; /* NULL: no checksum */
    bool values;          /* look for values that are not finite, of type `dtype` */
    fv_dtype dtype;
    uint32_t sum; /* results */
    bool nonfinite;
} fv_scan;

/* Reads exactly n bytes, as fv_file_read. */
fv_status fv_scan_read(const fv_file *file, void *out, size_t n, uint64_t offset, fv_scan *scan);
/* The same for bytes in memory. Fails: MEMORY. */
fv_status fv_scan_memory(fv_ctx *ctx, const void *data, size_t n, fv_scan *scan);

#endif

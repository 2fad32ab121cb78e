/*
 * The header of a .npy array: a magic, a version, a length and the text of a Python dictionary,
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * padded with spaces and a line end so that the data is aligned.
 */
#ifndef FV_IO_NPY_HEADER_H
#define FV_IO_NPY_HEADER_H

#include "base/ctx.h"
#include "fovea/file.h"
#include "io/arena.h"

enum { FV_NPY_PREAMBLE = 12 /* what the length is found in; version 1 uses 10 of it */ };

extern const char fv_npy_magic[6];

/*
 * From the first `have` bytes (at most FV_NPY_PREAMBLE are looked at): bytes before the text, and
 * of the text. Fails: FORMAT, LIMIT (fv_limits.header_bytes).
 */
fv_status fv_npy_preamble(fv_ctx *ctx, const char *path, const unsigned char *raw, size_t have,
                          size_t *start, size_t *text_bytes);

/*
 * Fills the entry's element type, shape and bytes from the text; dtype_name goes to the arena.
 * *fortran: columns first, and that matters for this shape.
 */
fv_status fv_npy_parse(fv_ctx *ctx, const char *path, fv_arena *arena, const char *text,
                       size_t bytes, fv_file_entry *entry, bool *fortran);

enum { FV_NPY_HEADER_BYTES = 320 }; /* enough for rank 8 */

/* The whole header of a version 1 file; returns its length, a multiple of 64, or 0 if NumPy has
 * no such element type. */
size_t fv_npy_header(const fv_file_spec *spec, char out[FV_NPY_HEADER_BYTES]);

#endif

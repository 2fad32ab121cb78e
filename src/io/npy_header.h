/*
 * The header of a .npy array: magic, version, length and a Python dictionary,
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * padded with spaces and a newline so that the data is aligned.
 */
#ifndef FV_IO_NPY_HEADER_H
#define FV_IO_NPY_HEADER_H

#include "base/ctx.h"
#include "fovea/file.h"
#include "io/arena.h"

enum { FV_NPY_PREAMBLE = 12 /* bytes up to the end of the length; 10 in version 1 */ };

extern const char fv_npy_magic[6];

/*
 * Parses the first `have` bytes, of which at most FV_NPY_PREAMBLE are used: *start is the offset of
 * the dictionary, *text_bytes its length. Fails: FORMAT, LIMIT (fv_limits.header_bytes).
 */
fv_status fv_npy_preamble(fv_ctx *ctx, const char *path, const unsigned char *raw, size_t have,
                          size_t *start, size_t *text_bytes);

/*
 * Fills the entry's dtype, shape and size from the dictionary; dtype_name is allocated in the
 * arena. *fortran: column-major, and the shape is such that it matters.
 */
fv_status fv_npy_parse(fv_ctx *ctx, const char *path, fv_arena *arena, const char *text,
                       size_t bytes, fv_file_entry *entry, bool *fortran);

enum { FV_NPY_HEADER_BYTES = 320 }; /* enough for rank 8 */

/* Writes the header of a version 1 file. Returns its length, a multiple of 64, or 0 if NumPy has no
 * such dtype. */
size_t fv_npy_header(const fv_file_spec *spec, char out[FV_NPY_HEADER_BYTES]);

#endif

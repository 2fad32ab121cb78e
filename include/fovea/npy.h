/*
 * fovea/npy.h: NumPy's files: one array (.npy) or an archive of them (.npz).
 *
 *     fv_npy *file = NULL;
 *     if (fv_npy_open(ctx, "batch.npz", &file) != FV_OK) return fail(fv_ctx_message(ctx));
 *     for (size_t i = 0; i < fv_npy_count(file); i++) puts(fv_npy_entry(file, i)->name);
 *     fv_tensor *x = fv_npy_load(ctx, file, "x");
 *     fv_npy_close(&file);
 *
 * Read: versions 1, 2 and 3, little-endian; Fortran order comes out row-major, and needs room for
 * the array twice while it is read. Big-endian elements are listed, but loading them is
 * FV_ERR_UNSUPPORTED; structured and object arrays are refused.
 * Archives may be stored, or deflated if this build has zlib. Files are not trusted: header and
 * archive directory are checked against the file and fv_limits before anything is allocated, and an
 * archive may not unpack to more than it declares. Written: version 1; archives are stored, with
 * CRC-32.
 *
 * An open file belongs to its context and to the thread that uses it; close it before
 * the context is destroyed.
 */
#ifndef FOVEA_NPY_H
#define FOVEA_NPY_H

#include "fovea/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_npy fv_npy;

/*
 * Opens a .npy or .npz; the first bytes decide which it is, not the name.
 * Fails: ARGUMENT, IO, FORMAT, LIMIT, MEMORY, UNSUPPORTED (deflated without zlib, ZIP64,
 * encrypted).
 */
FV_API FV_MUST_USE fv_status fv_npy_open(fv_ctx *ctx, const char *path, fv_npy **out);
/* NULL is fine; *file becomes NULL. */
FV_API void fv_npy_close(fv_npy **file);

/* true for a .npz. A plain .npy has one entry, with the name "". */
FV_API bool fv_npy_is_archive(const fv_npy *file);

/* ---- listing: reads headers only ------------------------------------------------- */

/* Arrays in the order of the file; names come without ".npy". NULL past the end. */
FV_API size_t fv_npy_count(const fv_npy *file);
FV_API const fv_file_entry *fv_npy_entry(const fv_npy *file, size_t i);
FV_API const fv_file_entry *fv_npy_find(const fv_npy *file, const char *name);

/* ---- data ------------------------------------------------------------------------ */

/*
 * A new tensor of the innermost scope; "" names the array of a plain .npy. A tensor op: sets
 * the sticky error on failure. INDEX (no such name), UNSUPPORTED (element type), IO,
 * FORMAT (CRC-32 or packed data that is wrong), MEMORY.
 */
FV_API fv_tensor *fv_npy_load(fv_ctx *ctx, fv_npy *file, const char *name);

/* Copies a whole array, row-major; `bytes` is exactly entry->bytes. Archives: CRC-32 checked. */
FV_API FV_MUST_USE fv_status fv_npy_read(fv_npy *file, const fv_file_entry *entry, void *out,
                                         size_t bytes);

/* ---- saving (atomic, as in safetensors.h) ---------------------------------------- */

/* One array. FV_BF16 has no NumPy name: FV_ERR_UNSUPPORTED. */
FV_API FV_MUST_USE fv_status fv_npy_save(fv_ctx *ctx, const char *path, fv_tensor *tensor);

/* An archive, stored, at most 4 GiB in all (FV_ERR_LIMIT). Names as for safetensors. */
FV_API FV_MUST_USE fv_status fv_npz_save(fv_ctx *ctx, const char *path, const char *const *names,
                                         fv_tensor *const *tensors, size_t count);

#ifdef __cplusplus
}
#endif
#endif

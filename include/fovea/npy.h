/*
 * fovea/npy.h: NumPy files: one array (.npy) or an archive of arrays (.npz).
 *
 *     fv_npy *file = NULL;
 *     if (fv_npy_open(ctx, "batch.npz", &file) != FV_OK) return fail(fv_ctx_message(ctx));
 *     for (size_t i = 0; i < fv_npy_count(file); i++) puts(fv_npy_entry(file, i)->name);
 *     fv_tensor *x = fv_npy_load(ctx, file, "x");
 *     fv_npy_close(&file);
 *
 * Reads versions 1, 2 and 3, little-endian. Fortran-ordered arrays are converted to row-major,
 * which takes the memory of the array twice. Big-endian arrays can be listed, but loading them
 * fails with FV_ERR_UNSUPPORTED; structured and object arrays are rejected. Archives may be stored,
 * or deflated if this build has zlib. Files are not trusted: header and archive directory are
 * checked against the file and fv_limits before any allocation, and an archive may not decompress
 * to more than it declares. Writes version 1; archives are stored, with CRC-32.
 *
 * An open file belongs to its context and must not be shared between threads; close it before the
 * context is destroyed.
 */
#ifndef FOVEA_NPY_H
#define FOVEA_NPY_H

#include "fovea/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_npy fv_npy;

/*
 * Opens a .npy or .npz file; the first bytes decide which, not the name.
 * Fails: ARGUMENT, IO, FORMAT, LIMIT, MEMORY, UNSUPPORTED (deflated without zlib, ZIP64,
 * encrypted).
 */
FV_API FV_MUST_USE fv_status fv_npy_open(fv_ctx *ctx, const char *path, fv_npy **out);
/* Accepts NULL; sets *file to NULL. */
FV_API void fv_npy_close(fv_npy **file);

/* True for a .npz. A plain .npy has one entry, named "". */
FV_API bool fv_npy_is_archive(const fv_npy *file);

/* ---- listing (reads headers only) ------------------------------------------------- */

/* Arrays in file order; names without ".npy". Out-of-range indices and unknown names give NULL. */
FV_API size_t fv_npy_count(const fv_npy *file);
FV_API const fv_file_entry *fv_npy_entry(const fv_npy *file, size_t i);
FV_API const fv_file_entry *fv_npy_find(const fv_npy *file, const char *name);

/* ---- data ------------------------------------------------------------------------ */

/*
 * Loads an array as a new tensor of the innermost scope; "" names the array of a plain .npy. This
 * is a tensor op: it sets the sticky error on failure: INDEX (unknown name), UNSUPPORTED (dtype),
 * IO, FORMAT (wrong CRC-32, corrupt compressed data), MEMORY.
 */
FV_API fv_tensor *fv_npy_load(fv_ctx *ctx, fv_npy *file, const char *name);

/* Copies a whole array, row-major; `bytes` must equal entry->bytes. Checks the CRC-32 in an
 * archive. */
FV_API FV_MUST_USE fv_status fv_npy_read(fv_npy *file, const fv_file_entry *entry, void *out,
                                         size_t bytes);

/* ---- saving (atomic, as in safetensors.h) ---------------------------------------- */

/* One array. Fails with FV_ERR_UNSUPPORTED for FV_BF16, which NumPy does not have. */
FV_API FV_MUST_USE fv_status fv_npy_save(fv_ctx *ctx, const char *path, fv_tensor *tensor);

/* A stored archive of at most 4 GiB (FV_ERR_LIMIT). Names follow the rules of safetensors. */
FV_API FV_MUST_USE fv_status fv_npz_save(fv_ctx *ctx, const char *path, const char *const *names,
                                         fv_tensor *const *tensors, size_t count);

#ifdef __cplusplus
}
#endif
#endif

/*
 * fovea/safetensors.h: reads and writes model weights in the safetensors format.
 *
 *     fv_safetensors *file = NULL;
 *     if (fv_safetensors_open(ctx, "model.safetensors", FV_SAFETENSORS_COPY, &file) != FV_OK)
 *         return fail(fv_ctx_message(ctx));
 *     fv_tensor *w = fv_safetensors_load(ctx, file, "encoder.0.weight");
 *     fv_safetensors_close(&file);
 *
 *     fv_tensor *tensors[] = {w};
 *     const char *names[] = {"encoder.0.weight"};
 *     fv_file_metadata metadata[] = {{"format", "pt"}};
 *     s = fv_safetensors_save(ctx, "copy.safetensors", names, tensors, 1, metadata, 1);
 *
 * The format: the header's length in eight bytes (little-endian), a JSON header
 * {"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__": {string: string}},
 * then the data without gaps. A model may be split into several files (shards), listed in an index
 * "model.safetensors.index.json".
 *
 * Files are not trusted. Opening checks the whole header: its length against the file and
 * fv_limits, UTF-8, duplicate names, rank <= 8, no negative sizes, shape x element size equal to
 * the byte range, ranges that neither overlap nor leave gaps, and no bytes after the data. It
 * allocates nothing for data. An invalid file fails with FV_ERR_FORMAT, one over a limit with
 * FV_ERR_LIMIT.
 *
 * An open file belongs to its context and must not be shared between threads; close it before the
 * context is destroyed.
 */
#ifndef FOVEA_SAFETENSORS_H
#define FOVEA_SAFETENSORS_H

#include "fovea/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_safetensors fv_safetensors;

enum {
    /* Each read copies from the file. A file that has been truncated since fails with FV_ERR_IO. */
    FV_SAFETENSORS_COPY = 0,
    /*
     * Maps the file into memory. If another process truncates the file, reading the lost pages
     * kills this process with SIGBUS. The size is checked again before each access, which narrows
     * the window but cannot close it.
     */
    FV_SAFETENSORS_MAP = 1,
    /*
     * Verifies the header's checksum when opening, and a tensor's when it is loaded or read
     * completely. A file without checksums (see fv_safetensors_save) then fails with FV_ERR_FORMAT.
     */
    FV_SAFETENSORS_VERIFY = 2
};

/*
 * Opens a file, or all shards if `path` ends in ".index.json". Shards must be in the folder of the
 * index; an index with anything but plain file names is rejected. `flags` is an OR of the values
 * above; copying and mapping give the same results.
 * Fails: ARGUMENT, IO (missing, not a regular file, truncated), FORMAT, LIMIT, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_safetensors_open(fv_ctx *ctx, const char *path, unsigned flags,
                                                 fv_safetensors **out);
/* Accepts NULL; sets *file to NULL. Invalidates pointers from fv_safetensors_view. */
FV_API void fv_safetensors_close(fv_safetensors **file);

/* ---- listing (reads no data) ------------------------------------------------------ */

/* Tensors in the order of their data; shards in the order of their names. */
FV_API size_t fv_safetensors_count(const fv_safetensors *file);
FV_API const fv_file_entry *fv_safetensors_entry(const fv_safetensors *file, size_t i);
FV_API const fv_file_entry *fv_safetensors_find(const fv_safetensors *file, const char *name);

/* Entries of "__metadata__", of the first shard; NULL past the end. */
FV_API size_t fv_safetensors_metadata_count(const fv_safetensors *file);
FV_API const fv_file_metadata *fv_safetensors_metadata_at(const fv_safetensors *file, size_t i);
/* The value under `key`, or NULL. */
FV_API const char *fv_safetensors_metadata_find(const fv_safetensors *file, const char *key);

/* The files of the set (1 for a plain file), their paths and sizes. */
FV_API size_t fv_safetensors_shard_count(const fv_safetensors *file);
FV_API const char *fv_safetensors_shard_path(const fv_safetensors *file, size_t shard);
FV_API uint64_t fv_safetensors_shard_bytes(const fv_safetensors *file, size_t shard);

/* ---- data ------------------------------------------------------------------------ */

/*
 * Loads a tensor into the innermost scope. This is a tensor op: on failure it returns the invalid
 * tensor and sets the sticky error: INDEX (unknown name), UNSUPPORTED (dtype), IO, FORMAT
 * (checksum), MEMORY.
 */
FV_API fv_tensor *fv_safetensors_load(fv_ctx *ctx, fv_safetensors *file, const char *name);

/*
 * Copies `bytes` bytes of an entry's data, of any dtype, starting at byte `offset`. With
 * FV_SAFETENSORS_VERIFY, reading the whole entry verifies its checksum.
 * Fails: ARGUMENT (outside the entry), IO, FORMAT (checksum).
 */
FV_API FV_MUST_USE fv_status fv_safetensors_read(fv_safetensors *file, const fv_file_entry *entry,
                                                 uint64_t offset, void *out, size_t bytes);

/*
 * The mapped data of an entry, valid until the file is closed. It is aligned to the element size
 * only if the writer aligned it (fv_safetensors_save does). Checks the size of the file first, and
 * the checksum with FV_SAFETENSORS_VERIFY. Fails: STATE (not mapped), IO (truncated), FORMAT
 * (checksum).
 */
FV_API FV_MUST_USE fv_status fv_safetensors_view(fv_safetensors *file, const fv_file_entry *entry,
                                                 const void **out);

/* ---- saving ---------------------------------------------------------------------- */

/*
 * Saves are atomic: the data goes to a new file next to `path`, which is synced and renamed to
 * `path`; then the folder is synced. After a failure the old file is intact and the new one is
 * removed. Only if the last step fails, the sync of the folder, is the new file in place, though it
 * may not survive a power failure. Data starts at a multiple of 64 bytes, and tensors with larger
 * elements come first, so that each is aligned for mapping.
 *
 * Checksums are stored in the metadata under "fovea.crc32c", as eight hex digits each: first that
 * of the header (computed with all these digits '0'), then that of each tensor in file order.
 * CRC-32C is the reflected Castagnoli polynomial 0x1EDC6F41, as in iSCSI.
 *
 * Fails: ARGUMENT (empty or duplicate name, invalid shape), LIMIT, IO, MEMORY, and with the
 * context's sticky error if it has one. FV_OK means the file is on disk.
 */
FV_API FV_MUST_USE fv_status fv_safetensors_save(fv_ctx *ctx, const char *path,
                                                 const char *const *names,
                                                 fv_tensor *const *tensors, size_t count,
                                                 const fv_file_metadata *metadata,
                                                 size_t metadata_count);

/* Saves data that is not in tensors: `source` provides it in chunks of at most 1 MiB, so that a
 * large model never needs a second copy in memory. */
FV_API FV_MUST_USE fv_status fv_safetensors_save_stream(fv_ctx *ctx, const char *path,
                                                        const fv_file_spec *specs, size_t count,
                                                        const fv_file_metadata *metadata,
                                                        size_t metadata_count,
                                                        fv_file_source source, void *user);

#ifdef __cplusplus
}
#endif
#endif

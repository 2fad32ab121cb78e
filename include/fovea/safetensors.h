/*
 * fovea/safetensors.h: model weights as they are kept everywhere.
 *
 *     fv_safetensors *file = NULL;
 *     if (fv_safetensors_open(ctx, "model.safetensors", FV_SAFETENSORS_COPY, &file) != FV_OK)
 *         return fail(fv_ctx_message(ctx));
 *     fv_tensor *w = fv_safetensors_load(ctx, file, "encoder.0.weight");
 *     fv_safetensors_close(&file);
 *
 *     fv_tensor *tensors[] = {w};
 *     const char *names[] = {"encoder.0.weight"};
 *     fv_file_note notes[] = {{"format", "pt"}};
 *     s = fv_safetensors_save(ctx, "copy.safetensors", names, tensors, 1, notes, 1);
 *
 * The format: eight bytes with the header's length (little-endian), a JSON header
 * {"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__": {string: string}},
 * then the data without holes. A set may be split in shards, joined by an index
 * "model.safetensors.index.json".
 *
 * Files are not trusted. Opening checks the whole header: its length against the file
 * and fv_limits, UTF-8, duplicate names, rank <= 8, sizes that are not negative, shape x
 * element size equal to the range, ranges inside the file that neither overlap nor leave
 * holes, and the file ending where the data ends. Nothing is allocated for data.
 * What breaks a rule is FV_ERR_FORMAT, what exceeds a limit FV_ERR_LIMIT.
 *
 * An open file belongs to its context and to the thread that uses it; close it before
 * the context is destroyed.
 */
#ifndef FOVEA_SAFETENSORS_H
#define FOVEA_SAFETENSORS_H

#include "fovea/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_safetensors fv_safetensors;

enum {
    /* Each read copies from the file. A file cut short under us is FV_ERR_IO. */
    FV_SAFETENSORS_COPY = 0,
    /*
     * The file is mapped. Reading pages that another process has cut off kills the process
     * with SIGBUS: map only files that nobody shortens. The size is looked at again before
     * each access, which narrows the window but cannot close it.
     */
    FV_SAFETENSORS_MAP = 1,
    /*
     * Check the header's checksum when opening and each tensor's when it is loaded or read
     * whole. A file without checksums (see fv_safetensors_save) is FV_ERR_FORMAT then.
     */
    FV_SAFETENSORS_VERIFY = 2
};

/*
 * Opens a file, or a whole sharded set when `path` ends in ".index.json" (shards lie in the
 * same folder; an index that names anything but plain file names is refused). `flags` joins
 * the values above. The mode does not change what any call below returns.
 * Fails: ARGUMENT, IO (missing, not a regular file, shorter than it said), FORMAT, LIMIT,
 * MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_safetensors_open(fv_ctx *ctx, const char *path, unsigned flags,
                                                 fv_safetensors **out);
/* NULL is fine; *file becomes NULL. Mapped pointers die with the file. */
FV_API void fv_safetensors_close(fv_safetensors **file);

/* ---- listing: reads no data ------------------------------------------------------ */

/* Tensors, in the order of their data; shards in the order of their names. */
FV_API size_t fv_safetensors_count(const fv_safetensors *file);
FV_API const fv_file_entry *fv_safetensors_entry(const fv_safetensors *file, size_t i);
FV_API const fv_file_entry *fv_safetensors_find(const fv_safetensors *file, const char *name);

/* The "__metadata__" map: in a set, the first shard's. entry i is NULL past the end. */
FV_API size_t fv_safetensors_note_count(const fv_safetensors *file);
FV_API const fv_file_note *fv_safetensors_note(const fv_safetensors *file, size_t i);
/* The value under `key`, or NULL. */
FV_API const char *fv_safetensors_metadata(const fv_safetensors *file, const char *key);

/* The files of the set (1 for a plain file), their paths and sizes. */
FV_API size_t fv_safetensors_shard_count(const fv_safetensors *file);
FV_API const char *fv_safetensors_shard_path(const fv_safetensors *file, size_t shard);
FV_API uint64_t fv_safetensors_shard_bytes(const fv_safetensors *file, size_t shard);

/* ---- data ------------------------------------------------------------------------ */

/*
 * A new tensor of the innermost scope with the data of `name`; a tensor op, so it returns
 * the invalid tensor and sets the sticky error on failure: INDEX (no such name),
 * UNSUPPORTED (an element type that is not ours), IO, FORMAT (checksum), MEMORY.
 */
FV_API fv_tensor *fv_safetensors_load(fv_ctx *ctx, fv_safetensors *file, const char *name);

/*
 * Copies `bytes` bytes from `offset` within the entry's data. With FV_SAFETENSORS_VERIFY the
 * checksum is looked at when the whole entry is read. Any element type.
 * Fails: ARGUMENT (outside the entry), IO, FORMAT (checksum).
 */
FV_API FV_MUST_USE fv_status fv_safetensors_read(fv_safetensors *file, const fv_file_entry *entry,
                                                 uint64_t offset, void *out, size_t bytes);

/*
 * The mapped data of an entry, aligned to its element only if the writer did so (ours does);
 * valid until the file is closed. Checks the size of the file first, and the checksum with
 * FV_SAFETENSORS_VERIFY. Fails: STATE (not mapped), IO (shortened), FORMAT (checksum).
 */
FV_API FV_MUST_USE fv_status fv_safetensors_view(fv_safetensors *file, const fv_file_entry *entry,
                                                 const void **out);

/* ---- saving ---------------------------------------------------------------------- */

/*
 * Saves are atomic: everything goes to a new file beside `path`, is synced, and takes the
 * place of `path` by a rename; the folder is synced too. After a failure the old file is whole
 * and the new one is gone; only when the last step, the folder's sync, fails, the new one is in
 * place but may not survive a power cut. Data starts at a multiple of 64 bytes, and tensors with
 * larger elements come first so that each is aligned for mapping.
 *
 * Checksums travel as the note "fovea.crc32c": eight hex digits each, first the header's
 * (computed while all these digits were '0'), then each tensor's data in the order of the
 * file. CRC-32C is the Castagnoli polynomial 0x1EDC6F41, reflected, as in iSCSI.
 *
 * Fails: ARGUMENT (empty, duplicate or over-long name, bad shape), LIMIT, IO, MEMORY, and
 * the context's sticky error if it has one. FV_OK means: on disk.
 */
FV_API FV_MUST_USE fv_status fv_safetensors_save(fv_ctx *ctx, const char *path,
                                                 const char *const *names,
                                                 fv_tensor *const *tensors, size_t count,
                                                 const fv_file_note *notes, size_t note_count);

/* The same for data that is not in tensors: `source` is asked for it in pieces of at most
 * 1 MiB, so that a big model never needs a second copy. */
FV_API FV_MUST_USE fv_status fv_safetensors_save_stream(fv_ctx *ctx, const char *path,
                                                        const fv_file_spec *specs, size_t count,
                                                        const fv_file_note *notes,
                                                        size_t note_count, fv_file_source source,
                                                        void *user);

#ifdef __cplusplus
}
#endif
#endif

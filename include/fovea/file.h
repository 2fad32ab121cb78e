/*
 * fovea/file.h: types shared by safetensors, npy and npz files. Each is a list of named arrays,
 * which can be listed without reading their data.
 *
 *     for (size_t i = 0; i < fv_safetensors_count(file); i++) {
 *         const fv_file_entry *e = fv_safetensors_entry(file, i);
 *         printf("%-40s %-5s rank %d, %" PRIu64 " bytes\n", e->name, e->dtype_name, e->rank,
 *                e->bytes);
 *     }
 */
#ifndef FOVEA_FILE_H
#define FOVEA_FILE_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One array of a file. The open file owns the strings. */
typedef struct fv_file_entry {
    const char *name;       /* valid UTF-8 without NUL; "" in a plain .npy */
    const char *dtype_name; /* as spelled in the file: "F32", "<f4", ... */
    bool loadable;  /* `dtype` is valid; if false, the array can be listed and its bytes copied */
    fv_dtype dtype; /* booleans are FV_U8 */
    int rank;
    int64_t shape[FV_MAX_RANK];
    uint64_t offset;       /* of the first data byte in its file */
    uint64_t bytes;        /* of data, decompressed */
    uint64_t stored_bytes; /* of data, in the file; differs from `bytes` only in a deflated npz */
    size_t shard;          /* which file of a sharded set, from 0 */
} fv_file_entry;

/* One entry of a file's metadata. */
typedef struct fv_file_metadata {
    const char *key;
    const char *value;
} fv_file_metadata;

/* An array to write. */
typedef struct fv_file_spec {
    const char *name;
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_file_spec;

/*
 * Callback that provides the data of an array during a save: fills `buf` with `bytes` bytes,
 * starting at byte `offset` of array `index` in the list of specs. The chunks of an array are
 * requested in order, the arrays in any order. Data is row-major and little-endian; chunks begin
 * and end on element boundaries. A value other than FV_OK stops the save, which returns it.
 */
typedef fv_status (*fv_file_source)(void *user, size_t index, uint64_t offset, void *buf,
                                    size_t bytes);

/* ==== safetensors =================================================================== */

/*
 * safetensors: reads and writes model weights in the safetensors format.
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
 *     s = fv_safetensors_save(ctx, names, tensors, 1, metadata, 1, "copy.safetensors");
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
 * Weights that torch.save has written (pytorch_model.bin) open in the same way, and are never
 * written. They are a pickle, which is read as data: opcodes and names other than those of a
 * dictionary of tensors fail with FV_ERR_FORMAT, and nothing is executed. Tensors that share a
 * storage, and those with strides, read as row-major tensors of their own.
 *
 * An open file belongs to its context and must not be shared between threads; close it before the
 * context is destroyed.
 */

typedef struct fv_safetensors fv_safetensors;

/* How the weights of an open file are stored; the first bytes of the file decide. */
typedef enum fv_weights_form {
    FV_WEIGHTS_SAFETENSORS,
    FV_WEIGHTS_TORCH,    /* torch.save's archive; has a CRC-32 of each storage */
    FV_WEIGHTS_TORCH_OLD /* torch.save before 1.6; has no checksums */
} fv_weights_form;

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
    FV_SAFETENSORS_VERIFY = 2,
    /*
     * For models from anywhere: verifies like FV_SAFETENSORS_VERIFY if the file has checksums, and
     * accepts it if not. Tensors with NaN or infinite values are reported to the context's log as
     * warnings. Model folders are opened with it; fv_ctx_set_verify turns it off.
     */
    FV_SAFETENSORS_CHECK = 4
};

/* Whether FV_SAFETENSORS_CHECK checks anything in this context; true at first. */
FV_API void fv_ctx_set_verify(fv_ctx *ctx, bool verify);

/*
 * Opens a file of either form, or all shards if `path` ends in ".index.json". Shards must be in the
 * folder of the index; an index with anything but plain file names is rejected. `flags` is an OR of
 * the values above; copying and mapping give the same results. Fails: ARGUMENT, IO (missing, not a
 * regular file, truncated), FORMAT, LIMIT, MEMORY.
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

/* Of the first shard. */
FV_API fv_weights_form fv_safetensors_form(const fv_safetensors *file);

/*
 * The files of the set (1 for a plain file), their paths and sizes.
 *
 *     for (size_t i = 0; i < fv_safetensors_shard_count(file); i++)
 *         printf("%s: %" PRIu64 " bytes\n", fv_safetensors_shard_path(file, i),
 *                fv_safetensors_shard_bytes(file, i));
 */
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
 *
 *     const fv_file_entry *e = fv_safetensors_find(file, "wte.weight");   // f32 [50257, 768]
 *     float vector[768];
 *     if (e) s = fv_safetensors_read(file, e, 42 * sizeof vector, vector, sizeof vector);
 */
FV_API FV_MUST_USE fv_status fv_safetensors_read(fv_safetensors *file, const fv_file_entry *entry,
                                                 uint64_t offset, void *out, size_t bytes);

/*
 * The mapped data of an entry, valid until the file is closed. It is aligned to the element size
 * only if the writer aligned it (fv_safetensors_save does). Checks the size of the file first, and
 * the checksum with FV_SAFETENSORS_VERIFY. Fails: STATE (not mapped), IO (truncated), FORMAT
 * (checksum).
 *
 *     const void *bytes = NULL;
 *     s = fv_safetensors_view(file, fv_safetensors_entry(file, 0), &bytes);
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
FV_API FV_MUST_USE fv_status fv_safetensors_save(fv_ctx *ctx, const char *const *names,
                                                 fv_tensor *const *tensors, size_t count,
                                                 const fv_file_metadata *metadata,
                                                 size_t metadata_count, const char *path);

/*
 * Saves data that is not in tensors: `source` provides it in chunks of at most 1 MiB, so that a
 * large model never needs a second copy in memory.
 *
 *     static fv_status from_file(void *user, size_t i, uint64_t offset, void *buf, size_t n) {
 *         (void)i, (void)offset;                              // one array: its chunks are in order
 *         return fread(buf, 1, n, user) == n ? FV_OK : FV_ERR_IO;
 *     }
 *     const fv_file_spec spec = {"vectors", FV_F32, 2, {400000, 300}};
 *     s = fv_safetensors_save_stream(ctx, &spec, 1, NULL, 0, from_file, stdin,
 *                                    "vectors.safetensors");
 */
FV_API FV_MUST_USE fv_status fv_safetensors_save_stream(
    fv_ctx *ctx, const fv_file_spec *specs, size_t count, const fv_file_metadata *metadata,
    size_t metadata_count, fv_file_source source, void *user, const char *path);

/* ==== npy =========================================================================== */

/*
 * npy: NumPy files: one array (.npy) or an archive of arrays (.npz).
 *
 *     fv_npy *file = NULL;
 *     if (fv_npy_open(ctx, "batch.npz", &file) != FV_OK) return fail(fv_ctx_message(ctx));
 *     for (size_t i = 0; i < fv_npy_count(file); i++) puts(fv_npy_entry(file, i)->name);
 *     fv_tensor *x = fv_npy_load(ctx, file, "x");
 *     const fv_file_entry *e = fv_npy_find(file, "labels");
 *     int64_t labels[128];                                     // without a tensor
 *     if (e && e->dtype == FV_I64 && e->bytes == sizeof labels)
 *         s = fv_npy_read(file, e, labels, sizeof labels);
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

typedef struct fv_npy fv_npy;

/*
 * Opens a .npy or .npz file; the first bytes decide which, not the name.
 * Fails: ARGUMENT, IO, FORMAT, LIMIT, MEMORY, UNSUPPORTED (deflated without zlib,
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

/* ---- saving (atomic, as for safetensors) ---------------------------------------- */

/* One array. Fails with FV_ERR_UNSUPPORTED for FV_BF16, which NumPy does not have. */
FV_API FV_MUST_USE fv_status fv_npy_save(fv_ctx *ctx, fv_tensor *tensor, const char *path);

/* A stored archive of at most 4 GiB (FV_ERR_LIMIT). Names follow the rules of safetensors. */
FV_API FV_MUST_USE fv_status fv_npz_save(fv_ctx *ctx, const char *const *names,
                                         fv_tensor *const *tensors, size_t count, const char *path);

#ifdef __cplusplus
}
#endif
#endif

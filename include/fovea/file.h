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

#ifdef __cplusplus
}
#endif
#endif

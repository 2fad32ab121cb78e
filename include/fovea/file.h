/*
 * fovea/file.h: what safetensors, npy and npz files have in common: a list of
 * named arrays that can be shown without reading a byte of their data.
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

/* One array of a file. Everything in it is owned by the open file. */
typedef struct fv_file_entry {
    const char *name;       /* valid UTF-8 without NUL; "" in a plain .npy */
    const char *dtype_name; /* as the file spells it: "F32", "<f4", ... */
    bool loadable;          /* `dtype` holds an element type of ours; false: list it, copy bytes */
    fv_dtype dtype;         /* booleans are FV_U8 */
    int rank;
    int64_t shape[FV_MAX_RANK];
    uint64_t offset; /* of the first data byte in its file */
    uint64_t bytes;  /* of data, after unpacking */
    uint64_t packed; /* of data, as stored; differs from `bytes` in a deflated npz only */
    size_t shard;    /* which file of a sharded set, from 0 */
} fv_file_entry;

/* A key and a value of a file's own notes. */
typedef struct fv_file_note {
    const char *key;
    const char *value;
} fv_file_note;

/* An array to be written. */
typedef struct fv_file_spec {
    const char *name;
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_file_spec;

/*
 * Gives the data of an array that is being saved, piece by piece and in order:
 * fill `buf` with `bytes` bytes that start at byte `offset` of array `index` (a number
 * into the list of specs; the arrays may be asked for in any order). Data is row-major and
 * little-endian. Pieces begin and end on element boundaries.
 * Another value than FV_OK stops the save, and the save returns it.
 */
typedef fv_status (*fv_file_source)(void *user, size_t index, uint64_t offset, void *buf,
                                    size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

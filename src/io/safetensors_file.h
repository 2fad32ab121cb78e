/* Internals of an open safetensors file or set of shards; see fovea/file.h. */
#ifndef FV_IO_SAFETENSORS_FILE_H
#define FV_IO_SAFETENSORS_FILE_H

#include "fovea/file.h"
#include "io/arena.h"
#include "io/crc32c.h"
#include "io/document.h"
#include "io/file.h"

#define FV_SAFETENSORS_CRC_KEY "fovea.crc32c"
enum { FV_SAFETENSORS_CRC_DIGITS = 8 };

typedef struct fv_safetensors_dtype {
    const char *name;
    size_t bytes;
    bool loadable;
    fv_dtype dtype;
} fv_safetensors_dtype;

/* The dtype with the format's name `name`, or NULL; and the format's name of a dtype. */
const fv_safetensors_dtype *fv_safetensors_dtype_find(const char *name);
const char *fv_safetensors_dtype_name(fv_dtype dtype);

/* PyTorch's files (io/torch_file.h): a tensor is a view of a storage. */
typedef struct fv_torch_storage {
    const char *key; /* valid while the header is read */
    size_t key_bytes;
    uint64_t offset, bytes;
    uint32_t crc;
    bool verified; /* the sum was checked, or there is none */
} fv_torch_storage;

typedef struct fv_torch_view {
    uint32_t storage;
    bool contiguous;
    size_t element; /* bytes */
    int64_t stride[FV_MAX_RANK];
} fv_torch_view;

/* One file. Its entries are consecutive in the set. */
typedef struct fv_safetensors_shard {
    fv_file file;
    bool open;
    fv_weights_form form;
    void *map; /* NULL unless mapped */
    uint64_t data_start;
    fv_file_entry *entries; /* in the order of their data; PyTorch's in that of the dictionary */
    size_t count;
    fv_file_metadata *metadata;
    size_t metadata_count;
    const uint32_t *sums; /* CRC-32C of each entry's data, or NULL */
    fv_torch_view *views; /* of each entry in a file of PyTorch, else NULL */
    fv_torch_storage *storages;
} fv_safetensors_shard;

struct fv_safetensors {
    fv_ctx *ctx;
    unsigned flags;
    fv_arena arena;
    fv_crc32c *crc;     /* tables; NULL: nothing is verified */
    fv_crc32c *zip_crc; /* the same for archives of PyTorch, once one is opened */
    int nonfinite;      /* tensors reported so far */
    fv_safetensors_shard *shards;
    size_t shard_count;
    fv_file_entry *entries; /* of all shards */
    size_t count;
    const uint32_t *by_name;
};

/* Reads and checks the header of an open file: fills all fields from data_start on; its entries get
 * the shard number `shard`. */
fv_status fv_safetensors_read_header(fv_safetensors *set, size_t shard);

/* Opens one file as shard `shard`. `path` must be in the arena. */
fv_status fv_safetensors_open_shard(fv_safetensors *set, size_t shard, const char *path);
/* Opens all files of an index. */
fv_status fv_safetensors_open_index(fv_safetensors *set, const char *path);
/* Merges the shards' entries and indexes their names. */
fv_status fv_safetensors_join(fv_safetensors *set, const char *path);

#endif

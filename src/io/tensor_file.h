/* Shared by the readers and writers of tensor files: lookup by name, size checks, tensor data. */
#ifndef FV_IO_TENSOR_FILE_H
#define FV_IO_TENSOR_FILE_H

#include "base/ctx.h"
#include "fovea/file.h"
#include "io/arena.h"

/* Product of the sizes and the element size; false on overflow. Sizes must not be negative. */
bool fv_shape_bytes(int rank, const int64_t *shape, size_t element, uint64_t *out);

/* ---- reading --------------------------------------------------------------------- */

/*
 * Allocates `order` in the arena: the entries' indices sorted by name. *duplicate is an entry whose
 * name occurs twice, or NULL. Returns false if out of memory.
 */
bool fv_entries_index(fv_arena *arena, const fv_file_entry *entries, size_t count,
                      const uint32_t **order, const fv_file_entry **duplicate);
const fv_file_entry *fv_entries_find(const fv_file_entry *entries, size_t count,
                                     const uint32_t *order, const char *name);

/* Reads all data of an entry into host memory; `file` is the open file. */
typedef fv_status (*fv_entry_read)(void *file, const fv_file_entry *entry, void *out, size_t bytes);

/* Implements the load ops: creates the tensor and fills it. entry NULL: unknown name. */
fv_tensor *fv_entry_load(fv_ctx *ctx, const char *path, const char *name,
                         const fv_file_entry *entry, fv_entry_read read, void *file);

/* ---- writing --------------------------------------------------------------------- */

/* Checks that names are non-empty, unique, UTF-8 and within fv_limits, and that shapes are valid.
 */
fv_status fv_specs_check(fv_ctx *ctx, const char *path, const fv_file_spec *specs, size_t count);

/* An fv_file_source over tensors; `user` is this struct. */
typedef struct fv_tensor_source {
    fv_ctx *ctx;
    fv_tensor *const *tensors;
    size_t index;     /* of the tensor in `copy` */
    void *copy;       /* host copy of a tensor whose memory cannot be read in place */
    size_t copy_room; /* 0: none */
} fv_tensor_source;

fv_status fv_tensor_source_read(void *user, size_t index, uint64_t offset, void *buf, size_t bytes);
void fv_tensor_source_free(fv_tensor_source *source);

/* Specs of tensors, to be freed with fv_mem_free(specs, count * sizeof). Fails with the sticky
 * error, or if a tensor is invalid. names NULL: all "". */
fv_status fv_specs_of_tensors(fv_ctx *ctx, const char *path, const char *const *names,
                              fv_tensor *const *tensors, size_t count, fv_file_spec **out);

#endif

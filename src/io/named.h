/*
 * Lists of named tensors, saved to and loaded from safetensors files; used for weights and training
 * states.
 */
#ifndef FV_IO_NAMED_H
#define FV_IO_NAMED_H

#include "fovea/file.h"
#include "tensor/params.h"

enum { FV_NAMED_BYTES = 320 };

typedef struct fv_named {
    fv_ctx *ctx;
    size_t count, room;
    char (*name)[FV_NAMED_BYTES];
    fv_tensor **tensor;
} fv_named;

/* A list with capacity for `room` tensors. Fails: MEMORY. */
fv_status fv_named_begin(fv_ctx *ctx, size_t room, fv_named *out);
/* Adds a tensor under prefix + name; the list must have capacity for it. */
void fv_named_add(fv_named *list, const char *prefix, const char *name, fv_tensor *t);
void fv_named_add_params(fv_named *list, const char *prefix, const fv_params *params);
void fv_named_end(fv_named *list);

fv_status fv_named_save(const fv_named *list, const char *path, const fv_file_metadata *metadata,
                        size_t metadata_count);

/* Checks that the file has every tensor of the list with the same shape and dtype and, if `whole`,
 * no other. Fails: FORMAT, naming the tensor. */
fv_status fv_named_check(const fv_named *list, const fv_safetensors *file, bool whole);
/* Overwrites the tensors' values; call fv_named_check first. */
fv_status fv_named_read(const fv_named *list, fv_safetensors *file);

#endif

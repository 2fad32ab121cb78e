/*
 * Lists of named tensors to and from safetensors files: what weights and training states have in
 * common.
 */
#ifndef FV_IO_NAMED_H
#define FV_IO_NAMED_H

#include "fovea/safetensors.h"
#include "tensor/params.h"

enum { FV_NAMED_BYTES = 320 };

typedef struct fv_named {
    fv_ctx *ctx;
    size_t count, room;
    char (*name)[FV_NAMED_BYTES];
    fv_tensor **tensor;
} fv_named;

/* Room for `room` tensors. Fails: MEMORY. */
fv_status fv_named_begin(fv_ctx *ctx, size_t room, fv_named *out);
/* prefix + name; the list has room for it. */
void fv_named_add(fv_named *list, const char *prefix, const char *name, fv_tensor *t);
void fv_named_add_params(fv_named *list, const char *prefix, const fv_params *params);
void fv_named_end(fv_named *list);

fv_status fv_named_save(const fv_named *list, const char *path, const fv_file_metadata *notes,
                        size_t note_count);

/* The file must hold every tensor of the list in its shape and element type, and if `whole`
 * nothing else. Fails: FORMAT, with the name. */
fv_status fv_named_check(const fv_named *list, const fv_safetensors *file, bool whole);
/* After the check: overwrites the tensors' values. */
fv_status fv_named_read(const fv_named *list, fv_safetensors *file);

#endif

/*
 * The pickles that torch.save writes, as data: a machine that knows the few opcodes of a state_dict
 * and five names of Python objects, and refuses all others. It builds a description of the tensors;
 * nothing is imported or called.
 *
 *     fv_pickle *p = NULL;
 *     FV_TRY(fv_pickle_create(ctx, path, text, bytes, &p));
 *     s = fv_pickle_run(p, &root);
 *     if (s == FV_OK) s = fv_pickle_tensors(p, root, &arena, &tensors, &count);
 *     fv_pickle_free(&p);
 *
 * The text is not trusted. Memory is a small multiple of its length, no step is recursive, and
 * fv_limits bound open MARKs (json_depth), tensors, names and strings.
 */
#ifndef FV_IO_PICKLE_H
#define FV_IO_PICKLE_H

#include "io/arena.h"
#include "io/safetensors_file.h"

typedef struct fv_pickle fv_pickle;

/* Part of the pickle's text. */
typedef struct fv_pickle_text {
    const char *text;
    size_t bytes;
} fv_pickle_text;

/* A tensor is a view of a storage. Sizes, strides and offset are in elements and not negative; that
 * they stay within the storage is checked. */
typedef struct fv_pickle_tensor {
    fv_pickle_text name;
    fv_pickle_text storage; /* its key */
    const fv_safetensors_dtype *dtype;
    int64_t storage_count; /* elements of the storage */
    int64_t offset;
    int rank;
    int64_t shape[FV_MAX_RANK], stride[FV_MAX_RANK];
} fv_pickle_tensor;

/* `path` and `text` must outlive it. Fails: MEMORY. */
fv_status fv_pickle_create(fv_ctx *ctx, const char *path, const char *text, size_t bytes,
                           fv_pickle **out);
void fv_pickle_free(fv_pickle **pickle);

/* Runs the next pickle of the text to its STOP. Fails: FORMAT, LIMIT, MEMORY. */
fv_status fv_pickle_run(fv_pickle *p, uint32_t *root);
/* Bytes of the text that were read so far. */
size_t fv_pickle_done(const fv_pickle *p);

/* The tensors of a dictionary, in its order; names are UTF-8 without NUL bytes. Fails: FORMAT (a
 * key that is not a name, a value that is not a tensor), LIMIT, MEMORY. */
fv_status fv_pickle_tensors(fv_pickle *p, uint32_t root, fv_arena *arena,
                            fv_pickle_tensor **tensors, size_t *count);
/* The strings of a list. */
fv_status fv_pickle_strings(fv_pickle *p, uint32_t root, fv_arena *arena, fv_pickle_text **strings,
                            size_t *count);

#endif

/*
 * The field "source" of a batch as documents: its rows one after the other, tokens or vectors, for
 * encoders that process all positions at once.
 *
 *     fv_documents d;
 *     fv_status s = fv_documents_make(ctx, batch, cfg->embedding, &d);
 *     if (s == FV_OK && d.packed.sequences > 0) {
 *         fv_tensor *x = fv_documents_embed(ctx, &d, embedding);          // [total, width]
 *         x = ...;
 *         s = fv_memory_from_documents(ctx, &d, fv_documents_pack(ctx, &d, x), call, out);
 *     }
 *     fv_documents_free(&d);                                              // after a failure too
 */
#ifndef FV_MODELS_PARTS_DOCUMENTS_H
#define FV_MODELS_PARTS_DOCUMENTS_H

#include "fovea/recurrent.h"
#include "models/parts/parts.h"

typedef struct fv_documents {
    const fv_field *field;
    fv_packed_sequences packed;
    int64_t *begin; /* [rows + 1]: where each row starts */
    int64_t *order; /* [total]: packed row -> row of this one */
} fv_documents;

/* `vector` is the width of an entry that is not a token. An empty batch has no sequences. Fails:
 * ARGUMENT (no such field, an empty row), MEMORY. */
fv_status fv_documents_make(fv_ctx *ctx, const fv_batch *batch, int64_t vector, fv_documents *d);
void fv_documents_free(fv_documents *d);
/* [total, width]: rows of `embedding`, or the vectors. */
fv_tensor *fv_documents_embed(fv_ctx *ctx, const fv_documents *d, fv_tensor *embedding);
/* i64 [total]: the place of each entry in its row. */
fv_tensor *fv_documents_places(fv_ctx *ctx, const fv_documents *d);
/* [total, width] in the order of the packed rows. */
fv_tensor *fv_documents_pack(fv_ctx *ctx, const fv_documents *d, fv_tensor *x);
/* The memory of packed states; its summary is their mean. */
fv_status fv_memory_from_documents(fv_ctx *ctx, const fv_documents *d, fv_tensor *packed,
                                   const fv_encode_call *call, fv_memory *out);

#endif

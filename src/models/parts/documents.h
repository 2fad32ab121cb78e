/*
 * The field "source" of a batch as documents: its rows one after the other, tokens or vectors, for
 * encoders that process all positions at once.
 *
 *     static fv_tensor *run(fv_ctx *ctx, const void *encoder, const fv_documents *d, bool training)
 *     {
 *         fv_tensor *x = fv_documents_embed(ctx, d, embedding);           // [total, width]
 *         ...
 *     }
 *     s = fv_documents_encode(ctx, cfg->embedding, run, encoder, batch, call, out);
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

/* The states [total, width] of all entries of the documents, in their order. */
typedef fv_tensor *(*fv_documents_run)(fv_ctx *ctx, const void *encoder, const fv_documents *d,
                                       bool training);

/* The memory of a batch: the states that `run` returns, and their mean as its summary. `vector` is
 * the width of an entry that is not a token. An empty batch has an empty memory, without a call of
 * `run`. Fails: ARGUMENT (no such field, an empty row), MEMORY. */
fv_status fv_documents_encode(fv_ctx *ctx, int64_t vector, fv_documents_run run,
                              const void *encoder, const fv_batch *batch,
                              const fv_encode_call *call, fv_memory *out);

/* [total, width]: rows of `embedding`, or the vectors. */
fv_tensor *fv_documents_embed(fv_ctx *ctx, const fv_documents *d, fv_tensor *embedding);
/* i64 [total]: the place of each entry in its row. */
fv_tensor *fv_documents_places(fv_ctx *ctx, const fv_documents *d);

#endif

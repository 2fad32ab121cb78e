/*
 * Transformers as a model kind.
 *
 *     kind_transformer.c        creation, folders, the table
 *     kind_transformer_run.c    losses, heads, traces
 *     kind_transformer_steps.c  alignment and search
 */
#ifndef FV_MODELS_KIND_TRANSFORMER_H
#define FV_MODELS_KIND_TRANSFORMER_H

#include "fovea/file.h"
#include "fovea/transformer.h"
#include "models/model.h"
#include "models/parts/transformer_parts.h"
#include "models/token_pairs.h"
#include "models/transformer.h"

/* `self` of the kind's functions. */
typedef struct fv_transformer_self {
    fv_transformer *model;
    fv_generation_defaults generation;
    fv_safetensors *file;           /* mapped parameters are in it; or NULL */
    fv_arena names;                 /* of classes */
    fv_transformer_decoder decoder; /* of `steps`; its cache is NULL before the first */
    fv_arena room;                  /* of the current search */
} fv_transformer_self;

fv_tensor *fv_transformer_kind_loss(fv_ctx *ctx, void *self, const fv_batch *batch,
                                    const fv_pass *pass);
fv_tensor *fv_transformer_kind_classify(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                        const fv_pass *pass);
fv_tensor *fv_transformer_kind_fill(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                    const fv_pass *pass);
fv_tensor *fv_transformer_kind_embed(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                     const fv_embedding_rule *rule);
fv_tensor *fv_transformer_kind_spans(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                     const fv_pass *pass);
int fv_transformer_kind_sites(const void *self, fv_site *out, int room);
fv_status fv_transformer_kind_trace(fv_ctx *ctx, void *self, const fv_batch *batch,
                                    const fv_pass *pass);
fv_tensor *fv_transformer_kind_align(fv_ctx *ctx, void *self, const fv_batch *batch);
fv_status fv_transformer_kind_steps(void *self, const fv_batch *inputs, fv_stepper *out);

#endif

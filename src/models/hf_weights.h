/*
 * The tensors of a file against the parameters of a model.
 *
 *     s = fv_hf_fit(file, &cfg);                    // heads: those that the file has
 *     s = fv_hf_load(file, &cfg, mapped, params);   // every parameter into the empty set
 */
#ifndef FV_MODELS_HF_WEIGHTS_H
#define FV_MODELS_HF_WEIGHTS_H

#include "fovea/file.h"
#include "fovea/transformer.h"

/* Switches the heads of an encoder on and off by what the file holds, and takes a table of
 * positions where there is one. */
fv_status fv_hf_fit(fv_ctx *ctx, const fv_safetensors *file, fv_transformer_config *cfg);

/* Fails: FORMAT (a tensor is missing, too many, of another shape or of a type that is not real),
 * IO, MEMORY, ARGUMENT (settings out of range). `wrap`: leave in the mapped file what can stay. */
fv_status fv_hf_load(fv_safetensors *file, const fv_transformer_config *cfg, bool wrap,
                     fv_params *params);

#endif

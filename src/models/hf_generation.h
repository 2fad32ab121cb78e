/* generation_config.json. */
#ifndef FV_MODELS_HF_GENERATION_H
#define FV_MODELS_HF_GENERATION_H

#include "fovea/transformer.h"

/* From the settings of a model alone, with the defaults of transformers. */
fv_generation_defaults fv_hf_generation_of(const fv_transformer_config *cfg);
/* The same, overridden by the folder's generation_config.json if there is one. */
fv_status fv_hf_generation_load(fv_ctx *ctx, const char *folder, const fv_transformer_config *cfg,
                                fv_generation_defaults *out);
fv_status fv_hf_generation_save(fv_ctx *ctx, const char *folder,
                                const fv_generation_defaults *generation);

#endif

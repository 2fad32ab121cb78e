/* The factors of longrope, as config.json has them: "short_factor": [1.0, 1.05], "long_factor": ...
 */
#ifndef FV_MODELS_HF_ROTARY_H
#define FV_MODELS_HF_ROTARY_H

#include "fovea/transformer.h"
#include "io/arena.h"

/* Where the scaling is longrope, reads its factors into `arena`. Fails: IO, FORMAT (not as many as
 * a head has pairs), LIMIT, MEMORY. */
fv_status fv_hf_rotary_load(fv_ctx *ctx, const char *config, fv_arena *arena,
                            fv_transformer_config *cfg);

#endif

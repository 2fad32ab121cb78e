/* Rotary angles for positions that are not consecutive. */
#ifndef FV_NN_ROTARY_H
#define FV_NN_ROTARY_H

#include "fovea/layers.h"

/* Whether angles depend on the length of the sequence, not on the position alone. */
bool fv_rotary_depends_on_length(const fv_rotary_config *cfg);

/* Whether a table can be made of a complete config. */
bool fv_rotary_is_sound(const fv_rotary_config *cfg);

/* [2, n, width / 2]: row i is for position[i] in a sequence of length[i]. */
fv_tensor *fv_rotary_rows(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *cfg, int64_t n,
                          const int64_t *position, const int64_t *length);

#endif

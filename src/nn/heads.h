/* Shared by the making (heads_create.c) and the running (heads.c) of multi-head attention. */
#ifndef FV_NN_HEADS_H
#define FV_NN_HEADS_H

#include "fovea/layers.h"

/* Rows of the three projections. */
void fv_heads_sizes(const fv_heads_config *cfg, int64_t size[3]);

#endif

/* Shared by heads_create.c, which creates multi-head attention, and heads.c, which runs it. */
#ifndef FV_NN_HEADS_H
#define FV_NN_HEADS_H

#include "fovea/layers.h"

/* Rows of the three projections. */
void fv_mha_sizes(const fv_mha_config *cfg, int64_t size[3]);

/* The settings alone, checked and completed: for a layer filled by hand. */
fv_status fv_mha_complete(fv_ctx *ctx, const fv_mha_config *cfg, fv_mha *heads);

#endif

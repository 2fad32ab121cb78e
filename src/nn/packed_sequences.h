/* Internals of packed sequences (fovea/recurrent.h). */
#ifndef FV_NN_PACKED_SEQUENCES_H
#define FV_NN_PACKED_SEQUENCES_H

#include "fovea/recurrent.h"

/* The table by which packed rows draw (ops/draw.h): i64 [total]. */
fv_tensor *fv_packed_numbers(fv_ctx *ctx, const fv_packed_sequences *packed);

#endif

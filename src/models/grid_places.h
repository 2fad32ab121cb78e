/* Where the cells of a grid are, as channels that convolutions and dense layers can read. */
#ifndef FV_MODELS_GRID_PLACES_H
#define FV_MODELS_GRID_PLACES_H

#include "base/ctx.h"
#include "fovea/tensor.h"

enum { FV_GRID_PLACES = 2 };

/* Two more channels for x [n, c, h, w]: the place of a cell in its row and in its column, from -1
 * to 1. Errors: MEMORY. */
fv_tensor *fv_grid_add_places(fv_ctx *ctx, fv_tensor *x);

#endif

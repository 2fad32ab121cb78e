/* LSTM and GRU cells, sixteen units at a time. */
#include "kernels/simd/cells.h"
#include "kernels/simd/register.h"

#define CELL_COST(n) (8 * (n) + 16)
#include "kernels/recurrent.inc"

void fv_simd_recurrent_register(fv_kernel_table *t) { fill_cells(t); }

/* LSTM and GRU cells by their definition. */
#include "kernels/ref/cells.h"

#define CELL_COST(n) (40 * (n))
#include "kernels/recurrent.inc"

void FV_NAME(fv_ref_recurrent_register)(fv_kernel_table *t) { fill_cells(t); }

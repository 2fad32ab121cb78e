/* The memory of a Neural Turing Machine, one number at a time; see kernels/ntm.h. */
#include "kernels/ref/one_lane.h"

#include "kernels/ntm.inc"

void FV_NAME(fv_ref_ntm_register)(fv_kernel_table *t) { fill_ntm(t); }

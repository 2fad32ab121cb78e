/* The memory of a Neural Turing Machine, sixteen slots at a time; see kernels/ntm.h. */
#include "kernels/ref/real.h"
#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

#define LANES(sum)          vf sum = v_zero()
#define LANES_ADD(sum, ...) (sum) = v_add(sum, v_keep(count, (__VA_ARGS__), v_zero()))
#define LANES_SUM(sum)      v_reduce_sum(sum)
#define V_ROW_MAX(x, n)     v_row_max(x, n)
#include "kernels/ntm.inc"

void fv_simd_ntm_register(fv_kernel_table *t) { fill_ntm(t); }

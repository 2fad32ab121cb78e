/* bf16 attention at level amx: on tiles. */
#include "kernels/simd/attention_simd.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/attention_tiles_grad.h"
#include "kernels/simd/register.h"

void fv_simd_attention_amx_register(fv_kernel_table *t)
{
    tiles_register(t);
    tiles_grad_register(t);
}

#endif

/* bf16 attention on tiles that are emulated, for tests on CPUs that have none. */
#include "kernels/simd/attention_simd.h"

#if defined(FV_TEST_HOOKS) && FV_SIMD_LEVEL == 3

#define TILE_EMULATED

#include "kernels/simd/attention_tiles_grad.h"
#include "kernels/simd/register.h"

void fv_simd_attention_emulated_register(fv_kernel_table *t)
{
    tiles_register(t);
    t->level = FV_SIMD_AMX;
    tiles_grad_register(t);
}

#endif

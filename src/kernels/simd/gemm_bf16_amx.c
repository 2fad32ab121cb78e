/* Products at level amx: bf16 ones on tiles, the others as at level avx512. */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/gemm_bf16.h"
#include "kernels/simd/gemm_bf16_tiles.h"
#include "kernels/simd/register.h"

void fv_simd_gemm_amx(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gemm *g = args;
    (g->bf16 ? bf16_gemm : fv_simd_gemm)(exec, ptr, args);
}

void fv_simd_amx_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GEMM][FV_F32] = fv_simd_gemm_amx;
    fv_simd_attention_amx_register(t);
}

#endif

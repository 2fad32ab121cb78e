/* bf16 products on tiles that are emulated, for tests of their packing, tiling and arithmetic on
 * CPUs that have none. */
#include "kernels/simd/gemm_simd.h"

#if defined(FV_TEST_HOOKS) && FV_SIMD_LEVEL != 1

#define TILE_EMULATED
#include "kernels/gemm_bf16.h"
#include "kernels/simd/gemm_bf16_tiles.h"

void fv_simd_gemm_bf16_emulated(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

#endif

/* bf16 products with vdpbf16ps, which adds both products of a pair to each float sum, the second
 * first: twice the rate of fused multiply-adds. */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/half_simd.h"

enum { BF16_PASSES = 1 };
typedef __m512bh bf16_vec;

FV_INLINE bf16_vec bf16_operand(fv_words words, const int pass)
{
    (void)pass;
    return (bf16_vec)words;
}
FV_INLINE fv_vec bf16_add(fv_vec sum, bf16_vec x, bf16_vec y)
{
    return _mm512_dpbf16_ps(sum, x, y);
}
FV_INLINE __m256i bf16_round(vf x) { return (__m256i)_mm512_cvtneps_pbh(x); }

#include "kernels/simd/bf16_tile.h"
#include "kernels/simd/gemm_bf16.h"

void fv_simd_gemm_bf16_dot(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

#endif

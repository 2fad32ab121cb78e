/* Products of bf16 pairs by vdpbf16ps, which adds both products of a pair to each float of a sum,
 * the second one first: twice the rate of multiply-adds. */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/half_simd.h"

enum { PAIR_PASSES = 1 };
typedef __m512bh pair_vec;

FV_INLINE pair_vec pair_part(fv_words words, const int pass)
{
    (void)pass;
    return (pair_vec)words;
}
FV_INLINE fv_vec pair_add(fv_vec sum, pair_vec x, pair_vec y)
{
    return _mm512_dpbf16_ps(sum, x, y);
}
FV_INLINE __m256i pair_round(vf x) { return (__m256i)_mm512_cvtneps_pbh(x); }

#include "kernels/simd/gemm_pairs.h"

void fv_simd_gemm_bf16(const fv_exec *exec, void *const *ptr, const void *args)
{
    pairs_gemm(exec, ptr, args);
}

#endif

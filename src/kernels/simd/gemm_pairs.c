/* Products of bf16 pairs by multiply-adds, for CPUs without an instruction of their own: a pair is
 * widened in registers, its second half first. */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"

enum { PAIR_PASSES = 2 };
typedef fv_vec pair_vec;

#if FV_SIMD_LEVEL == 3
typedef __m512i pair_words;
FV_INLINE pair_words pair_load(const uint32_t *p) { return _mm512_loadu_si512((const void *)p); }
FV_INLINE pair_words pair_spread(uint32_t word) { return _mm512_set1_epi32((int)word); }
FV_INLINE pair_vec pair_part(pair_words words, const int pass)
{
    const pair_words upper = _mm512_set1_epi32((int)0xffff0000u);
    return _mm512_castsi512_ps(pass == 0 ? _mm512_and_si512(words, upper)
                                         : _mm512_slli_epi32(words, 16));
}
#else
typedef __m256i pair_words;
FV_INLINE pair_words pair_load(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
FV_INLINE pair_words pair_spread(uint32_t word) { return _mm256_set1_epi32((int)word); }
FV_INLINE pair_vec pair_part(pair_words words, const int pass)
{
    const pair_words upper = _mm256_set1_epi32((int)0xffff0000u);
    return _mm256_castsi256_ps(pass == 0 ? _mm256_and_si256(words, upper)
                                         : _mm256_slli_epi32(words, 16));
}
#endif

FV_INLINE fv_vec pair_add(fv_vec sum, pair_vec x, pair_vec y) { return fv_vec_fma(x, y, sum); }
FV_INLINE __m256i pair_round(vf x) { return v_to_bf16(x); }

#include "kernels/simd/gemm_pairs.h"

void FV_GEMM_NAME(gemm_pairs)(const fv_exec *exec, void *const *ptr, const void *args)
{
    pairs_gemm(exec, ptr, args);
}

/* Products of bf16 pairs by multiply-adds, for CPUs without an instruction of their own: a pair is
 * widened in registers, its second half first. */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"

enum { PAIR_PASSES = 2 };
typedef fv_vec pair_vec;

FV_INLINE pair_vec pair_part(fv_words words, const int pass)
{
    return pass == 0 ? fv_words_second(words) : fv_words_first(words);
}
FV_INLINE fv_vec pair_add(fv_vec sum, pair_vec x, pair_vec y) { return fv_vec_fma(x, y, sum); }
FV_INLINE __m256i pair_round(vf x) { return v_to_bf16(x); }

#include "kernels/simd/gemm_pairs.h"

void fv_simd_gemm_pairs(const fv_exec *exec, void *const *ptr, const void *args)
{
    pairs_gemm(exec, ptr, args);
}

/* bf16 products with fused multiply-adds, for CPUs without bf16 dot products: each pair is widened
 * in registers, its second half first. */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"

enum { BF16_PASSES = 2 };
typedef fv_vec bf16_vec;

FV_INLINE bf16_vec bf16_operand(fv_words words, const int pass)
{
    return pass == 0 ? fv_words_second(words) : fv_words_first(words);
}
FV_INLINE fv_vec bf16_add(fv_vec sum, bf16_vec x, bf16_vec y) { return fv_vec_fma(x, y, sum); }
FV_INLINE v_words bf16_round(vf x) { return v_to_bf16(x); }

#include "kernels/simd/bf16_tile.h"
#include "kernels/simd/gemm_bf16.h"

void fv_simd_gemm_bf16_fma(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

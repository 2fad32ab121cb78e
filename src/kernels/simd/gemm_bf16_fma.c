/* bf16 products with fused multiply-adds, for CPUs without bf16 dot products: pairs are packed as
 * two floats, the second first, and the tile is that of a product of floats. Widening pairs in the
 * tile instead would need more registers than AVX2 has. */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"

enum { BF16_WORDS = 2 };
#include "kernels/simd/bf16_tile.h"

FV_INLINE v_words bf16_round(vf x) { return v_to_bf16(x); }

static void bf16_tile_run(const bf16_tile *t, int rows)
{
    const fv_tile floats = {.k = t->words,
                            .a = (const float *)(const void *)t->a,
                            .a_row = t->a_row,
                            .a_col = t->a_col,
                            .b = (const float *)(const void *)t->b,
                            .b_row = FV_TILE_COLS,
                            .from = t->from,
                            .from_row = t->from_row,
                            .c = t->c,
                            .c_row = t->c_row};
    fv_gemm_tile(&floats, rows, FV_TILE_COLS);
}

#include "kernels/simd/gemm_bf16.h"

void fv_simd_gemm_bf16_fma(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

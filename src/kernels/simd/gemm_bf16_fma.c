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

enum { BF16_FEW_WORDS = 2, BF16_FEW_SUMS = FV_SIMD_LEVEL == 2 ? 12 : 24 };
typedef struct bf16_pair {
    fv_vec first, second;
} bf16_pair;
FV_INLINE bf16_pair bf16_pair_of(fv_vec first, fv_vec second) { return (bf16_pair){first, second}; }
FV_INLINE bf16_pair bf16_pair_of_words(fv_words words)
{
    return bf16_pair_of(fv_words_first(words), fv_words_second(words));
}
FV_INLINE bf16_part bf16_part_add(bf16_part part, const uint32_t *a, bf16_pair pair)
{
    const float *x = (const float *)(const void *)a;
    return fv_vec_fma(fv_vec_set(x[1]), pair.first,
                      fv_vec_fma(fv_vec_set(x[0]), pair.second, part));
}

#include "kernels/simd/gemm_bf16.h"

void fv_simd_gemm_bf16_fma(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

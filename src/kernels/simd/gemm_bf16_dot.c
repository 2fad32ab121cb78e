/* bf16 products with vdpbf16ps, which adds both products of a pair to each float sum, the second
 * first: twice the rate of fused multiply-adds. */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/half_simd.h"

enum { BF16_WORDS = 1 };
#include "kernels/simd/bf16_tile.h"

FV_INLINE __m256i bf16_round(vf x) { return (__m256i)_mm512_cvtneps_pbh(x); }

/* `rows` is a compile-time constant of each instance. */
FV_INSTANCE void bf16_tile_of(const bf16_tile *t, const int rows)
{
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_TILE_VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            sum[i][v] =
                t->from ? fv_vec_load(t->from + i * t->from_row + v * FV_VEC) : fv_vec_zero();
    }
    /* Two pointers reach six rows with scaled-index addressing. */
    const uint32_t *a = t->a, *a3 = t->a + 3 * a_row, *b = t->b;
    for (int64_t word = t->words; word > 0; word--) {
        __m512bh row[FV_TILE_VECS];
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            row[v] = (__m512bh)fv_words_load(b + v * FV_VEC);
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            const uint32_t *at = i < 3 ? a + i * a_row : a3 + (i - 3) * a_row;
            const __m512bh x = (__m512bh)fv_words_set(*at);
            FV_UNROLL
            for (int v = 0; v < FV_TILE_VECS; v++)
                sum[i][v] = _mm512_dpbf16_ps(sum[i][v], x, row[v]);
        }
        a += a_col;
        a3 += a_col;
        b += FV_TILE_COLS;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

#define BF16_TILE(rows)                                                                            \
    static void pair_tile_##rows(const bf16_tile *t) { bf16_tile_of(t, rows); }
BF16_TILE(1)
BF16_TILE(2)
BF16_TILE(3)
BF16_TILE(4)
BF16_TILE(5)
BF16_TILE(6)

static void bf16_tile_run(const bf16_tile *t, int rows)
{
    static void (*const by_rows[FV_GEMM_TILE_ROWS])(const bf16_tile *) = {
        pair_tile_1, pair_tile_2, pair_tile_3, pair_tile_4, pair_tile_5, pair_tile_6};
    by_rows[rows - 1](t);
}

enum { BF16_FEW_WORDS = 1, BF16_FEW_SUMS = 24 };
typedef fv_words bf16_pair;
FV_INLINE bf16_pair bf16_pair_of(fv_vec first, fv_vec second)
{
    return fv_words_of_bf16(first, second);
}
FV_INLINE bf16_pair bf16_pair_of_words(fv_words words) { return words; }
FV_INLINE bf16_part bf16_part_add(bf16_part part, const uint32_t *a, bf16_pair pair)
{
    return _mm512_dpbf16_ps(part, (__m512bh)fv_words_set(*a), (__m512bh)pair);
}

#include "kernels/simd/gemm_bf16.h"

void fv_simd_gemm_bf16_dot(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_gemm(exec, ptr, args);
}

#endif

/*
 * Products with weights of few bits (kernels/weights.h). A handful of rows reads the panels where
 * they lie and widens them in registers: a chain of multiply-adds over the widened weights, as
 * everywhere. More rows have the panels widened once, into the panels that the tile reads.
 */
#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

#if FV_SIMD_LEVEL == 3

typedef __m512i bits;
FV_INLINE bits load_pairs(const uint32_t *p) { return _mm512_loadu_si512((const void *)p); }
FV_INLINE fv_vec lower(bits x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
FV_INLINE fv_vec upper(bits x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
FV_INLINE fv_vec load_whole(const signed char *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

#else

typedef __m256i bits;
FV_INLINE bits load_pairs(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
FV_INLINE fv_vec lower(bits x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
FV_INLINE fv_vec upper(bits x)
{
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)));
}
FV_INLINE fv_vec load_whole(const signed char *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

#endif

/* Sums of `rows` rows over `vecs` vectors of a panel's columns; both are constants of the
 * instance, chosen so that the sums stay in registers. */
FV_INSTANCE void bf16_sums(const fv_low_rows *t, const int rows, const int vecs, int col)
{
    const uint32_t *b = (const uint32_t *)(const void *)t->panel + col;
    const float *a = t->a;
    fv_vec sum[FV_GEMM_STRIP][FV_GEMM_PANEL / FV_VEC];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_zero();
    }
    for (int64_t k = t->k; k > 1; k -= 2) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const bits pair = load_pairs(b + v * FV_VEC);
            const fv_vec first = lower(pair), second = upper(pair);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                sum[i][v] = fv_vec_fma(fv_vec_set(a[i * t->a_row]), first, sum[i][v]);
                sum[i][v] = fv_vec_fma(fv_vec_set(a[i * t->a_row + t->a_col]), second, sum[i][v]);
            }
        }
        a += 2 * t->a_col;
        b += FV_GEMM_PANEL;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            if (t->k % 2)
                sum[i][v] = fv_vec_fma(fv_vec_set(a[i * t->a_row]),
                                       lower(load_pairs(b + v * FV_VEC)), sum[i][v]);
            fv_vec_store(t->sum + i * FV_GEMM_PANEL + col + v * FV_VEC, sum[i][v]);
        }
    }
}

FV_INSTANCE void i8_sums(const fv_low_rows *t, const int rows, const int vecs, int col)
{
    const signed char *b = (const signed char *)t->panel + FV_I8_SCALE_BYTES + col;
    const float *a = t->a;
    fv_vec sum[FV_GEMM_STRIP][FV_GEMM_PANEL / FV_VEC];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_zero();
    }
    for (int64_t k = t->k; k > 0; k--) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_vec w = load_whole(b + v * FV_VEC);
            FV_UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = fv_vec_fma(fv_vec_set(a[i * t->a_row]), w, sum[i][v]);
        }
        a += t->a_col;
        b += FV_GEMM_PANEL;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            fv_vec_store(t->sum + i * FV_GEMM_PANEL + col + v * FV_VEC, sum[i][v]);
    }
}

/* Columns of the panel that are met together: as many vectors as leave the sums in registers. */
#if FV_SIMD_LEVEL == 3
enum { VECS_1 = 4, VECS_2 = 4, VECS_3 = 4, VECS_4 = 4, VECS_5 = 4, VECS_6 = 4 };
#else
enum { VECS_1 = 8, VECS_2 = 4, VECS_3 = 4, VECS_4 = 2, VECS_5 = 2, VECS_6 = 2 };
#endif

#define ROWS(rows)                                                                                 \
    static void rows_##rows(const fv_low_rows *t, fv_weight_form form)                             \
    {                                                                                              \
        for (int col = 0; col < FV_GEMM_PANEL; col += VECS_##rows * FV_VEC) {                      \
            if (form == FV_WEIGHT_BF16)                                                            \
                bf16_sums(t, rows, VECS_##rows, col);                                              \
            else                                                                                   \
                i8_sums(t, rows, VECS_##rows, col);                                                \
        }                                                                                          \
    }
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)

void FV_GEMM_NAME(low_rows)(const fv_low_rows *t, fv_weight_form form, int rows)
{
    static void (*const by_rows[FV_GEMM_STRIP])(const fv_low_rows *, fv_weight_form) = {
        rows_1, rows_2, rows_3, rows_4, rows_5, rows_6};
    by_rows[rows - 1](t, form);
}

void FV_GEMM_NAME(widen)(fv_weight_form form, const char *panel, int64_t k0, int64_t depth,
                         float *out)
{
    const int64_t slice = depth * FV_TILE_COLS; /* floats of one of the level's own panels */
    for (int64_t k = 0; k < depth; k++)
        for (int col = 0; col < FV_GEMM_PANEL; col += FV_VEC) {
            fv_vec w;
            if (form == FV_WEIGHT_BF16) {
                const bits pair = load_pairs((const uint32_t *)(const void *)panel +
                                             (k0 + k) / 2 * FV_GEMM_PANEL + col);
                w = (k0 + k) % 2 ? upper(pair) : lower(pair);
            } else {
                w = load_whole((const signed char *)panel + FV_I8_SCALE_BYTES +
                               (k0 + k) * FV_GEMM_PANEL + col);
            }
            fv_vec_store(out + col / FV_TILE_COLS * slice + k * FV_TILE_COLS + col % FV_TILE_COLS,
                         w);
        }
}

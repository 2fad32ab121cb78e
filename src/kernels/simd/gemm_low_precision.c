/*
 * Products with low-precision weights (kernels/weights.h). For a few rows the panels are read in
 * place and converted to float in registers; the chain of multiply-adds is the same as everywhere.
 * For more rows the panels are converted once, into the panels that the tile reads.
 */
#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

/* Sums of `rows` rows over `vecs` vectors of a panel's columns. Both are compile-time constants,
 * chosen so that the sums stay in registers. */
FV_INSTANCE void bf16_sums(const fv_low_precision_rows *t, const int rows, const int vecs, int col)
{
    const uint32_t *b = (const uint32_t *)(const void *)t->panel + col;
    const float *a = t->a;
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_GEMM_PANEL / FV_VEC];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_zero();
    }
    for (int64_t k = t->k; k > 1; k -= 2) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_words pair = fv_words_load(b + v * FV_VEC);
            const fv_vec first = fv_words_first(pair), second = fv_words_second(pair);
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
                                       fv_words_first(fv_words_load(b + v * FV_VEC)), sum[i][v]);
            fv_vec_store(t->sum + i * FV_GEMM_PANEL + col + v * FV_VEC, sum[i][v]);
        }
    }
}

FV_INSTANCE void i8_sums(const fv_low_precision_rows *t, const int rows, const int vecs, int col)
{
    const signed char *b = (const signed char *)t->panel + FV_I8_SCALE_BYTES + col;
    const float *a = t->a;
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_GEMM_PANEL / FV_VEC];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_zero();
    }
    for (int64_t k = t->k; k > 0; k--) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_vec w = fv_vec_load_i8(b + v * FV_VEC);
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

/* Vectors of columns processed together: as many as keep the sums in registers. */
#if FV_SIMD_LEVEL == 3
enum { VECS_1 = 4, VECS_2 = 4, VECS_3 = 4, VECS_4 = 4, VECS_5 = 4, VECS_6 = 4 };
#elif FV_SIMD_LEVEL == 2
enum { VECS_1 = 8, VECS_2 = 4, VECS_3 = 4, VECS_4 = 2, VECS_5 = 2, VECS_6 = 2 };
#else
enum { VECS_1 = 16, VECS_2 = 8, VECS_3 = 8, VECS_4 = 4, VECS_5 = 4, VECS_6 = 4 };
#endif

#define ROWS(rows)                                                                                 \
    static void rows_##rows(const fv_low_precision_rows *t, fv_weight_form form)                   \
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

void fv_gemm_low_precision_rows(const fv_low_precision_rows *t, fv_weight_form form, int rows)
{
    static void (*const by_rows[FV_GEMM_TILE_ROWS])(const fv_low_precision_rows *,
                                                    fv_weight_form) = {rows_1, rows_2, rows_3,
                                                                       rows_4, rows_5, rows_6};
    by_rows[rows - 1](t, form);
}

void fv_gemm_widen_panel(fv_weight_form form, const char *panel, int64_t k0, int64_t depth,
                         float *out)
{
    const int64_t slice = depth * FV_TILE_COLS; /* floats of one panel of this level */
    for (int64_t k = 0; k < depth; k++)
        for (int col = 0; col < FV_GEMM_PANEL; col += FV_VEC) {
            fv_vec w;
            if (form == FV_WEIGHT_BF16) {
                const fv_words pair = fv_words_load((const uint32_t *)(const void *)panel +
                                                    (k0 + k) / 2 * FV_GEMM_PANEL + col);
                w = (k0 + k) % 2 ? fv_words_second(pair) : fv_words_first(pair);
            } else {
                w = fv_vec_load_i8((const signed char *)panel + FV_I8_SCALE_BYTES +
                                   (k0 + k) * FV_GEMM_PANEL + col);
            }
            fv_vec_store(out + col / FV_TILE_COLS * slice + k * FV_TILE_COLS + col % FV_TILE_COLS,
                         w);
        }
}

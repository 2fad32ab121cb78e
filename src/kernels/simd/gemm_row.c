/*
 * One row times a matrix, limited by the speed at which B streams in. With packed panels the sums
 * stay in registers; otherwise up to a thousand sums stay in L1 while B is read row by row.
 */
#include "kernels/simd/gemm_simd.h"

enum { ROWS_AT_ONCE = 4, PANEL_VECS = FV_GEMM_PANEL / FV_VEC };

void fv_gemm_row_by_panel(int64_t k, const float *a, int64_t a_col, const float *panel, float *sum)
{
    fv_vec s[PANEL_VECS];
    FV_UNROLL
    for (int v = 0; v < PANEL_VECS; v++)
        s[v] = fv_vec_load(sum + v * FV_VEC);
    for (int64_t i = 0; i < k; i++) {
        const fv_vec x = fv_vec_set(a[i * a_col]);
        FV_UNROLL
        for (int v = 0; v < PANEL_VECS; v++)
            s[v] = fv_vec_fma(x, fv_vec_load(panel + i * FV_GEMM_PANEL + v * FV_VEC), s[v]);
    }
    FV_UNROLL
    for (int v = 0; v < PANEL_VECS; v++)
        fv_vec_store(sum + v * FV_VEC, s[v]);
}

/* Adds `rows` rows of B to the sums, loading and storing each sum once. */
FV_INLINE void add_rows(const int rows, int64_t cols, const float *a, int64_t a_col, const float *b,
                        int64_t b_row, float *sum)
{
    fv_vec x[ROWS_AT_ONCE];
    FV_UNROLL
    for (int i = 0; i < rows; i++)
        x[i] = fv_vec_set(a[i * a_col]);
    int64_t j = 0;
    for (; j + FV_VEC <= cols; j += FV_VEC) {
        fv_vec s = fv_vec_load(sum + j);
        FV_UNROLL
        for (int i = 0; i < rows; i++)
            s = fv_vec_fma(x[i], fv_vec_load(b + i * b_row + j), s);
        fv_vec_store(sum + j, s);
    }
    if (j == cols) return;
    const int tail = (int)(cols - j);
    fv_vec s = fv_vec_load_part(sum + j, tail);
    FV_UNROLL
    for (int i = 0; i < rows; i++)
        s = fv_vec_fma(x[i], fv_vec_load_part(b + i * b_row + j, tail), s);
    fv_vec_store_part(sum + j, tail, s);
}

void fv_gemm_row_by_matrix(int64_t k, int64_t cols, const float *a, int64_t a_col, const float *b,
                           int64_t b_row, float *sum)
{
    int64_t i = 0;
    for (; i + ROWS_AT_ONCE <= k; i += ROWS_AT_ONCE)
        add_rows(ROWS_AT_ONCE, cols, a + i * a_col, a_col, b + i * b_row, b_row, sum);
    for (; i < k; i++)
        add_rows(1, cols, a + i * a_col, a_col, b + i * b_row, b_row, sum);
}

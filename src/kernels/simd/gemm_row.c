/*
 * One row times an unpacked matrix: bound by how fast B streams in. The sums of up to a thousand
 * columns wait in L1 while B is read the way it lies.
 */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/transpose.h"

enum { ROWS_AT_ONCE = 8 };

/* `rows` rows of B into the sums, each sum loaded and stored once. */
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

void FV_GEMM_NAME(row_by_matrix)(int64_t k, int64_t cols, const float *a, int64_t a_col,
                                 const float *b, int64_t b_row, float *sum)
{
    int64_t i = 0;
    for (; i + ROWS_AT_ONCE <= k; i += ROWS_AT_ONCE)
        add_rows(ROWS_AT_ONCE, cols, a + i * a_col, a_col, b + i * b_row, b_row, sum);
    for (; i < k; i++)
        add_rows(1, cols, a + i * a_col, a_col, b + i * b_row, b_row, sum);
}

/* `groups` times eight columns at once: independent chains hide the latency of an FMA. */
FV_INLINE void add_columns(const int groups, int64_t k, const float *a, int64_t a_col,
                           const float *b, int64_t b_col, float *sum)
{
    __m256 s[4];
    FV_UNROLL
    for (int v = 0; v < groups; v++)
        s[v] = _mm256_loadu_ps(sum + 8 * v);
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        FV_UNROLL
        for (int v = 0; v < groups; v++) {
            __m256 t[4];
            fv_transpose_8x4(b + 8 * v * b_col + i, b_col, t);
            FV_UNROLL
            for (int r = 0; r < 4; r++)
                s[v] = _mm256_fmadd_ps(_mm256_set1_ps(a[(i + r) * a_col]), t[r], s[v]);
        }
    }
    for (; i < k; i++) {
        FV_UNROLL
        for (int v = 0; v < groups; v++) {
            const float *p = b + 8 * v * b_col + i;
            const __m256 row =
                _mm256_setr_ps(p[0], p[b_col], p[2 * b_col], p[3 * b_col], p[4 * b_col],
                               p[5 * b_col], p[6 * b_col], p[7 * b_col]);
            s[v] = _mm256_fmadd_ps(_mm256_set1_ps(a[i * a_col]), row, s[v]);
        }
    }
    FV_UNROLL
    for (int v = 0; v < groups; v++)
        _mm256_storeu_ps(sum + 8 * v, s[v]);
}

static float add_column(int64_t k, const float *a, int64_t a_col, const float *b, float start)
{
    __m128 s = _mm_set_ss(start);
    for (int64_t i = 0; i < k; i++)
        s = _mm_fmadd_ss(_mm_set_ss(a[i * a_col]), _mm_set_ss(b[i]), s);
    return _mm_cvtss_f32(s);
}

void FV_GEMM_NAME(row_by_transpose)(int64_t k, int64_t cols, const float *a, int64_t a_col,
                                    const float *b, int64_t b_col, float *sum)
{
    int64_t j = 0;
    for (; j + 32 <= cols; j += 32)
        add_columns(4, k, a, a_col, b + j * b_col, b_col, sum + j);
    for (; j + 8 <= cols; j += 8)
        add_columns(1, k, a, a_col, b + j * b_col, b_col, sum + j);
    for (; j < cols; j++)
        sum[j] = add_column(k, a, a_col, b + j * b_col, sum[j]);
}

/* The sums of A's rows beside a product (FV_GEMM_AUX_ROW_SUMS), in the lanes of every other sum. */
#include "kernels/half.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/simd.h"

enum { AHEAD = 16 /* columns of A, prefetched: the hardware prefetcher does not follow them */ };

/* Column-major A: adds one column to the lane of its k. */
static void add_column(int64_t rows, const float *a, float *lane)
{
    V_LOOP(rows, 0, v_store(lane + i, count, v_add(v_load(lane + i, count), v_load(a + i, count))));
}

static void add_half_column(int64_t rows, const uint16_t *a, float *lane)
{
    V_LOOP(rows, 0,
           v_store(lane + i, count,
                   v_add(v_load(lane + i, count), v_load_half(FV_BF16, a + i, count))));
}

static float element(const fv_row_sums *s, int64_t at)
{
    return s->bf16 ? fv_bf16_to_f32(((const uint16_t *)s->a)[at]) : ((const float *)s->a)[at];
}

void fv_gemm_add_row_sums(const fv_row_sums *s, int64_t k0, int64_t k)
{
    if (k0 == 0) memset(s->lanes, 0, (size_t)(FV_LANES * s->rows) * sizeof *s->lanes);
    for (int64_t i = k0; i < k0 + k; i++) {
        float *lane = s->lanes + i % FV_LANES * s->rows;
        if (s->a_row != 1) {
            for (int64_t row = 0; row < s->rows; row++)
                lane[row] += element(s, i * s->a_col + row * s->a_row);
            continue;
        }
        if (s->bf16) {
            add_half_column(s->rows, (const uint16_t *)s->a + i * s->a_col, lane);
            continue;
        }
        const float *a = (const float *)s->a + i * s->a_col;
        if (i + AHEAD < k0 + k)
            for (int64_t row = 0; row < s->rows; row += FV_LINE)
                fv_prefetch_l1(a + AHEAD * s->a_col + row);
        add_column(s->rows, a, lane);
    }
}

void fv_gemm_join_row_sums(const fv_row_sums *s)
{
    float *lane = s->lanes;
    for (int64_t width = FV_LANES / 2; width; width /= 2)
        for (int64_t k = 0; k < width; k++)
            add_column(s->rows, lane + (k + width) * s->rows, lane + k * s->rows);
    memcpy(s->out, lane, (size_t)s->rows * sizeof *lane);
}

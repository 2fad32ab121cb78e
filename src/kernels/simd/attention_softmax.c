/* Scores to weights: the softmax with running maxima that the forward passes share. */
#include "kernels/simd/attention_simd.h"

float fv_attn_top(const float *s, int64_t cols, float most)
{
    vf top[2] = {v_set(most), v_set(most)};
    int64_t c = 0;
    for (; c + 2 * FV_LANES <= cols; c += 2 * FV_LANES) {
        top[0] = v_max(v_load(s + c, FV_LANES), top[0]);
        top[1] = v_max(v_load(s + c + FV_LANES, FV_LANES), top[1]);
    }
    if (c < cols) top[0] = v_max(v_load(s + c, FV_LANES), top[0]);
    return v_join_max(v_max(top[0], top[1]));
}

/* The scores of one vector become weights, which are returned as well. */
V_INLINE vf weigh(float *s, vf down)
{
    const vf p = fv_attn_exp2(v_sub(v_load(s, FV_LANES), down));
    v_store(s, FV_LANES, p);
    return p;
}

V_INLINE float weigh_row(float *s, int64_t cols, float shift)
{
    const vf down = v_set(shift);
    vf sum = v_zero();
    for (int64_t c = 0; c < cols; c += FV_LANES)
        sum = v_add(sum, weigh(s + c, down));
    return v_join(sum);
}

/* Weights of two rows, and their sums. Two keep the units busy that one, a chain of ten operations
 * a vector, would leave waiting. */
V_INLINE void weigh_pair(float *s, float *t, int64_t cols, const float *shift, float *sums)
{
    const vf down_s = v_set(shift[0]), down_t = v_set(shift[1]);
    vf sum_s = v_zero(), sum_t = v_zero();
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        sum_s = v_add(sum_s, weigh(s + c, down_s));
        sum_t = v_add(sum_t, weigh(t + c, down_t));
    }
    sums[0] = v_join(sum_s);
    sums[1] = v_join(sum_t);
}

void fv_attn_softmax(float *s, int64_t s_row, int rows, int64_t cols, float *most, float *sum,
                     float *fade)
{
    float shift[FV_LANES] = {0}, added[FV_LANES], before[FV_LANES] = {0};
    for (int i = 0; i < rows; i++) {
        before[i] = most[i];
        most[i] = fv_attn_top(s + i * s_row, cols, most[i]);
        shift[i] = most[i] == -INFINITY ? 0 : most[i];
    }
    const vf drop = v_sub(v_load(before, FV_LANES), v_load(shift, FV_LANES));
    v_store(fade, FV_LANES, fv_attn_exp2(drop));
    int i = 0;
    for (float *row = s; i + 2 <= rows; i += 2, row += 2 * s_row)
        weigh_pair(row, row + s_row, cols, shift + i, added + i);
    if (i < rows) added[i] = weigh_row(s + i * s_row, cols, shift[i]);
    for (i = 0; i < rows; i++)
        sum[i] = fmaf(sum[i], fade[i], added[i]);
}

void fv_attn_drop(const fv_attn_job *job, const fv_attn_row *row, int64_t first, int64_t cols,
                  float *keep, float *p)
{
    fv_attn_keep(job, row, first, cols, keep);
    for (int64_t c = 0; c < cols; c += FV_LANES)
        v_store(p + c, FV_LANES, v_mul(v_load(p + c, FV_LANES), v_load(keep + c, FV_LANES)));
}

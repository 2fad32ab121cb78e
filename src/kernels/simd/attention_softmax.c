/* The softmax with a running maximum that the forward passes share. */
#include "kernels/simd/attention_simd.h"

float fv_attn_row_max(const float *s, int64_t cols, float row_max)
{
    vf largest[2] = {v_set(row_max), v_set(row_max)};
    int64_t c = 0;
    for (; c + 2 * FV_LANES <= cols; c += 2 * FV_LANES) {
        largest[0] = v_max(v_load(s + c, FV_LANES), largest[0]);
        largest[1] = v_max(v_load(s + c + FV_LANES, FV_LANES), largest[1]);
    }
    if (c < cols) largest[0] = v_max(v_load(s + c, FV_LANES), largest[0]);
    return v_reduce_max(v_max(largest[0], largest[1]));
}

/* Turns the scores of one vector into weights, and returns them. */
V_INLINE vf exp_vector(float *s, vf offset)
{
    const vf p = fv_attn_exp2(v_sub(v_load(s, FV_LANES), offset));
    v_store(s, FV_LANES, p);
    return p;
}

V_INLINE float exp_row(float *s, int64_t cols, float shift)
{
    const vf offset = v_set(shift);
    vf sum = v_zero();
    for (int64_t c = 0; c < cols; c += FV_LANES)
        sum = v_add(sum, exp_vector(s + c, offset));
    return v_reduce_sum(sum);
}

/* Weights of two rows, and their sums. Two independent rows keep the execution units busy, where a
 * single chain of ten operations per vector would wait. */
V_INLINE void exp_two_rows(float *s, float *t, int64_t cols, const float *shift, float *sums)
{
    const vf offset_s = v_set(shift[0]), offset_t = v_set(shift[1]);
    vf sum_s = v_zero(), sum_t = v_zero();
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        sum_s = v_add(sum_s, exp_vector(s + c, offset_s));
        sum_t = v_add(sum_t, exp_vector(t + c, offset_t));
    }
    sums[0] = v_reduce_sum(sum_s);
    sums[1] = v_reduce_sum(sum_t);
}

void fv_attn_softmax(float *s, int64_t s_row, int rows, int64_t cols, float *row_max, float *sum,
                     float *rescale)
{
    float shift[FV_LANES] = {0}, added[FV_LANES], previous[FV_LANES] = {0};
    for (int i = 0; i < rows; i++) {
        previous[i] = row_max[i];
        row_max[i] = fv_attn_row_max(s + i * s_row, cols, row_max[i]);
        shift[i] = row_max[i] == -INFINITY ? 0 : row_max[i];
    }
    const vf decrease = v_sub(v_load(previous, FV_LANES), v_load(shift, FV_LANES));
    v_store(rescale, FV_LANES, fv_attn_exp2(decrease));
    int i = 0;
    for (float *row = s; i + 2 <= rows; i += 2, row += 2 * s_row)
        exp_two_rows(row, row + s_row, cols, shift + i, added + i);
    if (i < rows) added[i] = exp_row(s + i * s_row, cols, shift[i]);
    for (i = 0; i < rows; i++)
        sum[i] = fmaf(sum[i], rescale[i], added[i]);
}

void fv_attn_apply_dropout(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                           int64_t cols, float *keep, float *p)
{
    fv_attn_dropout_factors(job, row, first, cols, keep);
    for (int64_t c = 0; c < cols; c += FV_LANES)
        v_store(p + c, FV_LANES, v_mul(v_load(p + c, FV_LANES), v_load(keep + c, FV_LANES)));
}

void fv_attn_finish_sums(const float *row_max, const float *sum, int64_t rows, float deferred_scale,
                         float *inverse, float *lse)
{
    float logs[FV_LANES];
    for (int64_t r = 0; r < rows; r += FV_LANES) {
        const int count = (int)fv_attn_min(FV_LANES, rows - r);
        const vf sums = v_load(sum + r, count), one = v_set(1);
        const vf by = v_select(v_eq(sums, v_zero()), one, sums);
        v_store(inverse + r, FV_LANES, v_div(one, by));
        if (!lse) continue;
        v_store(logs, FV_LANES, v_log(by));
        for (int64_t i = r; i < r + count; i++) {
            const float scaled_max = row_max[i] * deferred_scale; /* rounded, as in the softmax */
            const double shift = row_max[i] == -INFINITY ? 0 : (double)scaled_max * FV_ATTN_LN2;
            lse[i] = sum[i] == 0 ? -INFINITY : (float)(shift + (double)logs[i - r]);
        }
    }
}

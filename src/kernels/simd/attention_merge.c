/*
 * Merges the partial results of a few queries over the chunks of their keys; attention_simd.h has
 * the layout. With m the larger of two maxima, two partial results (o, max, sum) become
 *
 *     o = o_1 2^(max_1 - m) + o_2 2^(max_2 - m)     and likewise their sums,
 *
 * chunk by chunk in index order; at the end o is divided by the sum.
 */
#include "kernels/simd/attention_simd.h"

#include "base/checked_math.h"

size_t fv_attn_partial_floats(const fv_attn *a)
{
    const fv_attn_partials p = fv_attn_partials_of(a, NULL);
    size_t floats;
    if (!fv_checked_mul_size((size_t)(a->batch * a->heads * a->n_q), (size_t)p.chunks, &floats) ||
        !fv_checked_mul_size(floats, (size_t)p.row, &floats) || floats > SIZE_MAX / 16)
        return SIZE_MAX;
    return floats;
}

typedef struct merge_job {
    const fv_attn_partials *partials;
    void *o;
    float *lse; /* or NULL */
} merge_job;

/* A chunk without a visible key has weight 0 and holds zeros. */
static void merge_row(const merge_job *job, int64_t b, int64_t h, int64_t query, float *lse)
{
    const fv_attn_partials *p = job->partials;
    const fv_attn *a = p->a;
    float *first = fv_attn_partial(p, b, h, query, 0);
    float max = first[p->o_row], sum = first[p->o_row + 1];
    for (int64_t chunk = 1; chunk < p->chunks; chunk++) {
        const float *partial = first + chunk * p->row;
        const float partial_max = partial[p->o_row], larger = partial_max > max ? partial_max : max;
        const float shift = larger == -INFINITY ? 0 : larger;
        float by[FV_LANES] = {max - shift, partial_max - shift};
        v_store(by, FV_LANES, fv_attn_exp2(v_load(by, FV_LANES)));
        const vf rescale = v_set(by[0]), weight = v_set(by[1]);
        for (int64_t c = 0; c < p->o_row; c += FV_LANES) {
            const vf previous = v_mul(v_load(first + c, FV_LANES), rescale);
            v_store(first + c, FV_LANES, v_fma(v_load(partial + c, FV_LANES), weight, previous));
        }
        sum = fmaf(partial[p->o_row + 1], by[1], sum * by[0]);
        max = larger;
    }
    const vf by = v_set(sum == 0 ? 1 : sum);
    for (int64_t c = 0; c < p->o_row; c += FV_LANES)
        v_store(first + c, FV_LANES, v_add(v_div(v_load(first + c, FV_LANES), by), v_zero()));
    fv_attn_narrow(a->dtype, first, p->o_row, 1, a->d_v, NULL,
                   fv_attn_out(a, job->o, &a->o, b, h, query), a->o.row);
    const double shift = max == -INFINITY ? 0 : (double)max * FV_ATTN_LN2;
    if (lse) *lse = sum == 0 ? -INFINITY : (float)(shift + (double)fv_logf_ref(sum));
}

static void merge_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const merge_job *job = arg;
    const fv_attn *a = job->partials->a;
    for (int64_t row = begin; row < end; row++) {
        const int64_t head = row / a->n_q, i = row % a->n_q;
        merge_row(job, head / a->heads, head % a->heads, i,
                  job->lse ? job->lse + head * fv_attn_lse_head(a) + i : NULL);
    }
}

void fv_attn_merge_partials(const fv_exec *exec, const fv_attn_partials *partials, void *o,
                            float *lse)
{
    const fv_attn *a = partials->a;
    const merge_job job = {partials, o, lse};
    fv_exec_rows(exec, a->batch * a->heads * a->n_q, partials->chunks * partials->row, merge_rows,
                 &job);
}

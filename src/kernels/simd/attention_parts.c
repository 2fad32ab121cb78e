/*
 * Joins what a few queries have found in each chunk of their keys; attention_simd.h has the layout.
 * With m the larger of two maxima, two parts (o, most, sum) become
 *
 *     o = o_1 2^(most_1 - m) + o_2 2^(most_2 - m)     and likewise their sums,
 *
 * chunk by chunk in index order, and at the end o is divided by the sum.
 */
#include "kernels/simd/attention_simd.h"

#include "base/check.h"

size_t fv_attn_parts_floats(const fv_attn *a)
{
    const fv_attn_parts p = fv_attn_parts_of(a, NULL);
    size_t floats;
    if (!fv_mul_size((size_t)(a->batch * a->heads * a->n_q), (size_t)p.chunks, &floats) ||
        !fv_mul_size(floats, (size_t)p.row, &floats) || floats > SIZE_MAX / 16)
        return SIZE_MAX;
    return floats;
}

typedef struct join_job {
    const fv_attn_parts *parts;
    void *o;
    float *lse; /* or NULL */
} join_job;

/* A chunk without a visible key has weight 0 and holds zeros. */
static void join_row(const join_job *job, int64_t b, int64_t h, int64_t query, float *lse)
{
    const fv_attn_parts *p = job->parts;
    const fv_attn *a = p->a;
    float *first = fv_attn_part(p, b, h, query, 0);
    float most = first[p->o_row], sum = first[p->o_row + 1];
    for (int64_t chunk = 1; chunk < p->chunks; chunk++) {
        const float *part = first + chunk * p->row;
        const float top = part[p->o_row], larger = top > most ? top : most;
        const float shift = larger == -INFINITY ? 0 : larger;
        float by[FV_LANES] = {most - shift, top - shift};
        v_store(by, FV_LANES, fv_attn_exp2(v_load(by, FV_LANES)));
        const vf fade = v_set(by[0]), weight = v_set(by[1]);
        for (int64_t c = 0; c < p->o_row; c += FV_LANES) {
            const vf before = v_mul(v_load(first + c, FV_LANES), fade);
            v_store(first + c, FV_LANES, v_fma(v_load(part + c, FV_LANES), weight, before));
        }
        sum = fmaf(part[p->o_row + 1], by[1], sum * by[0]);
        most = larger;
    }
    const vf by = v_set(sum == 0 ? 1 : sum);
    for (int64_t c = 0; c < p->o_row; c += FV_LANES)
        v_store(first + c, FV_LANES, v_add(v_div(v_load(first + c, FV_LANES), by), v_zero()));
    fv_attn_narrow(a->dtype, first, p->o_row, 1, a->d_v, NULL,
                   fv_attn_out(a, job->o, &a->o, b, h, query), a->o.row);
    const double shift = most == -INFINITY ? 0 : (double)most * FV_ATTN_LN2;
    if (lse) *lse = sum == 0 ? -INFINITY : (float)(shift + (double)fv_logf_ref(sum));
}

static void join_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const join_job *job = arg;
    const fv_attn *a = job->parts->a;
    for (int64_t row = begin; row < end; row++) {
        const int64_t head = row / a->n_q, i = row % a->n_q;
        join_row(job, head / a->heads, head % a->heads, i,
                 job->lse ? job->lse + head * fv_attn_lse_head(a) + i : NULL);
    }
}

void fv_attn_join(const fv_exec *exec, const fv_attn_parts *parts, void *o, float *lse)
{
    const fv_attn *a = parts->a;
    const join_job job = {parts, o, lse};
    fv_exec_rows(exec, a->batch * a->heads * a->n_q, parts->chunks * parts->row, join_rows, &job);
}

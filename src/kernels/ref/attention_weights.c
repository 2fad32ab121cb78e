/*
 * Attention weights by their definitions, one row of n_k at a time in scratch; see
 * fovea/attention_kernels.h.
 */
#include "kernels/attention_weights.h"

#include "kernels/ref/attention_ref.h"

typedef struct weights_job {
    const fv_exec *exec;
    const fv_attn *a;
    const fv_attn_region *w;
    void *const *out, *const *in;
    const fv_attn_summary_args *summary; /* or NULL: the map */
} weights_job;

static real *row_at(const weights_job *job, int thread, int64_t b, int64_t h, int64_t i)
{
    real *buffer = (real *)job->exec->scratch + thread * (FV_REF_ATTN_BUFFERS + job->a->n_k);
    real *p = buffer + FV_REF_ATTN_BUFFERS;
    FV_NAME(fv_ref_attn_weights)(job->a, job->in, b, h, i, buffer, p);
    return p;
}

static void map_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weights_job *job = arg;
    const fv_attn_region *w = job->w;
    for (int64_t item = begin; item < end; item++) {
        const int64_t i = item % w->rows, h = item / w->rows % w->heads;
        const int64_t b = item / w->rows / w->heads;
        const real *p = row_at(job, thread, w->batch + b, w->head + h, w->row + i);
        real *out =
            (real *)job->out[FV_ATTN_MAP_OUT] + b * w->out.batch + h * w->out.head + i * w->out.row;
        for (int64_t c = 0; c < w->cols; c++)
            out[c * w->out.col] = p[w->col + c];
    }
}

static size_t row_scratch(const void *args, int threads)
{
    const fv_attn *a = args;
    const size_t reals = (size_t)(a->n_k + FV_REF_ATTN_BUFFERS) * (size_t)threads;
    return (reals * sizeof(double) + 63) / 64 * 64;
}

static void attention_map(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn_weights_args *m = args;
    const fv_attn_region *w = &m->region;
    if (m->a.varlen) {
        if (w->batches > 0) fv_attn_weights_varlen(exec, ptr, m, attention_map, row_scratch);
        return;
    }
    const weights_job job = {
        .exec = exec, .a = &m->a, .w = w, .out = ptr, .in = ptr + FV_ATTN_MAP_INPUTS};
    fv_exec_rows(exec, w->batches * w->heads * w->rows, m->a.n_k * m->a.d, map_rows, &job);
}

static void keep_largest(real *weight, int64_t *index, int64_t top, const real *p, int64_t keys,
                         int64_t first_key)
{
    for (int64_t e = 0; e < top; e++) {
        weight[e] = 0;
        index[e] = -1;
    }
    for (int64_t j = 0; j < keys; j++)
        if (p[j] > weight[top - 1]) FV_ATTN_INSERT(weight, index, top, p[j], first_key + j);
}

static void summary_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weights_job *job = arg;
    const fv_attn *a = job->a;
    real *weight = job->out[FV_ATTN_TOP_WEIGHT], *entropies = job->out[FV_ATTN_ENTROPY];
    real *distances = job->out[FV_ATTN_DISTANCE];
    int64_t *index = job->out[FV_ATTN_TOP_INDEX];
    const int64_t top = job->summary->top;
    for (int64_t item = begin; item < end; item++) {
        const int64_t i = item % a->n_q, head = item / a->n_q;
        const int64_t row = fv_attn_summary_row(job->summary, head, i);
        const real *p = row_at(job, thread, head / a->heads, head % a->heads, i);
        if (top > 0)
            keep_largest(weight + row * top, index + row * top, top, p, a->n_k,
                         job->summary->first_key);
        const int64_t position = fv_attn_position(a, i);
        real entropy = 0, distance = 0;
        for (int64_t j = 0; j < a->n_k; j++) {
            if (p[j] == 0) continue;
            entropy -= p[j] * real_log(p[j]);
            distance += p[j] * real_abs((real)(j - position));
        }
        if (entropies) entropies[row] = entropy;
        if (distances) distances[row] = distance;
    }
}

static void received_heads(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weights_job *job = arg;
    const fv_attn *a = job->a;
    for (int64_t head = begin; head < end; head++) {
        real *received =
            (real *)job->out[FV_ATTN_RECEIVED] + fv_attn_summary_key(job->summary, head, 0);
        for (int64_t j = 0; j < a->n_k; j++)
            received[j] = 0;
        for (int64_t i = 0; i < a->n_q; i++) {
            const real *p = row_at(job, thread, head / a->heads, head % a->heads, i);
            for (int64_t j = 0; j < a->n_k; j++)
                received[j] += p[j];
        }
    }
}

static void attention_summary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn_summary_args *s = args;
    const fv_attn *a = &s->a;
    if (a->varlen) {
        fv_attn_summary_varlen(exec, ptr, s, attention_summary, row_scratch);
        return;
    }
    const weights_job job = {
        .exec = exec, .a = a, .out = ptr, .in = ptr + FV_ATTN_SUMMARY_INPUTS, .summary = s};
    const int64_t heads = a->batch * a->heads;
    if (s->top > 0 || ptr[FV_ATTN_ENTROPY] || ptr[FV_ATTN_DISTANCE])
        fv_exec_rows(exec, heads * a->n_q, a->n_k * a->d, summary_rows, &job);
    if (ptr[FV_ATTN_RECEIVED])
        fv_exec_rows(exec, heads, a->n_q * a->n_k * a->d, received_heads, &job);
}

static size_t map_scratch(const void *args, int threads)
{
    const fv_attn_weights_args *m = args;
    return fv_attn_whole_scratch(&m->a, threads, row_scratch);
}

static size_t summary_scratch(const void *args, int threads)
{
    const fv_attn_summary_args *s = args;
    return fv_attn_whole_scratch(&s->a, threads, row_scratch);
}

void FV_NAME(fv_ref_attention_weights_register)(fv_kernel_table *t)
{
    fv_kernel_fn *map = t->fn[FV_KERNEL_ATTENTION_MAP];
    fv_kernel_fn *summary = t->fn[FV_KERNEL_ATTENTION_SUMMARY];
    map[FV_REAL_DTYPE] = attention_map;
    summary[FV_REAL_DTYPE] = attention_summary;
#ifndef FV_REAL_DOUBLE
    map[FV_BF16] = map[FV_F16] = attention_map;
    summary[FV_BF16] = summary[FV_F16] = attention_summary;
#endif
    t->scratch[FV_KERNEL_ATTENTION_MAP] = map_scratch;
    t->scratch[FV_KERNEL_ATTENTION_SUMMARY] = summary_scratch;
}

/*
 * Weights of varlen documents. The map is that of the whole row: each document's own map is at its
 * queries and keys, with zeros everywhere else. Keys are numbered along the row. A document is a
 * call of its own, so its weights have the bits they have alone.
 */
#include "kernels/attention_weights.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- the map ---------------------------------------------------------------------- */

typedef struct map_job {
    const fv_attn_weights_args *args;
    void *const *ptr;
    fv_kernel_fn kernel;
    size_t size; /* of a weight */
} map_job;

static const int64_t *begins(const map_job *job, int which)
{
    return job->ptr[FV_ATTN_MAP_INPUTS + which];
}

/* The document that query i belongs to. */
static int64_t document_of(const int64_t *begin, int64_t documents, int64_t i)
{
    int64_t low = 0, high = documents - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (begin[middle + 1] > i)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void clear(const map_job *job, char *row, int64_t col, int64_t end)
{
    const fv_attn_region *w = &job->args->region;
    const int64_t step = w->out.col * (int64_t)job->size;
    row += (col - w->col) * step;
    if (w->out.col == 1 && col < end) {
        memset(row, 0, (size_t)(end - col) * job->size);
        return;
    }
    for (; col < end; col++, row += step)
        memset(row, 0, job->size);
}

/* Keys of other documents. */
static void clear_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const map_job *job = arg;
    const fv_attn_region *w = &job->args->region;
    const int64_t *q_begin = begins(job, FV_ATTN_Q_BEGIN), *k_begin = begins(job, FV_ATTN_K_BEGIN);
    const int64_t last = w->col + w->cols;
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item % w->rows, h = item / w->rows;
        const int64_t b = document_of(q_begin, job->args->a.batch, w->row + r);
        char *row = (char *)job->ptr[FV_ATTN_MAP_OUT] +
                    (h * w->out.head + r * w->out.row) * (int64_t)job->size;
        const int64_t first_key = larger(w->col, smaller(last, k_begin[b]));
        clear(job, row, w->col, first_key);
        clear(job, row, larger(first_key, smaller(last, k_begin[b + 1])), last);
    }
}

/* The part of document b inside the window. */
static void map_document(const void *user, int64_t b, const fv_exec *exec)
{
    const map_job *job = user;
    const fv_attn_region *w = &job->args->region;
    const int64_t *q_begin = begins(job, FV_ATTN_Q_BEGIN), *k_begin = begins(job, FV_ATTN_K_BEGIN);
    const int64_t row = larger(w->row, q_begin[b]), col = larger(w->col, k_begin[b]);
    void *ptr[FV_ATTN_MAP_INPUTS + FV_ATTN_POINTERS];
    for (int i = 0; i < FV_ATTN_MAP_INPUTS + FV_ATTN_POINTERS; i++)
        ptr[i] = job->ptr[i];
    fv_attn_weights_args one = {.region = *w};
    one.region.rows = smaller(w->row + w->rows, q_begin[b + 1]) - row;
    one.region.cols = smaller(w->col + w->cols, k_begin[b + 1]) - col;
    if (one.region.rows <= 0 || one.region.cols <= 0) return;
    one.region.row = row - q_begin[b];
    one.region.col = col - k_begin[b];
    one.a = fv_attn_document(&job->args->a, b, ptr + FV_ATTN_MAP_INPUTS);
    fv_attn_advance(&ptr[FV_ATTN_MAP_OUT],
                    (row - w->row) * w->out.row + (col - w->col) * w->out.col, job->size);
    job->kernel(exec, ptr, &one);
}

void fv_attn_weights_varlen(const fv_exec *exec, void *const *ptr, const fv_attn_weights_args *args,
                            fv_kernel_fn kernel, fv_attn_scratch_fn scratch)
{
    const map_job job = {
        .args = args, .ptr = ptr, .kernel = kernel, .size = fv_attn_lse_size(&args->a)};
    const fv_attn_documents all = {.q_begin = begins(&job, FV_ATTN_Q_BEGIN),
                                   .k_begin = begins(&job, FV_ATTN_K_BEGIN),
                                   .run = map_document,
                                   .user = &job};
    if (!fv_attn_each_document(exec, &args->a, &all, scratch)) return;
    fv_exec_rows(exec, args->region.heads * args->region.rows, args->region.cols, clear_rows, &job);
}

/* ---- summaries -------------------------------------------------------------------- */

typedef struct summary_job {
    const fv_attn_summary_args *args;
    void *const *ptr;
    fv_kernel_fn kernel;
} summary_job;

static void summarise_document(const void *user, int64_t b, const fv_exec *exec)
{
    const summary_job *job = user;
    const fv_attn *a = &job->args->a;
    void *ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_POINTERS];
    for (int i = 0; i < FV_ATTN_SUMMARY_INPUTS + FV_ATTN_POINTERS; i++)
        ptr[i] = job->ptr[i];
    void **in = ptr + FV_ATTN_SUMMARY_INPUTS;
    const int64_t q = ((const int64_t *)in[FV_ATTN_Q_BEGIN])[b];
    const int64_t k = ((const int64_t *)in[FV_ATTN_K_BEGIN])[b];
    const size_t size = fv_attn_lse_size(a);
    fv_attn_summary_args one = *job->args;
    one.a = fv_attn_document(a, b, in);
    one.q_head = a->n_q;
    one.k_head = a->n_k;
    one.first_key = k;
    fv_attn_advance(&ptr[FV_ATTN_TOP_INDEX], q * one.top, sizeof(int64_t));
    fv_attn_advance(&ptr[FV_ATTN_TOP_WEIGHT], q * one.top, size);
    fv_attn_advance(&ptr[FV_ATTN_ENTROPY], q, size);
    fv_attn_advance(&ptr[FV_ATTN_DISTANCE], q, size);
    fv_attn_advance(&ptr[FV_ATTN_RECEIVED], k, size);
    job->kernel(exec, ptr, &one);
}

void fv_attn_summary_varlen(const fv_exec *exec, void *const *ptr, const fv_attn_summary_args *args,
                            fv_kernel_fn kernel, fv_attn_scratch_fn scratch)
{
    const summary_job job = {.args = args, .ptr = ptr, .kernel = kernel};
    const fv_attn_documents all = {.q_begin = ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_Q_BEGIN],
                                   .k_begin = ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_K_BEGIN],
                                   .run = summarise_document,
                                   .user = &job};
    (void)fv_attn_each_document(exec, &args->a, &all, scratch);
}

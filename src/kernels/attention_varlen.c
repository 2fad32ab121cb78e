/*
 * Varlen documents: each is a call of its own over its part of the arrays, so no work is done
 * across documents, and a document has the bits it would have alone.
 */
#include "kernels/attention.h"

/* Documents of at most this many queries and keys are processed by one thread each; longer ones by
 * all threads, one after the other. The bits do not depend on the threads. */
enum { SHORT = 1024 };

static int64_t length(const int64_t *begin, int64_t b) { return begin[b + 1] - begin[b]; }

fv_attn fv_attn_document(const fv_attn *a, int64_t b, void **in)
{
    const int64_t *q_begin = in[FV_ATTN_Q_BEGIN], *k_begin = in[FV_ATTN_K_BEGIN];
    const int64_t q = q_begin[b], k = k_begin[b];
    fv_attn one = *a;
    const size_t size = fv_dtype_size(one.dtype);
    one.varlen = false;
    one.batch = 1;
    one.n_q = length(q_begin, b);
    one.n_k = length(k_begin, b);
    one.lse_head = fv_attn_lse_head(a);
    one.first_row = a->first_row + (uint64_t)b;
    in[FV_ATTN_Q_BEGIN] = in[FV_ATTN_K_BEGIN] = NULL;
    fv_attn_advance(&in[FV_ATTN_Q], q * one.q.row, size);
    fv_attn_advance(&in[FV_ATTN_O], q * one.o.row, size);
    fv_attn_advance(&in[FV_ATTN_LSE], q, fv_attn_lse_size(a));
    fv_attn_advance(&in[FV_ATTN_K], k * one.k.row, size);
    fv_attn_advance(&in[FV_ATTN_V], k * one.v.row, size);
    fv_attn_advance(&in[FV_ATTN_KEY_LENGTHS], b, sizeof(int64_t));
    return one;
}

/* ---- one after the other, or in parallel ------------------------------------------ */

typedef struct each_job {
    const fv_exec *exec;
    const fv_attn_documents *all;
    size_t short_bytes; /* scratch of a short document */
} each_job;

static bool is_short(const fv_attn_documents *all, int64_t b)
{
    return length(all->q_begin, b) <= SHORT && length(all->k_begin, b) <= SHORT;
}

static void run_short_ones(const void *arg, int64_t begin, int64_t end, int thread)
{
    const each_job *job = arg;
    fv_exec exec = *job->exec;
    exec.threads = 1;
    exec.scratch = (char *)exec.scratch + (size_t)thread * job->short_bytes;
    for (int64_t b = begin; b < end; b++)
        if (is_short(job->all, b)) job->all->run(job->all->user, b, &exec);
}

static size_t short_scratch(const fv_attn *a, fv_attn_scratch_fn scratch)
{
    fv_attn one = *a;
    one.batch = 1;
    one.n_q = one.n_q < SHORT ? one.n_q : SHORT;
    one.n_k = one.n_k < SHORT ? one.n_k : SHORT;
    return (scratch(&one, 1) + 63) / 64 * 64;
}

size_t fv_attn_whole_scratch(const fv_attn *a, int threads, fv_attn_scratch_fn scratch)
{
    if (!a->varlen) return scratch(a, threads);
    fv_attn one = *a;
    one.batch = 1;
    const size_t together = scratch(&one, threads), each = short_scratch(a, scratch);
    if (each > SIZE_MAX / (size_t)threads) return SIZE_MAX;
    return together > each * (size_t)threads ? together : each * (size_t)threads;
}

bool fv_attn_each_document(const fv_exec *exec, const fv_attn *a, const fv_attn_documents *all,
                           fv_attn_scratch_fn scratch)
{
    if (!fv_attn_offsets_are_valid(all->q_begin, a->batch, a->n_q) ||
        !fv_attn_offsets_are_valid(all->k_begin, a->batch, a->n_k)) {
        fv_fault_raise(exec->fault, -1, a->n_k);
        return false;
    }
    for (int64_t b = 0; b < a->batch; b++)
        if (all->in_order || !is_short(all, b)) all->run(all->user, b, exec);
    if (all->in_order || a->batch == 0) return true;
    const each_job job = {.exec = exec, .all = all, .short_bytes = short_scratch(a, scratch)};
    const int64_t pairs = (a->n_q / a->batch + 1) * (a->n_k / a->batch + 1);
    fv_exec_rows(exec, a->batch, a->heads * pairs * (fv_attn_width(a) + a->d_v), run_short_ones,
                 &job);
    return true;
}

/* ---- the two passes --------------------------------------------------------------- */

typedef struct varlen_job {
    const fv_attn *a;
    void *const *ptr;
    fv_kernel_fn kernel;
    bool backward;
} varlen_job;

static void run_document(const void *user, int64_t b, const fv_exec *exec)
{
    const varlen_job *job = user;
    void *ptr[FV_ATTN_GRAD_POINTERS];
    const int count = job->backward ? FV_ATTN_GRAD_POINTERS : FV_ATTN_POINTERS;
    for (int i = 0; i < count; i++)
        ptr[i] = job->ptr[i];
    void **in = ptr + (job->backward ? FV_ATTN_GRAD_INPUTS : 0);
    const int64_t *q_begin = in[FV_ATTN_Q_BEGIN], *k_begin = in[FV_ATTN_K_BEGIN];
    const int64_t q = q_begin[b], k = k_begin[b];
    const fv_attn one = fv_attn_document(job->a, b, in);
    const size_t size = fv_dtype_size(one.dtype);
    if (job->backward) {
        fv_attn_advance(&ptr[FV_ATTN_GRAD_Q], q * fv_attn_layout_dq(&one)->row, size);
        fv_attn_advance(&ptr[FV_ATTN_GRAD_O], q * fv_attn_layout_do(&one)->row, size);
        fv_attn_advance(&ptr[FV_ATTN_GRAD_LSE], q, fv_attn_lse_size(job->a));
        fv_attn_advance(&ptr[FV_ATTN_GRAD_K], k * fv_attn_layout_dk(&one)->row, size);
        fv_attn_advance(&ptr[FV_ATTN_GRAD_V], k * fv_attn_layout_dv(&one)->row, size);
    }
    job->kernel(exec, ptr, &one);
}

void fv_attn_run_varlen(const fv_exec *exec, void *const *ptr, const fv_attn *a, bool backward,
                        fv_kernel_fn kernel, fv_attn_scratch_fn scratch)
{
    const varlen_job job = {.a = a, .ptr = ptr, .kernel = kernel, .backward = backward};
    void *const *in = ptr + (backward ? FV_ATTN_GRAD_INPUTS : 0);
    /* All documents add to the gradient of w: in their order, for the same bits. */
    const fv_attn_documents all = {.q_begin = in[FV_ATTN_Q_BEGIN],
                                   .k_begin = in[FV_ATTN_K_BEGIN],
                                   .run = run_document,
                                   .user = &job,
                                   .in_order = backward && ptr[FV_ATTN_GRAD_W]};
    (void)fv_attn_each_document(exec, a, &all, scratch);
}

bool fv_attn_offsets_are_valid(const int64_t *begin, int64_t documents, int64_t total)
{
    if (begin[0] != 0 || begin[documents] != total) return false;
    for (int64_t b = 0; b < documents; b++)
        if (begin[b + 1] < begin[b]) return false;
    return true;
}

/*
 * Documents packed in one row: each is a call of its own over its part of the arrays, so no work is
 * done across documents, and a document has the bits it would have alone.
 */
#include "kernels/attention.h"

#include "base/rng.h"

/* Documents of at most so many queries and keys are done by one thread each; longer ones by all
 * threads, one after the other. Bits do not depend on the threads, so either way is the same. */
enum { SHORT = 1024 };

typedef struct packed_job {
    const fv_exec *exec;
    const fv_attn *a;
    void *const *ptr;
    fv_kernel_fn kernel;
    bool backward;
    size_t short_bytes; /* scratch of a short document */
} packed_job;

static const int64_t *begins(const packed_job *job, int which)
{
    return job->ptr[which + (job->backward ? FV_ATTN_GRAD_INPUTS : 0)];
}

static int64_t length(const int64_t *begin, int64_t b) { return begin[b + 1] - begin[b]; }

static bool is_short(const packed_job *job, int64_t b)
{
    return length(begins(job, FV_ATTN_Q_BEGIN), b) <= SHORT &&
           length(begins(job, FV_ATTN_K_BEGIN), b) <= SHORT;
}

static void advance(void **ptr, int64_t elements, size_t size)
{
    if (*ptr) *ptr = (char *)*ptr + elements * (int64_t)size;
}

static void run_document(const packed_job *job, int64_t b, const fv_exec *exec)
{
    const int64_t *q_begin = begins(job, FV_ATTN_Q_BEGIN), *k_begin = begins(job, FV_ATTN_K_BEGIN);
    const int64_t q = q_begin[b], k = k_begin[b];
    fv_attn one = *job->a;
    const size_t size = fv_dtype_size(one.dtype);
    const size_t lse_size = one.dtype == FV_F64 ? sizeof(double) : sizeof(float);
    one.packed = false;
    one.batch = 1;
    one.n_q = length(q_begin, b);
    one.n_k = length(k_begin, b);
    one.lse_head = fv_attn_lse_head(job->a);
    if (one.dropout > 0) one.dropout_key = fv_rng_key(one.dropout_key, 0, (uint64_t)b);

    void *ptr[FV_ATTN_GRAD_POINTERS];
    const int count = job->backward ? FV_ATTN_GRAD_POINTERS : FV_ATTN_POINTERS;
    for (int i = 0; i < count; i++)
        ptr[i] = job->ptr[i];
    void **in = ptr + (job->backward ? FV_ATTN_GRAD_INPUTS : 0);
    in[FV_ATTN_Q_BEGIN] = in[FV_ATTN_K_BEGIN] = NULL;
    advance(&in[FV_ATTN_Q], q * one.q.row, size);
    advance(&in[FV_ATTN_O], q * one.o.row, size);
    advance(&in[FV_ATTN_LSE], q, lse_size);
    advance(&in[FV_ATTN_K], k * one.k.row, size);
    advance(&in[FV_ATTN_V], k * one.v.row, size);
    advance(&in[FV_ATTN_N_KEYS], b, sizeof(int64_t));
    if (job->backward) {
        advance(&ptr[FV_ATTN_GRAD_Q], q * one.q.row, size);
        advance(&ptr[FV_ATTN_GRAD_O], q * one.o.row, size);
        advance(&ptr[FV_ATTN_GRAD_LSE], q, lse_size);
        advance(&ptr[FV_ATTN_GRAD_K], k * one.k.row, size);
        advance(&ptr[FV_ATTN_GRAD_V], k * one.v.row, size);
    }
    job->kernel(exec, ptr, &one);
}

static void run_short_ones(const void *arg, int64_t begin, int64_t end, int thread)
{
    const packed_job *job = arg;
    fv_exec exec = *job->exec;
    exec.threads = 1;
    exec.scratch = (char *)exec.scratch + (size_t)thread * job->short_bytes;
    for (int64_t b = begin; b < end; b++)
        if (is_short(job, b)) run_document(job, b, &exec);
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
    if (!a->packed) return scratch(a, threads);
    fv_attn one = *a;
    one.batch = 1;
    const size_t together = scratch(&one, threads), each = short_scratch(a, scratch);
    if (each > SIZE_MAX / (size_t)threads) return SIZE_MAX;
    return together > each * (size_t)threads ? together : each * (size_t)threads;
}

void fv_attn_run_packed(const fv_exec *exec, void *const *ptr, const fv_attn *a, bool backward,
                        fv_kernel_fn kernel, fv_attn_scratch_fn scratch)
{
    const packed_job job = {.exec = exec,
                            .a = a,
                            .ptr = ptr,
                            .kernel = kernel,
                            .backward = backward,
                            .short_bytes = short_scratch(a, scratch)};
    const int64_t *q_begin = begins(&job, FV_ATTN_Q_BEGIN),
                  *k_begin = begins(&job, FV_ATTN_K_BEGIN);
    if (!fv_attn_offsets_are_sound(q_begin, a->batch, a->n_q) ||
        !fv_attn_offsets_are_sound(k_begin, a->batch, a->n_k)) {
        fv_fault_raise(exec->fault, -1, a->n_k);
        return;
    }
    /* A gradient that all documents add to is added to in their order. */
    const bool in_order = backward && ptr[FV_ATTN_GRAD_W];
    for (int64_t b = 0; b < a->batch; b++)
        if (in_order || !is_short(&job, b)) run_document(&job, b, exec);
    if (in_order || a->batch == 0) return;
    const int64_t pairs = (a->n_q / a->batch + 1) * (a->n_k / a->batch + 1);
    fv_exec_rows(exec, a->batch, a->heads * pairs * (fv_attn_width(a) + a->d_v), run_short_ones,
                 &job);
}

bool fv_attn_offsets_are_sound(const int64_t *begin, int64_t documents, int64_t total)
{
    if (begin[0] != 0 || begin[documents] != total) return false;
    for (int64_t b = 0; b < documents; b++)
        if (begin[b + 1] < begin[b]) return false;
    return true;
}

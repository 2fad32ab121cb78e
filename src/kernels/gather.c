/* Gathers copy elements without interpreting them: one version per element size serves all
 * dtypes. */
#include <string.h>

#include "kernels/index.h"
#include "kernels/register.h"

typedef struct gather_job {
    const fv_exec *exec;
    const void *args;
    void *const *ptr;
    int64_t bytes; /* per element */
} gather_job;

static bool inside(const gather_job *job, int64_t index, int64_t bound)
{
    if (index >= 0 && index < bound) return true;
    fv_fault_raise(job->exec->fault, index, bound);
    return false;
}

/* ---- whole rows ----------------------------------------------------------------- */

static void gather_rows_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const gather_job *job = arg;
    const fv_rows_index_args *a = job->args;
    const int64_t row = a->cols * job->bytes;
    const int64_t *index = job->ptr[2];
    for (int64_t item = begin; item < end; item++) {
        const int64_t outer = item / a->count, from = index[item % a->count];
        char *out = (char *)job->ptr[0] + item * row;
        const char *table = (const char *)job->ptr[1] + outer * a->rows * row;
        if (inside(job, from, a->rows))
            memcpy(out, table + from * row, (size_t)row);
        else
            memset(out, 0, (size_t)row);
    }
}

static void gather_rows(const fv_exec *exec, void *const *ptr, const void *args, int64_t bytes)
{
    const fv_rows_index_args *a = args;
    const gather_job job = {exec, args, ptr, bytes};
    fv_exec_rows(exec, a->outer * a->count, a->cols, gather_rows_range, &job);
}

/* ---- along one axis ------------------------------------------------------------- */

/* Inlined with a constant size, each memcpy is one load and one store. */
static inline void gather_elements(const gather_job *job, int64_t item, size_t bytes)
{
    const fv_gather_args *a = job->args;
    const int64_t size = (int64_t)bytes;
    char *out = (char *)job->ptr[0] + item * a->inner * size;
    const int64_t *index = (const int64_t *)job->ptr[2] + item * a->inner;
    const char *in = (const char *)job->ptr[1] + item / a->count * a->size * a->inner * size;
    for (int64_t i = 0; i < a->inner; i++) {
        if (inside(job, index[i], a->size))
            memcpy(out + i * size, in + (index[i] * a->inner + i) * size, bytes);
        else
            memset(out + i * size, 0, bytes);
    }
}

static void gather_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const gather_job *job = arg;
    for (int64_t item = begin; item < end; item++) {
        switch (job->bytes) {
        case 1:
            gather_elements(job, item, 1);
            break;
        case 2:
            gather_elements(job, item, 2);
            break;
        case 4:
            gather_elements(job, item, 4);
            break;
        default:
            gather_elements(job, item, 8);
            break;
        }
    }
}

static void gather(const fv_exec *exec, void *const *ptr, const void *args, int64_t bytes)
{
    const fv_gather_args *a = args;
    const gather_job job = {exec, args, ptr, bytes};
    fv_exec_rows(exec, a->outer * a->count, a->inner, gather_range, &job);
}

/* ---- table ---------------------------------------------------------------------- */

#define SIZED(kernel, bytes)                                                                       \
    static void kernel##_##bytes(const fv_exec *exec, void *const *ptr, const void *args)          \
    {                                                                                              \
        kernel(exec, ptr, args, bytes);                                                            \
    }
SIZED(gather_rows, 1)
SIZED(gather_rows, 2)
SIZED(gather_rows, 4)
SIZED(gather_rows, 8)
SIZED(gather, 1)
SIZED(gather, 2)
SIZED(gather, 4)
SIZED(gather, 8)

void fv_gather_register(fv_kernel_table *t)
{
    static const fv_kernel_fn rows[9] = {
        [1] = gather_rows_1, [2] = gather_rows_2, [4] = gather_rows_4, [8] = gather_rows_8};
    static const fv_kernel_fn axis[9] = {
        [1] = gather_1, [2] = gather_2, [4] = gather_4, [8] = gather_8};
    for (int dtype = 0; dtype < FV_DTYPE_COUNT; dtype++) {
        t->fn[FV_KERNEL_GATHER_ROWS][dtype] = rows[fv_dtype_size((fv_dtype)dtype)];
        t->fn[FV_KERNEL_GATHER][dtype] = axis[fv_dtype_size((fv_dtype)dtype)];
    }
}

/* CACHE_APPEND: one row of d elements for each token and head, copied or rounded. */
#include "kernels/cache.h"

#include <string.h>

#include "kernels/convert.h"
#include "kernels/register.h"

typedef struct append_job {
    const fv_exec *exec;
    void *const *ptr;
    const fv_cache_append_args *args;
} append_job;

static bool inside(const append_job *job, int64_t index, int64_t bound)
{
    if (index >= 0 && index < bound) return true;
    fv_fault_raise(job->exec->fault, index, bound);
    return false;
}

/* All heads of one token; which: 0 for keys, 1 for values. */
static void store(const append_job *job, int which, int64_t slot, int64_t b, int64_t t)
{
    const fv_cache_append_args *a = job->args;
    const int64_t d = a->width[which], *stride = a->stride[which];
    const int64_t to = (int64_t)fv_dtype_size(a->to), from = (int64_t)fv_dtype_size(a->from);
    char *out = (char *)job->ptr[which] + slot * a->heads * d * to;
    const char *in = (const char *)job->ptr[2 + which] + (b * stride[0] + t * stride[2]) * from;
    for (int64_t h = 0; h < a->heads; h++) {
        if (a->to == a->from)
            memcpy(out + h * d * to, in + h * stride[1] * from, (size_t)(d * to));
        else
            fv_convert(d, a->to, out + h * d * to, 1, a->from, in + h * stride[1] * from, 1);
    }
}

static void append_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const append_job *job = arg;
    const fv_cache_append_args *a = job->args;
    const int64_t *row = job->ptr[4], *position = row + a->batch * a->n;
    for (int64_t i = begin; i < end; i++) {
        if (row[i] < 0 || !inside(job, row[i], a->rows) || !inside(job, position[i], a->room))
            continue;
        const int64_t slot = row[i] * a->room + position[i];
        for (int which = 0; which < 2; which++)
            store(job, which, slot, i / a->n, i % a->n);
    }
}

static void append(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cache_append_args *a = args;
    const append_job job = {exec, ptr, a};
    fv_exec_rows(exec, a->batch * a->n, a->heads * (a->width[0] + a->width[1]), append_range, &job);
}

void fv_cache_register(fv_kernel_table *t)
{
    static const fv_dtype types[] = {FV_F32, FV_F64, FV_BF16, FV_F16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        t->fn[FV_KERNEL_CACHE_APPEND][types[i]] = append;
}

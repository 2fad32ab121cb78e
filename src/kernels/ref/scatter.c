/*
 * Scatters and one-hot rows. A scatter adds the input rows in their order (i = 0, 1, ...), so sums
 * have the same bits for any number of threads: threads divide the columns, never the rows.
 * (Gathers copy bytes of any dtype: kernels/gather.c.)
 */
#include <string.h>

#include "kernels/index.h"
#include "kernels/ref/real.h"

typedef struct index_job {
    const fv_exec *exec;
    const void *args;
    void *const *ptr;      /* see kernels/index.h */
    int64_t column_groups; /* cache lines of columns in a row */
} index_job;

/* Columns are distributed by cache line. */
enum { LINE_COLUMNS = 64 / sizeof(real) };

static bool check_index(const index_job *job, int64_t index, int64_t bound)
{
    if (index >= 0 && index < bound) return true;
    fv_fault_raise(job->exec->fault, index, bound);
    return false;
}

/* ---- whole rows ----------------------------------------------------------------- */

/* Adds columns [col, col + width) of every row of one outer block. */
static void add_columns(const index_job *job, int64_t outer, int64_t col, int64_t width)
{
    const fv_rows_index_args *a = job->args;
    const int64_t *index = job->ptr[2];
    real *table = (real *)job->ptr[0] + outer * a->rows * a->cols + col;
    const real *in = (const real *)job->ptr[1] + outer * a->count * a->cols + col;
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t to = index[i];
        if ((a->padding_index >= 0 && to == a->padding_index) || !check_index(job, to, a->rows))
            continue;
        real *sum = table + to * a->cols;
        const real *add = in + i * a->cols;
        for (int64_t c = 0; c < width; c++)
            sum[c] += add[c];
    }
}

/* Work items are (outer block, line of columns); adjacent ones in one call are done in one pass. */
static void index_add_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const index_job *job = arg;
    const fv_rows_index_args *a = job->args;
    for (int64_t item = begin; item < end;) {
        const int64_t outer = item / job->column_groups, group = item % job->column_groups;
        const int64_t left = job->column_groups - group, requested = end - item;
        const int64_t count = left < requested ? left : requested;
        const int64_t col = group * LINE_COLUMNS, stop = col + count * LINE_COLUMNS;
        add_columns(job, outer, col, (stop < a->cols ? stop : a->cols) - col);
        item += count;
    }
}

static void index_add(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_rows_index_args *a = args;
    const index_job job = {exec, args, ptr, (a->cols + LINE_COLUMNS - 1) / LINE_COLUMNS};
    fv_exec_rows(exec, a->outer * job.column_groups, a->count * LINE_COLUMNS, index_add_range,
                 &job);
}

/* ---- along one axis ------------------------------------------------------------- */

static void scatter_add_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const index_job *job = arg;
    const fv_gather_args *a = job->args;
    for (int64_t item = begin; item < end; item++) {
        const int64_t outer = item / job->column_groups,
                      col = item % job->column_groups * LINE_COLUMNS;
        const int64_t stop = col + LINE_COLUMNS < a->inner ? col + LINE_COLUMNS : a->inner;
        real *out = (real *)job->ptr[0] + outer * a->size * a->inner;
        for (int64_t j = 0; j < a->count; j++) {
            const int64_t at = (outer * a->count + j) * a->inner;
            const int64_t *index = (const int64_t *)job->ptr[2] + at;
            const real *in = (const real *)job->ptr[1] + at;
            for (int64_t i = col; i < stop; i++)
                if (check_index(job, index[i], a->size)) out[index[i] * a->inner + i] += in[i];
        }
    }
}

static void scatter_add(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gather_args *a = args;
    const index_job job = {exec, args, ptr, (a->inner + LINE_COLUMNS - 1) / LINE_COLUMNS};
    const int64_t width = a->inner < LINE_COLUMNS ? a->inner : LINE_COLUMNS;
    fv_exec_rows(exec, a->outer * job.column_groups, a->count * width, scatter_add_range, &job);
}

/* ---- one-hot -------------------------------------------------------------------- */

static void one_hot_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const index_job *job = arg;
    const fv_one_hot_args *a = job->args;
    for (int64_t i = begin; i < end; i++) {
        real *out = (real *)job->ptr[0] + i * a->classes;
        const int64_t index = ((const int64_t *)job->ptr[1])[i];
        memset(out, 0, (size_t)a->classes * sizeof(real));
        if (check_index(job, index, a->classes)) out[index] = 1;
    }
}

static void one_hot(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_one_hot_args *a = args;
    const index_job job = {.exec = exec, .args = args, .ptr = ptr};
    fv_exec_rows(exec, a->count, a->classes, one_hot_range, &job);
}

void FV_NAME(fv_ref_index_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_INDEX_ADD][FV_REAL_DTYPE] = index_add;
    t->fn[FV_KERNEL_SCATTER_ADD][FV_REAL_DTYPE] = scatter_add;
    t->fn[FV_KERNEL_ONE_HOT][FV_REAL_DTYPE] = one_hot;
}

/* index_add: adds rows at given indices. Gathers use the reference, whose memcpy runs at memory
 * speed. */
#include "kernels/index.h"

#include "kernels/simd/register.h"

typedef struct index_add_job {
    const fv_exec *exec;
    const fv_rows_index_args *args;
    void *const *ptr;
    int64_t lines; /* columns per row, in multiples of FV_LANES */
} index_add_job;

/* Adds columns [col, col + width) of every row of one outer block, rows in their order. */
static void add_columns(const index_add_job *job, int64_t outer, int64_t col, int64_t width)
{
    const fv_rows_index_args *a = job->args;
    const int64_t *index = job->ptr[2];
    float *table = (float *)job->ptr[0] + outer * a->rows * a->cols + col;
    const float *in = (const float *)job->ptr[1] + outer * a->count * a->cols + col;
    for (int64_t k = 0; k < a->count; k++) {
        const int64_t to = index[k];
        if (a->padding_index >= 0 && to == a->padding_index) continue;
        if (to < 0 || to >= a->rows) {
            fv_fault_raise(job->exec->fault, to, a->rows);
            continue;
        }
        float *sum = table + to * a->cols;
        const float *add = in + k * a->cols;
        V_LOOP(width, 0,
               v_store(sum + i, count, v_add(v_load(sum + i, count), v_load(add + i, count))));
    }
}

/* Work items are (outer block, line of columns); adjacent ones in one call are done in one pass. */
static void index_add_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const index_add_job *job = arg;
    const int64_t cols = job->args->cols;
    for (int64_t item = begin; item < end;) {
        const int64_t outer = item / job->lines, line = item % job->lines;
        const int64_t left = job->lines - line, requested = end - item;
        const int64_t lines = left < requested ? left : requested;
        const int64_t col = line * FV_LANES, stop = col + lines * FV_LANES;
        add_columns(job, outer, col, (stop < cols ? stop : cols) - col);
        item += lines;
    }
}

static void index_add(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_rows_index_args *a = args;
    const index_add_job job = {exec, a, ptr, (a->cols + FV_LANES - 1) / FV_LANES};
    fv_exec_rows(exec, a->outer * job.lines, a->count * FV_LANES, index_add_range, &job);
}

void fv_simd_index_register(fv_kernel_table *t) { t->fn[FV_KERNEL_INDEX_ADD][FV_F32] = index_add; }

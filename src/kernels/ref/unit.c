/* Rows of unit length; see kernels/rows.h. One version serves every level. */
#include "kernels/ref/lanes.h"
#include "kernels/rows.h"

typedef struct unit_job {
    const fv_exec *exec;
    const fv_unit_args *args;
    void *const *ptr;
} unit_job;

static void unit_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const unit_job *job = arg;
    const int64_t n = job->args->cols;
    real *rnorms = job->ptr[1];
    for (int64_t row = begin; row < end; row++) {
        real *y = (real *)job->ptr[0] + row * n, sum;
        const real *x = (const real *)job->ptr[2] + row * n;
        LANE_SUM(sum, n, x[i] * x[i]);
        const real rnorm = sum == 0 ? 0 : 1 / real_sqrt(sum);
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * rnorm;
        rnorms[row] = rnorm;
    }
}

static void unit(const fv_exec *exec, void *const *ptr, const void *args)
{
    const unit_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 3 * job.args->cols, unit_range, &job);
}

static bool all_zero(const real *g, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (g[i] != 0) return false;
    return true;
}

static void unit_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const unit_job *job = arg;
    const int64_t n = job->args->cols;
    for (int64_t row = begin; row < end; row++) {
        real *dx = (real *)job->ptr[0] + row * n, along;
        const real *g = (const real *)job->ptr[1] + row * n;
        const real *y = (const real *)job->ptr[2] + row * n;
        const real rnorm = ((const real *)job->ptr[3])[row];
        if (all_zero(g, n)) { /* no gradient reaches this row: its content does not matter */
            for (int64_t i = 0; i < n; i++)
                dx[i] = 0;
            continue;
        }
        LANE_SUM(along, n, y[i] * g[i]);
        along = FV_TERM(job->exec, 1, along, 0);
        for (int64_t i = 0; i < n; i++)
            dx[i] = rnorm * (FV_TERM(job->exec, 0, g[i], 0) - y[i] * along);
    }
}

static void unit_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const unit_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 5 * job.args->cols, unit_grad_range, &job);
}

void FV_NAME(fv_ref_unit_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_UNIT][FV_REAL_DTYPE] = unit;
    t->fn[FV_KERNEL_UNIT_GRAD][FV_REAL_DTYPE] = unit_grad;
}

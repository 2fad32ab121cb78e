/* Row softmax and log-softmax, and the backward of both. */
#include "kernels/ref/lanes.h"
#include "kernels/rows.h"

typedef struct softmax_job {
    const fv_exec *exec;
    const fv_softmax_args *args;
    void *const *ptr;
} softmax_job;

static void softmax_row(real *y, const real *x, int64_t n, bool log)
{
    const real max = row_max(x, n);
    if (max == (real)-INFINITY) { /* all -inf: no weight anywhere */
        for (int64_t i = 0; i < n; i++)
            y[i] = log ? max : 0;
        return;
    }
    real sum;
    if (log) {
        LANE_SUM(sum, n, real_exp(x[i] - max));
        const real log_sum = real_log(sum);
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - max) - log_sum;
    } else {
        LANE_SUM(sum, n, y[i] = real_exp(x[i] - max));
        const real inv_sum = 1 / sum; /* one division per row */
        for (int64_t i = 0; i < n; i++)
            y[i] = y[i] * inv_sum;
    }
}

static void softmax_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    for (int64_t row = begin; row < end; row++)
        softmax_row((real *)job->ptr[0] + row * n, (const real *)job->ptr[1] + row * n, n,
                    job->args->log);
}

static void softmax(const fv_exec *exec, void *const *ptr, const void *args)
{
    const softmax_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 10 * job.args->cols, softmax_range, &job);
}

static void softmax_grad_row(const fv_exec *exec, real *dx, const real *y, const real *g, int64_t n,
                             bool log)
{
    (void)exec;
    real sum;
    if (log) {
        LANE_SUM(sum, n, g[i]);
        for (int64_t i = 0; i < n; i++)
            dx[i] = FV_TERM(exec, 0, g[i], 0) - FV_TERM(exec, 1, real_exp(y[i]) * sum, 0);
    } else {
        LANE_SUM(sum, n, y[i] * g[i]);
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (FV_TERM(exec, 0, g[i], 0) - FV_TERM(exec, 1, sum, 0));
    }
}

static void softmax_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    for (int64_t row = begin; row < end; row++)
        softmax_grad_row(job->exec, (real *)job->ptr[0] + row * n,
                         (const real *)job->ptr[1] + row * n, (const real *)job->ptr[2] + row * n,
                         n, job->args->log);
}

static void softmax_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const softmax_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, (job.args->log ? 10 : 3) * job.args->cols,
                 softmax_grad_range, &job);
}

void FV_NAME(fv_ref_softmax_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SOFTMAX][FV_REAL_DTYPE] = softmax;
    t->fn[FV_KERNEL_SOFTMAX_GRAD][FV_REAL_DTYPE] = softmax_grad;
}

/* Cross-entropy of rows of logits against class indices, with label smoothing. */
#include "kernels/ref/lanes.h"
#include "kernels/rows.h"

typedef struct loss_job {
    const fv_exec *exec;
    const fv_cross_entropy_args *args;
    void *const *ptr;
} loss_job;

/* Whether the row counts; a target outside the classes is a fault and does not. */
static bool row_counts(const loss_job *job, int64_t target)
{
    if (target == job->args->ignore) return false;
    if (target >= 0 && target < job->args->cols) return true;
    fv_fault_raise(job->exec->fault, target, job->args->cols);
    return false;
}

/* (1 - s) (lse - x_t) + s (lse - mean(x)). Without smoothing the mean is not computed, so that a
 * masked class (-inf) does not spoil the row. Ignored rows get 0 for both results. */
static void cross_entropy_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const loss_job *job = arg;
    const int64_t n = job->args->cols;
    const real smoothing = (real)job->args->smoothing;
    real *losses = job->ptr[0], *lses = job->ptr[1];
    for (int64_t row = begin; row < end; row++) {
        const real *x = (const real *)job->ptr[2] + row * n;
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        real loss = 0, lse = 0;
        if (row_counts(job, target)) {
            lse = row_log_sum_exp(x, n);
            loss = (1 - smoothing) * (lse - x[target]);
            if (smoothing != 0) {
                real sum;
                LANE_SUM(sum, n, x[i]);
                loss = loss + smoothing * (lse - sum / (real)n);
            }
        }
        losses[row] = loss;
        lses[row] = lse;
    }
}

static void cross_entropy(const fv_exec *exec, void *const *ptr, const void *args)
{
    const loss_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 10 * job.args->cols, cross_entropy_range, &job);
}

/* dx = c ((e^(x - lse) - s/cols) - (1 - s) [i = target]), c = g / kept */
static void cross_entropy_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const loss_job *job = arg;
    const int64_t n = job->args->cols;
    const real smoothing = (real)job->args->smoothing;
    const real *scale = job->ptr[4];
    const real factor = scale[0] * scale[1];
    const real share = FV_TERM(job->exec, 2, smoothing / (real)n, 0);
    const real hit = FV_TERM(job->exec, 1, 1 - smoothing, 0);
    for (int64_t row = begin; row < end; row++) {
        real *dx = (real *)job->ptr[0] + row * n;
        const real *x = (const real *)job->ptr[1] + row * n;
        const real lse = ((const real *)job->ptr[2])[row];
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        if (!row_counts(job, target)) {
            for (int64_t i = 0; i < n; i++)
                dx[i] = 0;
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            real v = FV_TERM(job->exec, 0, real_exp(x[i] - lse), 0) - share;
            if (i == target) v = v - hit;
            dx[i] = factor * v;
        }
    }
}

static void cross_entropy_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const loss_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 10 * job.args->cols, cross_entropy_grad_range, &job);
}

void FV_NAME(fv_ref_loss_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CROSS_ENTROPY][FV_REAL_DTYPE] = cross_entropy;
    t->fn[FV_KERNEL_CROSS_ENTROPY_GRAD][FV_REAL_DTYPE] = cross_entropy_grad;
}

/* Cross-entropy of rows of logits against class indices, with label smoothing. */
#include "kernels/rows.h"
#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

typedef struct loss_job {
    const fv_exec *exec;
    const fv_cross_entropy_args *args;
    void *const *ptr;
    bool stream;
} loss_job;

/* Whether the row counts; a target outside the classes is a fault and does not. */
static bool row_counts(const loss_job *job, int64_t target)
{
    if (target == job->args->ignore) return false;
    if (target >= 0 && target < job->args->cols) return true;
    fv_fault_raise(job->exec->fault, target, job->args->cols);
    return false;
}

static void cross_entropy_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const loss_job *job = arg;
    const int64_t n = job->args->cols;
    const float smoothing = (float)job->args->smoothing;
    float *losses = job->ptr[0], *lses = job->ptr[1];
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)job->ptr[2] + row * n;
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        float loss = 0, lse = 0;
        if (row_counts(job, target)) {
            lse = v_row_log_sum_exp(x, n);
            loss = (1 - smoothing) * (lse - x[target]);
            if (smoothing != 0) {
                float sum;
                V_SUM(sum, n, v_load(x + i, count));
                loss = loss + smoothing * (lse - sum / (float)n);
            }
        }
        losses[row] = loss;
        lses[row] = lse;
    }
}

static void cross_entropy(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, false};
    fv_exec_rows(exec, a->rows, 2 * a->cols + 16, cross_entropy_range, &job);
}

/* dx = c ((e^(x - lse) - s/cols) - (1 - s) [i = target]), c = g / kept */
static void cross_entropy_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const loss_job *job = arg;
    const int64_t n = job->args->cols;
    const float smoothing = (float)job->args->smoothing;
    const float *scale = job->ptr[4];
    const vf zero = v_zero(), factor = v_set(scale[0] * scale[1]);
    const vf share = FV_TERM(job->exec, 2, v_set(smoothing / (float)n), zero);
    const vf hit = FV_TERM(job->exec, 1, v_set(1 - smoothing), zero);
    for (int64_t row = begin; row < end; row++) {
        float *dx = (float *)job->ptr[0] + row * n;
        const float *x = (const float *)job->ptr[1] + row * n;
        const vf lse = v_set(((const float *)job->ptr[2])[row]);
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        if (!row_counts(job, target)) {
            V_LOOP(n, 0, v_store(dx + i, count, zero));
            continue;
        }
        V_LOOP(n, v_head(dx, n, job->stream), const vf p = v_exp(v_sub(v_load(x + i, count), lse));
               const vf v = v_sub(FV_TERM(job->exec, 0, p, zero), share);
               const vm is_target = vi_eq(vi_count(), vi_set((uint32_t)(target - i)));
               v_put(dx + i, count, v_mul(factor, v_select(is_target, v_sub(v, hit), v)),
                     job->stream));
    }
    v_stream_end(job->stream);
}

static void cross_entropy_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, v_streams(a->rows, a->cols, ptr[0], ptr[1])};
    v_rows(exec, job.stream, a->rows, 2 * a->cols, cross_entropy_grad_range, &job);
}

void fv_simd_loss_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CROSS_ENTROPY][FV_F32] = cross_entropy;
    t->fn[FV_KERNEL_CROSS_ENTROPY_GRAD][FV_F32] = cross_entropy_grad;
}

/* Cross-entropy of rows of logits against class indices, with label smoothing. Logits and their
 * gradient are floats or bf16, which are widened and rounded in registers (kernels/bf16.h). */
#include <string.h>

#include "kernels/half.h"
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

/* Rows are floats, or bf16 if `bf16` is true: a compile-time constant of each instance. */
V_INLINE void losses_of(const loss_job *job, const bool bf16, int64_t begin, int64_t end)
{
    const int64_t n = job->args->cols, size = bf16 ? sizeof(uint16_t) : sizeof(float);
    const float smoothing = (float)job->args->smoothing;
    float *losses = job->ptr[0], *lses = job->ptr[1];
    for (int64_t row = begin; row < end; row++) {
        const void *x = (const char *)job->ptr[2] + row * n * size;
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        float loss = 0, lse = 0;
        if (row_counts(job, target)) {
            const float hit =
                bf16 ? fv_bf16_to_f32(((const uint16_t *)x)[target]) : ((const float *)x)[target];
            lse = v_row_log_sum_exp_of(x, bf16, n);
            loss = (1 - smoothing) * (lse - hit);
            if (smoothing != 0) {
                float sum;
                V_SUM(sum, n, v_load_of(x, bf16, i, count));
                loss = loss + smoothing * (lse - sum / (float)n);
            }
        }
        losses[row] = loss;
        lses[row] = lse;
    }
}

/* dx = c ((e^(x - lse) - s/cols) - (1 - s) [i = target]), c = g / kept */
V_INLINE void gradients_of(const loss_job *job, const bool bf16, int64_t begin, int64_t end)
{
    const int64_t n = job->args->cols, size = bf16 ? sizeof(uint16_t) : sizeof(float);
    const float smoothing = (float)job->args->smoothing;
    const float *scale = job->ptr[4];
    const vf factor = v_set(scale[0] * scale[1]);
    const vf share = FV_TERM(job->exec, 2, v_set(smoothing / (float)n), v_zero());
    const vf hit = FV_TERM(job->exec, 1, v_set(1 - smoothing), v_zero());
    for (int64_t row = begin; row < end; row++) {
        float *dx = (float *)job->ptr[0] + row * n;
        uint16_t *half = (uint16_t *)job->ptr[0] + row * n;
        const void *x = (const char *)job->ptr[1] + row * n * size;
        const vf lse = v_set(((const float *)job->ptr[2])[row]);
        const int64_t target = ((const int64_t *)job->ptr[3])[row];
        if (!row_counts(job, target)) {
            memset((char *)job->ptr[0] + row * n * size, 0, (size_t)(n * size));
            continue;
        }
        V_LOOP(n, bf16 ? 0 : v_head(dx, n, job->stream),
               const vf p = v_exp(v_sub(v_load_of(x, bf16, i, count), lse));
               const vf v = v_sub(FV_TERM(job->exec, 0, p, v_zero()), share);
               const vm is_target = vi_eq(vi_count(), vi_set((uint32_t)(target - i)));
               const vf d = v_mul(factor, v_select(is_target, v_sub(v, hit), v));
               if (bf16) v_store_half(FV_BF16, half + i, count, d);
               else v_put(dx + i, count, d, job->stream));
    }
    v_stream_end(job->stream);
}

#define RANGE(name, of, bf16)                                                                      \
    static void name(const void *arg, int64_t begin, int64_t end, int thread)                      \
    {                                                                                              \
        (void)thread;                                                                              \
        of(arg, bf16, begin, end);                                                                 \
    }
RANGE(losses_f32, losses_of, false)
RANGE(losses_bf16, losses_of, true)
RANGE(gradients_f32, gradients_of, false)
RANGE(gradients_bf16, gradients_of, true)

static void cross_entropy(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, false};
    fv_exec_rows(exec, a->rows, 2 * a->cols + 16, losses_f32, &job);
}

static void cross_entropy_bf16(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, false};
    fv_exec_rows(exec, a->rows, 2 * a->cols + 16, losses_bf16, &job);
}

static void cross_entropy_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, v_streams(a->rows, a->cols, ptr[0], ptr[1])};
    v_rows(exec, job.stream, a->rows, 2 * a->cols, gradients_f32, &job);
}

static void cross_entropy_grad_bf16(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cross_entropy_args *a = args;
    const loss_job job = {exec, a, ptr, false};
    fv_exec_rows(exec, a->rows, 2 * a->cols + 16, gradients_bf16, &job);
}

void fv_simd_loss_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CROSS_ENTROPY][FV_F32] = cross_entropy;
    t->fn[FV_KERNEL_CROSS_ENTROPY_GRAD][FV_F32] = cross_entropy_grad;
    t->fn[FV_KERNEL_CROSS_ENTROPY][FV_BF16] = cross_entropy_bf16;
    t->fn[FV_KERNEL_CROSS_ENTROPY_GRAD][FV_BF16] = cross_entropy_grad_bf16;
    t->bf16_scratch[FV_KERNEL_CROSS_ENTROPY] = NULL;
    t->bf16_scratch[FV_KERNEL_CROSS_ENTROPY_GRAD] = NULL;
}

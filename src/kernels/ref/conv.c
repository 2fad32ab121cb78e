/* Windows of a causal dilated convolution: to rows and back. */
#include "kernels/conv.h"

#include "kernels/ref/real.h"

typedef struct conv_job {
    const fv_unfold_args *args;
    real *out;
    const real *in;
} conv_job;

/* Work items are (batch, time): one row of windows each. */
static void unfold_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv_job *job = arg;
    const fv_unfold_args *a = job->args;
    for (int64_t item = begin; item < end; item++) {
        const int64_t batch = item / a->length, t = item % a->length;
        real *out = job->out + item * a->channels * a->k;
        for (int64_t c = 0; c < a->channels; c++) {
            const real *x = job->in + (batch * a->channels + c) * a->length;
            for (int64_t j = 0; j < a->k; j++) {
                const int64_t from = t - (a->k - 1 - j) * a->dilation;
                *out++ = from >= 0 ? x[from] : 0;
            }
        }
    }
}

static void unfold(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_unfold_args *a = args;
    const conv_job job = {.args = a, .out = ptr[0], .in = ptr[1]};
    fv_exec_rows(exec, a->batch * a->length, a->channels * a->k, unfold_range, &job);
}

/* Work items are (batch, time) of x: each element sums the windows that copied it. */
static void fold_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv_job *job = arg;
    const fv_unfold_args *a = job->args;
    const int64_t width = a->channels * a->k;
    for (int64_t item = begin; item < end; item++) {
        const int64_t batch = item / a->length, t = item % a->length;
        const real *rows = job->in + batch * a->length * width;
        for (int64_t c = 0; c < a->channels; c++) {
            real sum = 0;
            for (int64_t j = 0; j < a->k; j++) {
                const int64_t at = t + (a->k - 1 - j) * a->dilation;
                if (at < a->length) sum += rows[at * width + c * a->k + j];
            }
            job->out[(batch * a->channels + c) * a->length + t] = sum;
        }
    }
}

static void fold(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_unfold_args *a = args;
    const conv_job job = {.args = a, .out = ptr[0], .in = ptr[1]};
    fv_exec_rows(exec, a->batch * a->length, a->channels * a->k, fold_range, &job);
}

void FV_NAME(fv_ref_conv_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_UNFOLD1D][FV_REAL_DTYPE] = unfold;
    t->fn[FV_KERNEL_FOLD1D][FV_REAL_DTYPE] = fold;
}

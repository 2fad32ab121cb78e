/* Row softmax and log-softmax, and the backward of both. */
#include "kernels/rows.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/rowsum.h"

/* Exponentials of a row as short as this wait on the stack when the output is streamed. */
enum { WAITING = 2048 };

typedef struct softmax_job {
    const fv_exec *exec;
    const fv_softmax_args *args;
    void *const *ptr;
    bool stream;
} softmax_job;

static void fill_row(float *y, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

static void log_softmax_row(float *y, const float *x, int64_t n, bool stream)
{
    const float most = v_row_max(x, n);
    if (most == -INFINITY) {
        fill_row(y, n, most);
        return;
    }
    const vf shift = v_set(most),
             log_sum = v_set(fv_logf_ref(v_row_exps(x, n, most, NULL, stream)));
    V_LOOP(n, v_head(y, n, stream),
           v_put(y + i, count, v_sub(v_sub(v_load(x + i, count), shift), log_sum), stream));
}

/* Exponentials go to y, or, where y is streamed, wait in a buffer (short rows) or are computed
 * again (long rows): so y is written once. */
static void softmax_row(float *y, const float *x, int64_t n, bool stream)
{
    const float most = v_row_max(x, n);
    if (most == -INFINITY) { /* nothing to attend to: no weight anywhere */
        fill_row(y, n, 0);
        return;
    }
    if (stream && n > WAITING) {
        const vf share = v_set(1 / v_row_exps(x, n, most, NULL, false)), shift = v_set(most);
        V_LOOP(n, v_head(y, n, true),
               v_put(y + i, count, v_mul(v_exp(v_sub(v_load(x + i, count), shift)), share), true));
        return;
    }
    float waiting[WAITING];
    float *e = stream ? waiting : y;
    const vf share = v_set(1 / v_row_exps(x, n, most, e, stream));
    V_LOOP(n, v_head(y, n, stream),
           v_put(y + i, count, v_mul(v_load(e + i, count), share), stream));
}

static void softmax_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    for (int64_t row = begin; row < end; row++) {
        float *y = (float *)job->ptr[0] + row * n;
        const float *x = (const float *)job->ptr[1] + row * n;
        if (job->args->log)
            log_softmax_row(y, x, n, job->stream);
        else
            softmax_row(y, x, n, job->stream);
    }
    v_stream_end(job->stream);
}

static void softmax(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_softmax_args *a = args;
    const softmax_job job = {exec, a, ptr, v_streams(a->rows, a->cols, ptr[0], ptr[1])};
    fv_exec_rows(exec, a->rows, 2 * a->cols + 16, softmax_range, &job);
}

/* ---- backward -------------------------------------------------------------------- */

static void softmax_grad_row(const softmax_job *job, float *dx, const float *y, const float *g,
                             int64_t n)
{
    const vf zero = v_zero();
    (void)zero; /* used by the test build's FV_TERM */
    float total;
    if (job->args->log) {
        V_SUM(total, n, v_load(g + i, count));
        const vf sum = v_set(total);
        V_LOOP(n, v_head(dx, n, job->stream),
               const vf up = FV_TERM(job->exec, 0, v_load(g + i, count), zero);
               const vf down = v_mul(v_exp(v_load(y + i, count)), sum);
               v_put(dx + i, count, v_sub(up, FV_TERM(job->exec, 1, down, zero)), job->stream));
    } else {
        V_SUM(total, n, v_mul(v_load(y + i, count), v_load(g + i, count)));
        const vf sum = FV_TERM(job->exec, 1, v_set(total), zero);
        V_LOOP(n, v_head(dx, n, job->stream),
               const vf up = FV_TERM(job->exec, 0, v_load(g + i, count), zero);
               v_put(dx + i, count, v_mul(v_load(y + i, count), v_sub(up, sum)), job->stream));
    }
}

static void softmax_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    for (int64_t row = begin; row < end; row++)
        softmax_grad_row(job, (float *)job->ptr[0] + row * n, (const float *)job->ptr[1] + row * n,
                         (const float *)job->ptr[2] + row * n, n);
    v_stream_end(job->stream);
}

static void softmax_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_softmax_args *a = args;
    const bool stream = v_streams(a->rows, a->cols, ptr[0], ptr[1]) && ptr[0] != ptr[2];
    const softmax_job job = {exec, a, ptr, stream};
    fv_exec_rows(exec, a->rows, a->cols + 16, softmax_grad_range, &job);
}

void FV_SIMD_NAME(fv_simd_softmax_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SOFTMAX][FV_F32] = softmax;
    t->fn[FV_KERNEL_SOFTMAX_GRAD][FV_F32] = softmax_grad;
}

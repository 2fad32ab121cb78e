/* Row softmax and log-softmax, and the backward of both. */
#include "kernels/rows.h"
#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

/* With streaming stores, exponentials of rows up to this length are buffered on the stack. */
enum { BUFFERED = 2048 };

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
    const float max = v_row_max(x, n);
    if (max == -INFINITY) {
        fill_row(y, n, max);
        return;
    }
    const vf shift = v_set(max), log_sum = v_set(fv_logf_ref(v_row_exps(x, n, max, NULL, stream)));
    V_LOOP(n, v_head(y, n, stream),
           v_put(y + i, count, v_sub(v_sub(v_load(x + i, count), shift), log_sum), stream));
}

/* ---- streamed output -----------------------------------------------------------------
 * Three rows are processed at a time: while the exponentials of one row are computed, the previous
 * row is scaled and streamed out, and the maximum of the next row is found. Row by row, memory
 * would idle during the arithmetic, and the arithmetic during the burst of stores. */

typedef struct pipeline {
    const float *x, *next; /* the current row and the next one (or any row) */
    float max;             /* maximum of x; NaN may be ignored */
    float *e;              /* exponentials of the previous row, replaced by those of x */
    float *y, inv_sum;     /* the previous row: its result and the inverse of its sum */
} pipeline;

/* Returns the sum of e; *next_max: the maximum of next, ignoring NaN. */
static float advance(const pipeline *t, int64_t n, float *next_max)
{
    enum { STEP = V_GROUP * FV_LANES };
    const vf shift = v_set(t->max), inv_sum = v_set(t->inv_sum), low = v_set(-INFINITY);
    const int64_t head = v_head(t->y, n, true);
    const float *previous = t->e + head; /* read before t->e is overwritten there */
    float *y = t->y + head;
    vf sum = v_zero(), max = low;
    V_LOOP(head, 0, v_store(t->y + i, count, v_mul(v_load(t->e + i, count), inv_sum)));
    int64_t done = 0;
    for (; head + done + STEP <= n; done += STEP) {
        vf v[V_GROUP];
        for (int k = 0; k < V_GROUP; k++) {
            const int64_t i = done + k * FV_LANES;
            v[k] = v_sub(v_load(t->x + i, FV_LANES), shift);
            max = v_max(v_load(t->next + i, FV_LANES), max);
            v_prefetch(t->next + i, FV_STREAM_AHEAD);
            v_stream(y + i, v_mul(v_load(previous + i, FV_LANES), inv_sum));
        }
        v_exp_many(v, V_GROUP);
        for (int k = 0; k < V_GROUP; k++) {
            v_store(t->e + done + k * FV_LANES, FV_LANES, v[k]);
            sum = v_add(sum, v[k]);
        }
    }
    const float *x = t->x + done, *next = t->next + done;
    y += done;
    previous += done;
    V_LOOP(n - head - done, 0,
           v_put(y + i, count, v_mul(v_load(previous + i, count), inv_sum), true));
    V_LOOP(n - done, 0, max = v_max(v_keep(count, v_load(next + i, count), low), max));
    *next_max = v_reduce_max(max);
    return v_reduce_sum(v_add_exps(sum, x, n - done, shift, t->e + done, false));
}

/* The factor for exponentials with this sum. A row whose maximum is -inf is either all -inf and
 * gets no weight (its sum is NaN), or contains a NaN. */
static float inverse_sum(const float *x, float *e, int64_t n, float max, float sum)
{
    if (max == -INFINITY && !isnan(v_row_max(x, n))) {
        fill_row(e, n, 0);
        return 0;
    }
    return 1 / sum;
}

/* Rows of up to BUFFERED columns; y is not x. */
static void softmax_streamed(float *y, const float *x, int64_t rows, int64_t n)
{
    _Alignas(64) float e[BUFFERED];
    float max = v_row_max(x, n);
    pipeline t = {.e = e, .y = y};
    t.inv_sum = inverse_sum(x, e, n, max, v_row_exps(x, n, max, e, true));
    if (rows > 1) max = v_row_max(x + n, n);
    for (int64_t row = 1; row < rows; row++, t.y += n) {
        t.x = x + row * n;
        t.next = row + 1 < rows ? t.x + n : t.x;
        t.max = max;
        const float sum = advance(&t, n, &max);
        t.inv_sum = inverse_sum(t.x, e, n, t.max, sum);
    }
    const vf inv_sum = v_set(t.inv_sum);
    V_LOOP(n, v_head(t.y, n, true),
           v_put(t.y + i, count, v_mul(v_load(e + i, count), inv_sum), true));
}

/* ---- row by row -------------------------------------------------------------------- */

/* Exponentials are stored in y or, if y is streamed, computed twice, so that y is written only
 * once. */
static void softmax_row(float *y, const float *x, int64_t n, bool stream)
{
    const float max = v_row_max(x, n);
    if (max == -INFINITY) { /* all -inf: no weight anywhere */
        fill_row(y, n, 0);
        return;
    }
    const vf inv_sum = v_set(1 / v_row_exps(x, n, max, stream ? NULL : y, false));
    const vf shift = v_set(max);
    if (stream)
        V_LOOP(
            n, v_head(y, n, true),
            v_put(y + i, count, v_mul(v_exp(v_sub(v_load(x + i, count), shift)), inv_sum), true));
    else
        V_LOOP(n, 0, v_store(y + i, count, v_mul(v_load(y + i, count), inv_sum)));
}

static void softmax_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    float *y = (float *)job->ptr[0] + begin * n;
    const float *x = (const float *)job->ptr[1] + begin * n;
    if (!job->args->log && job->stream && n <= BUFFERED) {
        softmax_streamed(y, x, end - begin, n);
    } else {
        for (int64_t row = begin; row < end; row++, x += n, y += n)
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
    v_rows(exec, job.stream, a->rows, 2 * a->cols, softmax_range, &job);
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
    v_rows(exec, job.stream, a->rows, a->cols, softmax_grad_range, &job);
}

void fv_simd_softmax_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SOFTMAX][FV_F32] = softmax;
    t->fn[FV_KERNEL_SOFTMAX_GRAD][FV_F32] = softmax_grad;
}

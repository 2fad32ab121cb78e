/* Row softmax and log-softmax, and the backward of both. */
#include "kernels/rows.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/rowsum.h"

/* Exponentials of rows as short as this wait on the stack when the output is streamed. */
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

/* ---- past the caches ---------------------------------------------------------------
 * Three rows are in hand at a time: while one is raised to its exponentials, the one before it is
 * scaled and streamed out and the maximum of the one after it is found. Row by row, memory would
 * idle during the arithmetic, and arithmetic during the burst of stores.
 */

typedef struct turn {
    const float *x, *next; /* the row in hand and the one after it (or any row) */
    float most;            /* x's maximum; a NaN need not count */
    float *e;              /* exponentials of the row before, which those of x replace */
    float *y, share;       /* the row before: its result and the inverse of its sum */
} turn;

/* The sum of e; *next_most: next's maximum, NaN left out. */
static float take_turn(const turn *t, int64_t n, float *next_most)
{
    enum { STEP = V_GROUP * FV_LANES };
    const vf shift = v_set(t->most), share = v_set(t->share), low = v_set(-INFINITY);
    const int64_t head = v_head(t->y, n, true);
    const float *before = t->e + head; /* read before t->e is written there */
    float *y = t->y + head;
    vf sum = v_zero(), most = low;
    V_LOOP(head, 0, v_store(t->y + i, count, v_mul(v_load(t->e + i, count), share)));
    int64_t done = 0;
    for (; head + done + STEP <= n; done += STEP) {
        vf v[V_GROUP];
        for (int k = 0; k < V_GROUP; k++) {
            const int64_t i = done + k * FV_LANES;
            v[k] = v_sub(v_load(t->x + i, FV_LANES), shift);
            most = v_max(v_load(t->next + i, FV_LANES), most);
            v_prefetch(t->next + i, FV_STREAM_AHEAD);
            v_stream(y + i, v_mul(v_load(before + i, FV_LANES), share));
        }
        v_exp_many(v, V_GROUP);
        for (int k = 0; k < V_GROUP; k++) {
            v_store(t->e + done + k * FV_LANES, FV_LANES, v[k]);
            sum = v_add(sum, v[k]);
        }
    }
    const float *x = t->x + done, *next = t->next + done;
    y += done;
    before += done;
    V_LOOP(n - head - done, 0, v_put(y + i, count, v_mul(v_load(before + i, count), share), true));
    V_LOOP(n - done, 0, most = v_max(v_keep(count, v_load(next + i, count), low), most));
    *next_most = v_join_max(most);
    return v_join(v_add_exps(sum, x, n - done, shift, t->e + done, false));
}

/* What exponentials with this sum are multiplied by. A row without a maximum was one of -inf
 * alone, to which no weight belongs (its sum says NaN), or has a NaN. */
static float share_of(const float *x, float *e, int64_t n, float most, float sum)
{
    if (most == -INFINITY && !isnan(v_row_max(x, n))) {
        fill_row(e, n, 0);
        return 0;
    }
    return 1 / sum;
}

/* Rows of up to WAITING columns, y not x. */
static void softmax_streamed(float *y, const float *x, int64_t rows, int64_t n)
{
    _Alignas(64) float e[WAITING];
    float most = v_row_max(x, n);
    turn t = {.e = e, .y = y};
    t.share = share_of(x, e, n, most, v_row_exps(x, n, most, e, true));
    if (rows > 1) most = v_row_max(x + n, n);
    for (int64_t row = 1; row < rows; row++, t.y += n) {
        t.x = x + row * n;
        t.next = row + 1 < rows ? t.x + n : t.x;
        t.most = most;
        const float sum = take_turn(&t, n, &most);
        t.share = share_of(t.x, e, n, t.most, sum);
    }
    const vf share = v_set(t.share);
    V_LOOP(n, v_head(t.y, n, true),
           v_put(t.y + i, count, v_mul(v_load(e + i, count), share), true));
}

/* ---- row by row -------------------------------------------------------------------- */

/* Exponentials go to y, or, where y is streamed, are computed again: so y is written once. */
static void softmax_row(float *y, const float *x, int64_t n, bool stream)
{
    const float most = v_row_max(x, n);
    if (most == -INFINITY) { /* nothing to attend to: no weight anywhere */
        fill_row(y, n, 0);
        return;
    }
    const vf share = v_set(1 / v_row_exps(x, n, most, stream ? NULL : y, false));
    const vf shift = v_set(most);
    if (stream)
        V_LOOP(n, v_head(y, n, true),
               v_put(y + i, count, v_mul(v_exp(v_sub(v_load(x + i, count), shift)), share), true));
    else
        V_LOOP(n, 0, v_store(y + i, count, v_mul(v_load(y + i, count), share)));
}

static void softmax_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const softmax_job *job = arg;
    const int64_t n = job->args->cols;
    float *y = (float *)job->ptr[0] + begin * n;
    const float *x = (const float *)job->ptr[1] + begin * n;
    if (!job->args->log && job->stream && n <= WAITING) {
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

void fv_simd_softmax_fill(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SOFTMAX][FV_F32] = softmax;
    t->fn[FV_KERNEL_SOFTMAX_GRAD][FV_F32] = softmax_grad;
}

/* Layer norm and RMS norm over rows; gradients of the input and of gamma and beta. */
#include "kernels/rows.h"
#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

typedef struct norm_job {
    const fv_exec *exec;
    const fv_norm_args *args;
    void *const *ptr;
    bool stream;
} norm_job;

/* An empty row divides by 1: its mean is 0, not NaN. */
static float length(int64_t cols) { return cols > 0 ? (float)cols : 1; }

/* ---- forward ---------------------------------------------------------------------- */

static void layer_norm_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    float *means = job->ptr[1], *rstds = job->ptr[2];
    const float *gamma = job->ptr[4], *beta = job->ptr[5];
    for (int64_t row = begin; row < end; row++) {
        float *y = (float *)job->ptr[0] + row * n;
        const float *x = (const float *)job->ptr[3] + row * n;
        float sum;
        V_SUM(sum, n, v_load(x + i, count));
        const float mean = sum / length(n);
        const vf shift = v_set(mean);
        vf squares = v_zero();
        V_LOOP(n, 0, const vf d = v_sub(v_load(x + i, count), shift);
               if (job->stream) v_prefetch(x + i, v_row_ahead(n));
               squares = v_add(squares, v_keep(count, v_mul(d, d), v_zero())));
        const float rstd = 1 / sqrtf(v_reduce_sum(squares) / length(n) + (float)job->args->eps);
        const vf scale = v_set(rstd);
        V_LOOP(
            n, v_head(y, n, job->stream), vf v = v_mul(v_sub(v_load(x + i, count), shift), scale);
            if (gamma) v = v_mul(v, v_load(gamma + i, count));
            if (beta) v = v_add(v, v_load(beta + i, count)); v_put(y + i, count, v, job->stream));
        if (means) means[row] = mean;
        if (rstds) rstds[row] = rstd;
    }
    v_stream_end(job->stream);
}

static void layer_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const norm_job job = {exec, a, ptr, v_streams(a->rows, a->cols, ptr[0], ptr[3])};
    v_rows(exec, job.stream, a->rows, a->cols, layer_norm_range, &job);
}

static void rms_norm_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    float *rrmss = job->ptr[1];
    const float *gamma = job->ptr[3];
    for (int64_t row = begin; row < end; row++) {
        float *y = (float *)job->ptr[0] + row * n;
        const float *x = (const float *)job->ptr[2] + row * n;
        float sum;
        V_SUM(sum, n, v_mul(v_load(x + i, count), v_load(x + i, count)));
        const float rrms = 1 / sqrtf(sum / length(n) + (float)job->args->eps);
        const vf scale = v_set(rrms);
        V_LOOP(n, v_head(y, n, job->stream), vf v = v_mul(v_load(x + i, count), scale);
               if (job->stream) v_prefetch(x + i, v_row_ahead(n));
               if (gamma) v = v_mul(v, v_load(gamma + i, count));
               v_put(y + i, count, v, job->stream));
        if (rrmss) rrmss[row] = rrms;
    }
    v_stream_end(job->stream);
}

static void rms_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const norm_job job = {exec, a, ptr, v_streams(a->rows, a->cols, ptr[0], ptr[2])};
    v_rows(exec, job.stream, a->rows, a->cols, rms_norm_range, &job);
}

/* ---- dx --------------------------------------------------------------------------- */

/* u = g gamma */
#define U (gamma ? v_mul(v_load(g + i, count), v_load(gamma + i, count)) : v_load(g + i, count))

/* dx = rstd ((u - mean(u)) - h mean(u h)), h = (x - mean) rstd */
static void layer_norm_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const float *gamma = job->ptr[5];
    const vf zero = v_zero();
    for (int64_t row = begin; row < end; row++) {
        float *dx = (float *)job->ptr[0] + row * n;
        const float *g = (const float *)job->ptr[1] + row * n;
        const float *x = (const float *)job->ptr[2] + row * n;
        const vf mean = v_set(((const float *)job->ptr[3])[row]);
        const vf rstd = v_set(((const float *)job->ptr[4])[row]);
        vf sum_u = zero, sum_uh = zero;
#define H v_mul(v_sub(v_load(x + i, count), mean), rstd)
        V_LOOP(n, 0, const vf u = U; const vf uh = v_mul(u, H);
               sum_u = v_add(sum_u, v_keep(count, u, zero));
               sum_uh = v_add(sum_uh, v_keep(count, uh, zero)));
        const vf mean_u = FV_TERM(job->exec, 1, v_set(v_reduce_sum(sum_u) / length(n)), zero);
        const vf mean_uh = FV_TERM(job->exec, 2, v_set(v_reduce_sum(sum_uh) / length(n)), zero);
        V_LOOP(n, v_head(dx, n, job->stream),
               const vf u = v_sub(FV_TERM(job->exec, 0, U, zero), mean_u);
               v_put(dx + i, count, v_mul(rstd, v_sub(u, v_mul(H, mean_uh))), job->stream));
#undef H
    }
    v_stream_end(job->stream);
}

static void layer_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const bool stream = v_streams(a->rows, a->cols, ptr[0], ptr[1]) && ptr[0] != ptr[2];
    const norm_job job = {exec, a, ptr, stream};
    v_rows(exec, job.stream, a->rows, a->cols, layer_norm_grad_range, &job);
}

/* dx = rrms (u - h mean(u h)), h = x rrms */
static void rms_norm_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const float *gamma = job->ptr[4];
    const vf zero = v_zero();
    for (int64_t row = begin; row < end; row++) {
        float *dx = (float *)job->ptr[0] + row * n;
        const float *g = (const float *)job->ptr[1] + row * n;
        const float *x = (const float *)job->ptr[2] + row * n;
        const vf rrms = v_set(((const float *)job->ptr[3])[row]);
        float sum_uh;
#define H v_mul(v_load(x + i, count), rrms)
        V_SUM(sum_uh, n, v_mul(U, H));
        const vf mean_uh = FV_TERM(job->exec, 1, v_set(sum_uh / length(n)), zero);
        V_LOOP(n, v_head(dx, n, job->stream), const vf u = FV_TERM(job->exec, 0, U, zero);
               v_put(dx + i, count, v_mul(rrms, v_sub(u, v_mul(H, mean_uh))), job->stream));
#undef H
    }
    (void)zero;
    v_stream_end(job->stream);
}

#undef U

static void rms_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const bool stream = v_streams(a->rows, a->cols, ptr[0], ptr[1]) && ptr[0] != ptr[2];
    const norm_job job = {exec, a, ptr, stream};
    v_rows(exec, job.stream, a->rows, a->cols, rms_norm_grad_range, &job);
}

/* ---- dgamma, dbeta ---------------------------------------------------------------- */

enum { TILE_VECS = 4, TILE = TILE_VECS * FV_LANES };

/* Sums the lanes of every column of a tile and stores the result or adds to it. */
static void reduce_tile(vf acc[FV_LANES][TILE_VECS], int64_t width, float *out, bool accumulate)
{
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int k = 0; k < w; k++)
            for (int j = 0; j < TILE_VECS; j++)
                acc[k][j] = v_add(acc[k][j], acc[k + w][j]);
    V_LOOP(width, 0, const vf sum = acc[0][i / FV_LANES];
           v_store(out + i, count, accumulate ? v_add(v_load(out + i, count), sum) : sum));
}

/* Work items are tiles of columns; row r of a column goes to lane r % 16. */
static void norm_param_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const float *means = job->ptr[4], *rstds = job->ptr[5];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t col = tile * TILE, width = n - col < TILE ? n - col : TILE;
        vf dgamma[FV_LANES][TILE_VECS], dbeta[FV_LANES][TILE_VECS];
        for (int k = 0; k < FV_LANES; k++)
            for (int j = 0; j < TILE_VECS; j++)
                dgamma[k][j] = dbeta[k][j] = v_zero();
        for (int64_t row = 0; row < job->args->rows; row++) {
            const float *g = (const float *)job->ptr[2] + row * n + col;
            const float *x = (const float *)job->ptr[3] + row * n + col;
            const vf mean = v_set(means ? means[row] : 0), rstd = v_set(rstds[row]);
            vf *to_gamma = dgamma[row % FV_LANES], *to_beta = dbeta[row % FV_LANES];
            V_LOOP(width, 0, const int64_t j = i / FV_LANES; const vf up = v_load(g + i, count);
                   const vf h = v_mul(v_sub(v_load(x + i, count), mean), rstd);
                   to_gamma[j] = v_add(to_gamma[j], v_mul(up, h));
                   to_beta[j] = v_add(to_beta[j], up));
        }
        const bool accumulate = job->args->accumulate;
        if (job->ptr[0]) reduce_tile(dgamma, width, (float *)job->ptr[0] + col, accumulate);
        if (job->ptr[1]) reduce_tile(dbeta, width, (float *)job->ptr[1] + col, accumulate);
    }
}

static void norm_param_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const norm_job job = {exec, a, ptr, false};
    fv_exec_rows(exec, (a->cols + TILE - 1) / TILE, TILE * a->rows, norm_param_grad_range, &job);
}

void fv_simd_norm_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_LAYER_NORM][FV_F32] = layer_norm;
    t->fn[FV_KERNEL_LAYER_NORM_GRAD][FV_F32] = layer_norm_grad;
    t->fn[FV_KERNEL_RMS_NORM][FV_F32] = rms_norm;
    t->fn[FV_KERNEL_RMS_NORM_GRAD][FV_F32] = rms_norm_grad;
    t->fn[FV_KERNEL_NORM_PARAM_GRAD][FV_F32] = norm_param_grad;
}

/* Layer norm and RMS norm over rows; gradients of the input and of gamma and beta. */
#include <string.h>

#include "kernels/ref/lanes.h"
#include "kernels/rows.h"

/* An empty row divides by 1: its mean is 0, not NaN. */
static real length(int64_t cols) { return cols > 0 ? (real)cols : 1; }

/* ---- forward -------------------------------------------------------------------- */

typedef struct norm_job {
    const fv_exec *exec;
    const fv_norm_args *args;
    void *const *ptr;
} norm_job;

static void layer_norm_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    real *means = job->ptr[1], *rstds = job->ptr[2];
    const real *gamma = job->ptr[4], *beta = job->ptr[5];
    for (int64_t row = begin; row < end; row++) {
        real *y = (real *)job->ptr[0] + row * n;
        const real *x = (const real *)job->ptr[3] + row * n;
        real sum;
        LANE_SUM(sum, n, x[i]);
        const real mean = sum / length(n);
        LANE_SUM(sum, n, (x[i] - mean) * (x[i] - mean));
        const real rstd = 1 / real_sqrt(sum / length(n) + (real)job->args->eps);
        for (int64_t i = 0; i < n; i++) {
            real v = (x[i] - mean) * rstd;
            if (gamma) v = v * gamma[i];
            if (beta) v = v + beta[i];
            y[i] = v;
        }
        if (means) means[row] = mean;
        if (rstds) rstds[row] = rstd;
    }
}

static void layer_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 6 * job.args->cols, layer_norm_range, &job);
}

static void rms_norm_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    real *rrmss = job->ptr[1];
    const real *gamma = job->ptr[3];
    for (int64_t row = begin; row < end; row++) {
        real *y = (real *)job->ptr[0] + row * n;
        const real *x = (const real *)job->ptr[2] + row * n;
        real sum;
        LANE_SUM(sum, n, x[i] * x[i]);
        const real rrms = 1 / real_sqrt(sum / length(n) + (real)job->args->eps);
        for (int64_t i = 0; i < n; i++)
            y[i] = gamma ? (x[i] * rrms) * gamma[i] : x[i] * rrms;
        if (rrmss) rrmss[row] = rrms;
    }
}

static void rms_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 4 * job.args->cols, rms_norm_range, &job);
}

/* ---- dx ------------------------------------------------------------------------- */

#define U (gamma ? g[i] * gamma[i] : g[i])

/* dx = rstd ((u - mean(u)) - h mean(u h)), h = (x - mean) rstd, u = g gamma */
static void layer_norm_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const real *gamma = job->ptr[5];
    for (int64_t row = begin; row < end; row++) {
        real *dx = (real *)job->ptr[0] + row * n;
        const real *g = (const real *)job->ptr[1] + row * n;
        const real *x = (const real *)job->ptr[2] + row * n;
        const real mean = ((const real *)job->ptr[3])[row];
        const real rstd = ((const real *)job->ptr[4])[row];
        real sum_u, sum_uh;
        LANE_SUM(sum_u, n, U);
        LANE_SUM(sum_uh, n, U * ((x[i] - mean) * rstd));
        const real mean_u = FV_TERM(job->exec, 1, sum_u / length(n), 0);
        const real mean_uh = FV_TERM(job->exec, 2, sum_uh / length(n), 0);
        for (int64_t i = 0; i < n; i++) {
            const real h = (x[i] - mean) * rstd;
            dx[i] = rstd * ((FV_TERM(job->exec, 0, U, 0) - mean_u) - h * mean_uh);
        }
    }
}

static void layer_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 8 * job.args->cols, layer_norm_grad_range, &job);
}

/* dx = rrms (u - h mean(u h)), h = x rrms */
static void rms_norm_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const real *gamma = job->ptr[4];
    for (int64_t row = begin; row < end; row++) {
        real *dx = (real *)job->ptr[0] + row * n;
        const real *g = (const real *)job->ptr[1] + row * n;
        const real *x = (const real *)job->ptr[2] + row * n;
        const real rrms = ((const real *)job->ptr[3])[row];
        real sum_uh;
        LANE_SUM(sum_uh, n, U * (x[i] * rrms));
        const real mean_uh = FV_TERM(job->exec, 1, sum_uh / length(n), 0);
        for (int64_t i = 0; i < n; i++)
            dx[i] = rrms * (FV_TERM(job->exec, 0, U, 0) - (x[i] * rrms) * mean_uh);
    }
}

#undef U

static void rms_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, 6 * job.args->cols, rms_norm_grad_range, &job);
}

/* ---- dgamma, dbeta -------------------------------------------------------------- */

enum { TILE = 32 };

static void reduce_tile(real acc[FV_LANES][TILE], int64_t count, real *out, bool accumulate)
{
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            for (int64_t c = 0; c < count; c++)
                acc[i][c] += acc[i + w][c];
    for (int64_t c = 0; c < count; c++)
        out[c] = accumulate ? out[c] + acc[0][c] : acc[0][c];
}

/* Work items are tiles of columns; row r of a column goes to lane r % 16. */
static void norm_param_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *job = arg;
    const int64_t n = job->args->cols;
    const real *means = job->ptr[4], *rstds = job->ptr[5];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t col = tile * TILE, count = n - col < TILE ? n - col : TILE;
        real dgamma[FV_LANES][TILE], dbeta[FV_LANES][TILE];
        memset(dgamma, 0, sizeof dgamma);
        memset(dbeta, 0, sizeof dbeta);
        for (int64_t row = 0; row < job->args->rows; row++) {
            const real *g = (const real *)job->ptr[2] + row * n + col;
            const real *x = (const real *)job->ptr[3] + row * n + col;
            const real mean = means ? means[row] : 0, rstd = rstds[row];
            real *to_gamma = dgamma[row % FV_LANES], *to_beta = dbeta[row % FV_LANES];
            for (int64_t c = 0; c < count; c++) {
                to_gamma[c] += g[c] * ((x[c] - mean) * rstd);
                to_beta[c] += g[c];
            }
        }
        if (job->ptr[0])
            reduce_tile(dgamma, count, (real *)job->ptr[0] + col, job->args->accumulate);
        if (job->ptr[1])
            reduce_tile(dbeta, count, (real *)job->ptr[1] + col, job->args->accumulate);
    }
}

static void norm_param_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const norm_job job = {exec, args, ptr};
    const int64_t tiles = (job.args->cols + TILE - 1) / TILE;
    fv_exec_rows(exec, tiles, 4 * TILE * job.args->rows, norm_param_grad_range, &job);
}

void FV_NAME(fv_ref_norm_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_LAYER_NORM][FV_REAL_DTYPE] = layer_norm;
    t->fn[FV_KERNEL_LAYER_NORM_GRAD][FV_REAL_DTYPE] = layer_norm_grad;
    t->fn[FV_KERNEL_RMS_NORM][FV_REAL_DTYPE] = rms_norm;
    t->fn[FV_KERNEL_RMS_NORM_GRAD][FV_REAL_DTYPE] = rms_norm_grad;
    t->fn[FV_KERNEL_NORM_PARAM_GRAD][FV_REAL_DTYPE] = norm_param_grad;
}

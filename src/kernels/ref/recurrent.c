/* Pointwise parts of LSTM and GRU cells. Vector versions keep the bracketing written here. */
#include "kernels/recurrent.h"

#include "kernels/ref/composite.h"

typedef struct cell_job {
    const fv_exec *exec;
    int64_t hidden;
    void *const *ptr;
} cell_job;

static void run_cell(const fv_exec *exec, void *const *ptr, const void *args, fv_range_fn fn)
{
    const fv_cell_args *a = args;
    const cell_job job = {exec, a->hidden, ptr};
    fv_exec_rows(exec, a->batch, 40 * a->hidden, fn, &job);
}

/* ---- LSTM ----------------------------------------------------------------------- */

static void lstm_cell_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    for (int64_t row = begin; row < end; row++) {
        real *h = (real *)job->ptr[0] + row * n, *c = (real *)job->ptr[1] + row * n;
        real *acts = job->ptr[2] ? (real *)job->ptr[2] + row * 4 * n : NULL;
        const real *xg = (const real *)job->ptr[3] + row * 4 * n;
        const real *hg = job->ptr[4] ? (const real *)job->ptr[4] + row * 4 * n : NULL;
        const real *c_prev = (const real *)job->ptr[5] + row * n;
        for (int64_t j = 0; j < n; j++) {
            real gate[4];
            for (int k = 0; k < 4; k++)
                gate[k] = hg ? xg[k * n + j] + hg[k * n + j] : xg[k * n + j];
            const real i = real_sigmoid(gate[0]), f = real_sigmoid(gate[1]);
            const real g = real_tanh(gate[2]), o = real_sigmoid(gate[3]);
            const real state = f * c_prev[j] + i * g;
            c[j] = state;
            h[j] = o * real_tanh(state);
            if (acts) {
                acts[j] = i;
                acts[n + j] = f;
                acts[2 * n + j] = g;
                acts[3 * n + j] = o;
            }
        }
    }
}

static void lstm_cell(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, lstm_cell_range);
}

static void lstm_cell_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    for (int64_t row = begin; row < end; row++) {
        real *d = (real *)job->ptr[0] + row * 4 * n;
        real *dc_prev = (real *)job->ptr[1] + row * n;
        const real *dh = job->ptr[2] ? (const real *)job->ptr[2] + row * n : NULL;
        const real *dc = job->ptr[3] ? (const real *)job->ptr[3] + row * n : NULL;
        const real *acts = (const real *)job->ptr[4] + row * 4 * n;
        const real *c = (const real *)job->ptr[5] + row * n;
        const real *c_prev = (const real *)job->ptr[6] + row * n;
        for (int64_t j = 0; j < n; j++) {
            const real i = acts[j], f = acts[n + j], g = acts[2 * n + j], o = acts[3 * n + j];
            const real up_h = dh ? dh[j] : 0, up_c = dc ? dc[j] : 0;
            const real tc = real_tanh(c[j]);
            const real dct = FV_TERM(job->exec, 0, up_c, 0) +
                             FV_TERM(job->exec, 1, (up_h * o) * (1 - tc * tc), 0);
            d[j] = FV_TERM(job->exec, 2, (dct * g) * (i * (1 - i)), 0);
            d[n + j] = FV_TERM(job->exec, 3, (dct * c_prev[j]) * (f * (1 - f)), 0);
            d[2 * n + j] = FV_TERM(job->exec, 4, (dct * i) * (1 - g * g), 0);
            d[3 * n + j] = FV_TERM(job->exec, 5, (up_h * tc) * (o * (1 - o)), 0);
            dc_prev[j] = dct * f;
        }
    }
}

static void lstm_cell_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, lstm_cell_grad_range);
}

/* ---- GRU ------------------------------------------------------------------------ */

static void gru_cell_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    for (int64_t row = begin; row < end; row++) {
        real *h = (real *)job->ptr[0] + row * n;
        real *acts = job->ptr[1] ? (real *)job->ptr[1] + row * 4 * n : NULL;
        const real *xg = (const real *)job->ptr[2] + row * 3 * n;
        const real *hg = (const real *)job->ptr[3] + row * 3 * n;
        const real *h_prev = (const real *)job->ptr[4] + row * n;
        for (int64_t j = 0; j < n; j++) {
            const real r = real_sigmoid(xg[j] + hg[j]);
            const real z = real_sigmoid(xg[n + j] + hg[n + j]);
            const real hn = hg[2 * n + j];
            const real c = real_tanh(xg[2 * n + j] + r * hn);
            h[j] = (1 - z) * c + z * h_prev[j];
            if (acts) {
                acts[j] = r;
                acts[n + j] = z;
                acts[2 * n + j] = c;
                acts[3 * n + j] = hn;
            }
        }
    }
}

static void gru_cell(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, gru_cell_range);
}

static void gru_cell_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    for (int64_t row = begin; row < end; row++) {
        real *dxg = (real *)job->ptr[0] + row * 3 * n, *dhg = (real *)job->ptr[1] + row * 3 * n;
        real *dh_prev = (real *)job->ptr[2] + row * n;
        const real *dh = (const real *)job->ptr[3] + row * n;
        const real *acts = (const real *)job->ptr[4] + row * 4 * n;
        const real *h_prev = (const real *)job->ptr[5] + row * n;
        for (int64_t j = 0; j < n; j++) {
            const real r = acts[j], z = acts[n + j], c = acts[2 * n + j], hn = acts[3 * n + j];
            const real dn = FV_TERM(job->exec, 0, (dh[j] * (1 - z)) * (1 - c * c), 0);
            const real gap = FV_TERM(job->exec, 1, h_prev[j], 0) - FV_TERM(job->exec, 2, c, 0);
            const real dz = (dh[j] * gap) * (z * (1 - z));
            const real dr = FV_TERM(job->exec, 3, (dn * hn) * (r * (1 - r)), 0);
            dxg[j] = dhg[j] = dr;
            dxg[n + j] = dhg[n + j] = dz;
            dxg[2 * n + j] = dn;
            dhg[2 * n + j] = dn * r;
            dh_prev[j] = FV_TERM(job->exec, 4, dh[j] * z, 0);
        }
    }
}

static void gru_cell_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, gru_cell_grad_range);
}

void FV_NAME(fv_ref_recurrent_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_LSTM_CELL][FV_REAL_DTYPE] = lstm_cell;
    t->fn[FV_KERNEL_LSTM_CELL_GRAD][FV_REAL_DTYPE] = lstm_cell_grad;
    t->fn[FV_KERNEL_GRU_CELL][FV_REAL_DTYPE] = gru_cell;
    t->fn[FV_KERNEL_GRU_CELL_GRAD][FV_REAL_DTYPE] = gru_cell_grad;
}

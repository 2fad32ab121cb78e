/* Pointwise parts of LSTM and GRU cells, in the bracketing of ref/recurrent.c. */
#include "kernels/recurrent.h"

#include "kernels/simd/fill.h"
#include "kernels/simd/vmath.h"

typedef struct cell_job {
    const fv_exec *exec;
    int64_t hidden;
    void *const *ptr;
} cell_job;

static void run_cell(const fv_exec *exec, void *const *ptr, const void *args, fv_range_fn fn)
{
    const fv_cell_args *a = args;
    const cell_job job = {exec, a->hidden, ptr};
    fv_exec_rows(exec, a->batch, 8 * a->hidden + 16, fn, &job);
}

/* Row `row` of pointer p, `wide` hidden vectors a row; NULL stays NULL. */
static float *row_of(const cell_job *job, int p, int64_t row, int64_t wide)
{
    float *base = job->ptr[p];
    return base ? base + row * wide * job->hidden : NULL;
}

#define AT(p) v_load((p) + i, count)

/* s (1 - s) and 1 - t^2 */
V_INLINE vf sigmoid_slope(vf s) { return v_mul(s, v_sub(v_set(1.0f), s)); }
V_INLINE vf tanh_slope(vf t) { return v_sub(v_set(1.0f), v_mul(t, t)); }

/* ---- LSTM ------------------------------------------------------------------------- */

static void lstm_cell_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    for (int64_t row = begin; row < end; row++) {
        float *h = row_of(job, 0, row, 1), *c = row_of(job, 1, row, 1);
        float *acts = row_of(job, 2, row, 4);
        const float *xg = row_of(job, 3, row, 4), *hg = row_of(job, 4, row, 4);
        const float *c_prev = row_of(job, 5, row, 1);
#define GATE(k) (hg ? v_add(AT(xg + (k)*n), AT(hg + (k)*n)) : AT(xg + (k)*n))
        V_LOOP(
            n, 0, const vf in = v_sigmoid(GATE(0)); const vf forget = v_sigmoid(GATE(1));
            const vf g = v_tanh(GATE(2)); const vf o = v_sigmoid(GATE(3));
            const vf state = v_add(v_mul(forget, AT(c_prev)), v_mul(in, g));
            v_store(c + i, count, state); v_store(h + i, count, v_mul(o, v_tanh(state)));
            if (acts) {
                v_store(acts + i, count, in);
                v_store(acts + n + i, count, forget);
                v_store(acts + 2 * n + i, count, g);
                v_store(acts + 3 * n + i, count, o);
            });
#undef GATE
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
    const fv_exec *exec = job->exec;
    (void)exec;
    const int64_t n = job->hidden;
    const vf zero = v_zero();
    for (int64_t row = begin; row < end; row++) {
        float *d = row_of(job, 0, row, 4), *dc_prev = row_of(job, 1, row, 1);
        const float *dh = row_of(job, 2, row, 1), *dc = row_of(job, 3, row, 1);
        const float *acts = row_of(job, 4, row, 4);
        const float *c = row_of(job, 5, row, 1), *c_prev = row_of(job, 6, row, 1);
        V_LOOP(n, 0, const vf in = AT(acts); const vf forget = AT(acts + n);
               const vf g = AT(acts + 2 * n); const vf o = AT(acts + 3 * n);
               const vf up_h = dh ? AT(dh) : zero; const vf up_c = dc ? AT(dc) : zero;
               const vf tc = v_tanh(AT(c)); const vf via_h = v_mul(v_mul(up_h, o), tanh_slope(tc));
               const vf dct = v_add(FV_TERM(exec, 0, up_c, zero), FV_TERM(exec, 1, via_h, zero));
               const vf di = v_mul(v_mul(dct, g), sigmoid_slope(in));
               const vf df = v_mul(v_mul(dct, AT(c_prev)), sigmoid_slope(forget));
               const vf dg = v_mul(v_mul(dct, in), tanh_slope(g));
               const vf dout = v_mul(v_mul(up_h, tc), sigmoid_slope(o));
               v_store(d + i, count, FV_TERM(exec, 2, di, zero));
               v_store(d + n + i, count, FV_TERM(exec, 3, df, zero));
               v_store(d + 2 * n + i, count, FV_TERM(exec, 4, dg, zero));
               v_store(d + 3 * n + i, count, FV_TERM(exec, 5, dout, zero));
               v_store(dc_prev + i, count, v_mul(dct, forget)));
    }
}

static void lstm_cell_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, lstm_cell_grad_range);
}

/* ---- GRU -------------------------------------------------------------------------- */

static void gru_cell_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const cell_job *job = arg;
    const int64_t n = job->hidden;
    const vf one = v_set(1.0f);
    for (int64_t row = begin; row < end; row++) {
        float *h = row_of(job, 0, row, 1), *acts = row_of(job, 1, row, 4);
        const float *xg = row_of(job, 2, row, 3), *hg = row_of(job, 3, row, 3);
        const float *h_prev = row_of(job, 4, row, 1);
        V_LOOP(
            n, 0, const vf r = v_sigmoid(v_add(AT(xg), AT(hg)));
            const vf z = v_sigmoid(v_add(AT(xg + n), AT(hg + n))); const vf hn = AT(hg + 2 * n);
            const vf c = v_tanh(v_add(AT(xg + 2 * n), v_mul(r, hn)));
            v_store(h + i, count, v_add(v_mul(v_sub(one, z), c), v_mul(z, AT(h_prev)))); if (acts) {
                v_store(acts + i, count, r);
                v_store(acts + n + i, count, z);
                v_store(acts + 2 * n + i, count, c);
                v_store(acts + 3 * n + i, count, hn);
            });
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
    const fv_exec *exec = job->exec;
    (void)exec;
    const int64_t n = job->hidden;
    const vf zero = v_zero(), one = v_set(1.0f);
    (void)zero;
    for (int64_t row = begin; row < end; row++) {
        float *dxg = row_of(job, 0, row, 3), *dhg = row_of(job, 1, row, 3);
        float *dh_prev = row_of(job, 2, row, 1);
        const float *dh = row_of(job, 3, row, 1), *acts = row_of(job, 4, row, 4);
        const float *h_prev = row_of(job, 5, row, 1);
        V_LOOP(n, 0, const vf r = AT(acts); const vf z = AT(acts + n);
               const vf c = AT(acts + 2 * n); const vf hn = AT(acts + 3 * n); const vf up = AT(dh);
               const vf direct = v_mul(v_mul(up, v_sub(one, z)), tanh_slope(c));
               const vf dn = FV_TERM(exec, 0, direct, zero);
               const vf gap = v_sub(FV_TERM(exec, 1, AT(h_prev), zero), FV_TERM(exec, 2, c, zero));
               const vf dz = v_mul(v_mul(up, gap), sigmoid_slope(z));
               const vf reset = v_mul(v_mul(dn, hn), sigmoid_slope(r));
               const vf dr = FV_TERM(exec, 3, reset, zero); v_store(dxg + i, count, dr);
               v_store(dhg + i, count, dr); v_store(dxg + n + i, count, dz);
               v_store(dhg + n + i, count, dz); v_store(dxg + 2 * n + i, count, dn);
               v_store(dhg + 2 * n + i, count, v_mul(dn, r));
               v_store(dh_prev + i, count, FV_TERM(exec, 4, v_mul(up, z), zero)));
    }
}

static void gru_cell_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_cell(exec, ptr, args, gru_cell_grad_range);
}

void FV_SIMD_NAME(fv_simd_recurrent_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_LSTM_CELL][FV_F32] = lstm_cell;
    t->fn[FV_KERNEL_LSTM_CELL_GRAD][FV_F32] = lstm_cell_grad;
    t->fn[FV_KERNEL_GRU_CELL][FV_F32] = gru_cell;
    t->fn[FV_KERNEL_GRU_CELL_GRAD][FV_F32] = gru_cell_grad;
}

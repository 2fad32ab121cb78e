/*
 * One row of an LSTM or GRU cell and its backward (kernels/recurrent.h), in the order of operations
 * of ref/cells.h. Shared by the kernels over single cells and over whole sequences.
 */
#ifndef FV_KERNELS_SIMD_CELLS_H
#define FV_KERNELS_SIMD_CELLS_H

#include "kernels/cell_rows.h"
#include "kernels/simd/vmath.h"

#define AT(p) v_load((p) + i, count)

/* s (1 - s) and 1 - t^2 */
V_INLINE vf sigmoid_slope(vf s) { return v_mul(s, v_sub(v_set(1.0f), s)); }
V_INLINE vf tanh_slope(vf t) { return v_sub(v_set(1.0f), v_mul(t, t)); }

/* ---- LSTM ------------------------------------------------------------------------- */

V_INLINE void lstm_units(const lstm_row *r, int64_t units)
{
    const int64_t n = r->gate, m = r->h_gate;
    const float *xg = r->xg, *hg = r->hg;
#define FROM_H(k) v_load(hg + (k)*m + i / FV_LANES * r->h_lanes, count)
#define GATE(k)   (hg ? v_add(AT(xg + (k)*n), FROM_H(k)) : AT(xg + (k)*n))
    V_LOOP(
        units, 0, const vf in = v_sigmoid(GATE(0)); const vf forget = v_sigmoid(GATE(1));
        const vf g = v_tanh(GATE(2)); const vf o = v_sigmoid(GATE(3));
        const vf before = r->c_prev ? AT(r->c_prev) : v_zero();
        const vf state = v_add(v_mul(forget, before), v_mul(in, g));
        v_store(r->c + i, count, state); v_store(r->h + i, count, v_mul(o, v_tanh(state)));
        if (r->acts) {
            v_store(r->acts + i, count, in);
            v_store(r->acts + n + i, count, forget);
            v_store(r->acts + 2 * n + i, count, g);
            v_store(r->acts + 3 * n + i, count, o);
        });
#undef GATE
#undef FROM_H
}

V_INLINE void lstm_grad_units(const fv_exec *exec, const lstm_grad_row *r, int64_t units)
{
    (void)exec;
    const int64_t n = r->gate;
    const vf zero = v_zero();
    V_LOOP(units, 0, const vf in = AT(r->acts); const vf forget = AT(r->acts + n);
           const vf g = AT(r->acts + 2 * n); const vf o = AT(r->acts + 3 * n);
           const vf up_h = r->dh ? AT(r->dh) : zero; const vf up_c = r->dc ? AT(r->dc) : zero;
           const vf before = r->c_prev ? AT(r->c_prev) : zero; const vf tc = v_tanh(AT(r->c));
           const vf via_h = v_mul(v_mul(up_h, o), tanh_slope(tc));
           const vf dct = v_add(FV_TERM(exec, 0, up_c, zero), FV_TERM(exec, 1, via_h, zero));
           const vf di = v_mul(v_mul(dct, g), sigmoid_slope(in));
           const vf df = v_mul(v_mul(dct, before), sigmoid_slope(forget));
           const vf dg = v_mul(v_mul(dct, in), tanh_slope(g));
           const vf dout = v_mul(v_mul(up_h, tc), sigmoid_slope(o));
           v_store(r->d + i, count, FV_TERM(exec, 2, di, zero));
           v_store(r->d + n + i, count, FV_TERM(exec, 3, df, zero));
           v_store(r->d + 2 * n + i, count, FV_TERM(exec, 4, dg, zero));
           v_store(r->d + 3 * n + i, count, FV_TERM(exec, 5, dout, zero));
           v_store(r->dc_prev + i, count, v_mul(dct, forget)));
}

/* ---- GRU -------------------------------------------------------------------------- */

V_INLINE void gru_units(const gru_row *r, int64_t units)
{
    const int64_t n = r->gate, m = r->h_gate;
    const float *xg = r->xg, *hg = r->hg, *bias = r->bias;
    const vf one = v_set(1.0f), zero = v_zero();
#define SUM(k)    (hg ? v_load(hg + (k)*m + i / FV_LANES * r->h_lanes, count) : zero)
#define H_GATE(k) (bias ? v_add(SUM(k), AT(bias + (k)*n)) : SUM(k))
    V_LOOP(
        units, 0, const vf r_gate = v_sigmoid(v_add(AT(xg), H_GATE(0)));
        const vf z = v_sigmoid(v_add(AT(xg + n), H_GATE(1))); const vf hn = H_GATE(2);
        const vf c = v_tanh(v_add(AT(xg + 2 * n), v_mul(r_gate, hn)));
        const vf before = r->h_prev ? AT(r->h_prev) : zero;
        v_store(r->h + i, count, v_add(v_mul(v_sub(one, z), c), v_mul(z, before))); if (r->acts) {
            v_store(r->acts + i, count, r_gate);
            v_store(r->acts + n + i, count, z);
            v_store(r->acts + 2 * n + i, count, c);
            v_store(r->acts + 3 * n + i, count, hn);
        });
#undef H_GATE
#undef SUM
}

/* dh_prev may be dh. */
V_INLINE void gru_grad_units(const fv_exec *exec, const gru_grad_row *r, int64_t units)
{
    (void)exec;
    const int64_t n = r->gate;
    const vf zero = v_zero(), one = v_set(1.0f);
    V_LOOP(units, 0, const vf r_gate = AT(r->acts); const vf z = AT(r->acts + n);
           const vf c = AT(r->acts + 2 * n); const vf hn = AT(r->acts + 3 * n);
           const vf up = AT(r->dh); const vf before = r->h_prev ? AT(r->h_prev) : zero;
           const vf direct = v_mul(v_mul(up, v_sub(one, z)), tanh_slope(c));
           const vf dn = FV_TERM(exec, 0, direct, zero);
           const vf gap = v_sub(FV_TERM(exec, 1, before, zero), FV_TERM(exec, 2, c, zero));
           const vf dz = v_mul(v_mul(up, gap), sigmoid_slope(z));
           const vf reset = v_mul(v_mul(dn, hn), sigmoid_slope(r_gate));
           const vf dr = FV_TERM(exec, 3, reset, zero); v_store(r->dxg + i, count, dr);
           v_store(r->dhg + i, count, dr); v_store(r->dxg + n + i, count, dz);
           v_store(r->dhg + n + i, count, dz); v_store(r->dxg + 2 * n + i, count, dn);
           v_store(r->dhg + 2 * n + i, count, v_mul(dn, r_gate));
           v_store(r->dh_prev + i, count, FV_TERM(exec, 4, v_mul(up, z), zero)));
}

#undef AT

#endif

/*
 * One row of an LSTM or GRU cell and its backward (kernels/recurrent.h), shared by the kernels over
 * single cells and over whole sequences. The SIMD versions (simd/cells.h) keep the order of
 * operations written here.
 */
#ifndef FV_KERNELS_REF_CELLS_H
#define FV_KERNELS_REF_CELLS_H

#include "kernels/cell_rows.h"
#include "kernels/ref/composite.h"

/* ---- LSTM ----------------------------------------------------------------------- */

/* Offset of unit j of gate k in h's gates. */
static inline int64_t h_gate_at(int64_t gate, int64_t lanes, int k, int64_t j)
{
    return k * gate + j / FV_LANES * lanes + j % FV_LANES;
}

static inline void lstm_units(const lstm_row *r, int64_t units)
{
    const int64_t n = r->gate;
    for (int64_t j = 0; j < units; j++) {
        real gate[4];
        for (int k = 0; k < 4; k++)
            gate[k] = r->hg ? r->xg[k * n + j] + r->hg[h_gate_at(r->h_gate, r->h_lanes, k, j)]
                            : r->xg[k * n + j];
        const real i = real_sigmoid(gate[0]), f = real_sigmoid(gate[1]);
        const real g = real_tanh(gate[2]), o = real_sigmoid(gate[3]);
        const real state = f * (r->c_prev ? r->c_prev[j] : 0) + i * g;
        r->c[j] = state;
        r->h[j] = o * real_tanh(state);
        if (r->acts) {
            r->acts[j] = i;
            r->acts[n + j] = f;
            r->acts[2 * n + j] = g;
            r->acts[3 * n + j] = o;
        }
    }
}

static inline void lstm_grad_units(const fv_exec *exec, const lstm_grad_row *r, int64_t units)
{
    (void)exec;
    const int64_t n = r->gate;
    for (int64_t j = 0; j < units; j++) {
        const real *acts = r->acts + j;
        const real i = acts[0], f = acts[n], g = acts[2 * n], o = acts[3 * n];
        const real up_h = r->dh ? r->dh[j] : 0, up_c = r->dc ? r->dc[j] : 0;
        const real before = r->c_prev ? r->c_prev[j] : 0, tc = real_tanh(r->c[j]);
        const real dct =
            FV_TERM(exec, 0, up_c, 0) + FV_TERM(exec, 1, (up_h * o) * (1 - tc * tc), 0);
        r->d[j] = FV_TERM(exec, 2, (dct * g) * (i * (1 - i)), 0);
        r->d[n + j] = FV_TERM(exec, 3, (dct * before) * (f * (1 - f)), 0);
        r->d[2 * n + j] = FV_TERM(exec, 4, (dct * i) * (1 - g * g), 0);
        r->d[3 * n + j] = FV_TERM(exec, 5, (up_h * tc) * (o * (1 - o)), 0);
        r->dc_prev[j] = dct * f;
    }
}

/* ---- GRU ------------------------------------------------------------------------ */

/* Gate k of unit j on h's side. */
static inline real gru_h_gate(const gru_row *r, int k, int64_t j)
{
    const real sum = r->hg ? r->hg[h_gate_at(r->h_gate, r->h_lanes, k, j)] : 0;
    return r->bias ? sum + r->bias[k * r->gate + j] : sum;
}

static inline void gru_units(const gru_row *r, int64_t units)
{
    const int64_t n = r->gate;
    for (int64_t j = 0; j < units; j++) {
        const real *xg = r->xg + j;
        const real r_gate = real_sigmoid(xg[0] + gru_h_gate(r, 0, j));
        const real z = real_sigmoid(xg[n] + gru_h_gate(r, 1, j));
        const real hn = gru_h_gate(r, 2, j);
        const real c = real_tanh(xg[2 * n] + r_gate * hn);
        r->h[j] = (1 - z) * c + z * (r->h_prev ? r->h_prev[j] : 0);
        if (r->acts) {
            r->acts[j] = r_gate;
            r->acts[n + j] = z;
            r->acts[2 * n + j] = c;
            r->acts[3 * n + j] = hn;
        }
    }
}

/* dh_prev may be dh. */
static inline void gru_grad_units(const fv_exec *exec, const gru_grad_row *r, int64_t units)
{
    (void)exec;
    const int64_t n = r->gate;
    for (int64_t j = 0; j < units; j++) {
        const real *acts = r->acts + j;
        const real r_gate = acts[0], z = acts[n], c = acts[2 * n], hn = acts[3 * n];
        const real up = r->dh[j], before = r->h_prev ? r->h_prev[j] : 0;
        const real dn = FV_TERM(exec, 0, (up * (1 - z)) * (1 - c * c), 0);
        const real gap = FV_TERM(exec, 1, before, 0) - FV_TERM(exec, 2, c, 0);
        const real dz = (up * gap) * (z * (1 - z));
        const real dr = FV_TERM(exec, 3, (dn * hn) * (r_gate * (1 - r_gate)), 0);
        r->dxg[j] = r->dhg[j] = dr;
        r->dxg[n + j] = r->dhg[n + j] = dz;
        r->dxg[2 * n + j] = dn;
        r->dhg[2 * n + j] = dn * r_gate;
        r->dh_prev[j] = FV_TERM(exec, 4, up * z, 0);
    }
}

#endif

/*
 * One row of a cell as ref/cells.h and simd/cells.h work on it: where some neighbouring units have
 * their gates and states (kernels/recurrent.h says what is computed).
 */
#ifndef FV_KERNELS_CELL_ROWS_H
#define FV_KERNELS_CELL_ROWS_H

#include "kernels/ref/real.h"

typedef struct lstm_row {
    real *h, *c, *acts;           /* acts may be NULL */
    const real *xg, *hg, *c_prev; /* hg, c_prev NULL: zeros */
    int64_t gate, h_gate;         /* from a gate to the next: in xg and acts, in hg */
    int64_t h_lanes;              /* from sixteen units of hg to the next */
} lstm_row;

typedef struct lstm_back_row {
    real *d, *dc_prev;
    const real *dh, *dc, *acts, *c, *c_prev; /* dh, dc, c_prev NULL: zeros */
    int64_t gate;                            /* from a gate to the next in d and acts */
} lstm_back_row;

typedef struct gru_row {
    real *h, *acts;                      /* acts may be NULL */
    const real *xg, *hg, *bias, *h_prev; /* hg, bias, h_prev NULL: zeros */
    int64_t gate, h_gate;                /* from a gate to the next: in xg, acts and bias, in hg */
    int64_t h_lanes;                     /* from sixteen units of hg to the next */
} gru_row;

typedef struct gru_back_row {
    real *dxg, *dhg, *dh_prev;
    const real *dh, *acts, *h_prev; /* h_prev NULL: zeros */
    int64_t gate;                   /* from a gate to the next */
} gru_back_row;

#endif

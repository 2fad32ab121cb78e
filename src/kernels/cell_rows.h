/*
 * One row of a cell for ref/cells.h and simd/cells.h: pointers to the gates and states of some
 * adjacent units (kernels/recurrent.h has the formulas).
 */
#ifndef FV_KERNELS_CELL_ROWS_H
#define FV_KERNELS_CELL_ROWS_H

#include "kernels/ref/real.h"

typedef struct lstm_row {
    real *h, *c, *acts;           /* acts may be NULL */
    const real *xg, *hg, *c_prev; /* hg, c_prev NULL: zeros */
    int64_t gate, h_gate;         /* stride between gates: in xg and acts, in hg */
    int64_t h_lanes;              /* stride between groups of sixteen units of hg */
} lstm_row;

typedef struct lstm_grad_row {
    real *d, *dc_prev;
    const real *dh, *dc, *acts, *c, *c_prev; /* dh, dc, c_prev NULL: zeros */
    int64_t gate;                            /* stride between gates in d and acts */
} lstm_grad_row;

typedef struct gru_row {
    real *h, *acts;                      /* acts may be NULL */
    const real *xg, *hg, *bias, *h_prev; /* hg, bias, h_prev NULL: zeros */
    int64_t gate, h_gate;                /* stride between gates: in xg, acts and bias, in hg */
    int64_t h_lanes;                     /* stride between groups of sixteen units of hg */
} gru_row;

typedef struct gru_grad_row {
    real *dxg, *dhg, *dh_prev;
    const real *dh, *acts, *h_prev; /* h_prev NULL: zeros */
    int64_t gate;                   /* stride between gates */
} gru_grad_row;

#endif

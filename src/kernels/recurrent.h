/*
 * Pointwise parts of recurrent cells over [batch, hidden], gate order as in PyTorch: LSTM i, f, g,
 * o; GRU r, z, n. The matrix products come before (see ops/lstm.c).
 */
#ifndef FV_KERNELS_RECURRENT_H
#define FV_KERNELS_RECURRENT_H

#include "kernels/kernel.h"

typedef struct fv_cell_args {
    int64_t batch, hidden;
} fv_cell_args;

/*
 * LSTM_CELL ptr: h, c, acts (batch, 4 hidden: activated gates, or NULL), x_gates (batch, 4 hidden),
 *   h_gates (batch, 4 hidden, or NULL: all in x_gates), c_prev
 *   i,f,o = sigmoid, g = tanh of x_gates + h_gates;  c = f c_prev + i g;  h = o tanh(c)
 * LSTM_CELL_GRAD ptr: dgates (batch, 4 hidden), dc_prev, dh (or NULL), dc (or NULL), acts, c,
 *   c_prev, and two unused (NULL). dh, dc are upstream; with tc = tanh(c):
 *   dct = dc + dh o (1 - tc^2)                terms: 0 dc, 1 dh o (1 - tc^2)
 *   di = dct g i(1-i)  df = dct c_prev f(1-f)  dg = dct i (1-g^2)  do = dh tc o(1-o)
 *   dc_prev = dct f                           terms 2..5: di, df, dg, do
 *
 * GRU_CELL ptr: h, acts (batch, 4 hidden: r, z, n, and hn = h_gates' n part; or NULL),
 *   x_gates (batch, 3 hidden), h_gates (batch, 3 hidden, bias included), h_prev
 *   r, z = sigmoid(x + h), n = tanh(x_n + r h_n), h = (1 - z) n + z h_prev
 * GRU_CELL_GRAD ptr: dx_gates, dh_gates, dh_prev, dh, acts, h_prev, and two unused (NULL).
 *   dn = dh (1-z) (1-n^2); dz = dh (h_prev - n) z(1-z); dr = dn hn r(1-r)
 *   dx = [dr, dz, dn], dh_gates = [dr, dz, dn r], dh_prev = dh z
 *   terms: 0 dn's direct part, 1 dz's h_prev, 2 dz's -n, 3 dr, 4 dh_prev
 */

#endif

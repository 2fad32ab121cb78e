/* Runs a recurrent network from precomputed gates of its inputs. */
#ifndef FV_NN_RECURRENT_H
#define FV_NN_RECURRENT_H

#include "fovea/recurrent.h"

/* The input gates of the first layer in one direction, [rows, gates], of x [rows, input]. */
fv_tensor *fv_rnn_gates(fv_ctx *ctx, const fv_rnn *rnn, int direction, fv_tensor *x);

/* As fv_rnn_run without training, from the gates of both directions (or one): [p->total, gates]. */
fv_tensor *fv_rnn_run_gates(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *const gates[2],
                            const fv_packed_sequences *p, fv_rnn_state *last);

/* One step of one cell: gates of the input [rows, k hidden] (k = 1, 3, 4) and the state. *c may
 * point to NULL except for the LSTM. Returns the new h and replaces *c. */
fv_tensor *fv_rnn_step(fv_ctx *ctx, fv_cell cell, const fv_rnn_weights *weights,
                       fv_tensor *input_gates, fv_tensor *h, fv_tensor **c);

#endif

/* A recurrent network from the gates of its inputs: for callers that have them ready. */
#ifndef FV_NN_RECURRENT_H
#define FV_NN_RECURRENT_H

#include "fovea/recurrent.h"

/* What inputs x [rows, input] give to the first layer of one direction: [rows, gates]. */
fv_tensor *fv_rnn_gates(fv_ctx *ctx, const fv_rnn *rnn, int direction, fv_tensor *x);

/* As fv_rnn_run, not in training, from those of both directions (or one): [p->total, gates]. */
fv_tensor *fv_rnn_run_gates(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *const gates[2],
                            const fv_packing *p, fv_rnn_state *last);

#endif

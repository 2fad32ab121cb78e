/*
 * The LSTMN (Cheng, Dong, Lapata 2016): an LSTM that keeps all its states on two tapes, h_1 .. h_t
 * and c_1 .. c_t, and reads them by attention instead of keeping one state:
 *
 *     a_i  = softmax_i(v . tanh(W_h h_i + W_x x_t + W_r r_{t-1})),   i < t
 *     r_t  = sum_i a_i h_i,   m_t = sum_i a_i c_i                     0 at the first step
 *     h_t, c_t = LSTM(x_t, r_t, m_t)                                  in place of h_{t-1}, c_{t-1}
 *
 * With `distances` a score has a learned bias for its distance, s_i + b_(t-i), which begins at
 * -recency (t - i - 1): the layer begins as one that reads mostly the last state, as an LSTM does.
 * Distances from `distances` on share the last bias.
 *
 *     fv_lstmn_tape tape = {0};
 *     fv_tensor *h = fv_lstmn_read(ctx, &layer, x, NULL, &tape, NULL);     // [rows, n, hidden]
 *     h = fv_lstmn_read(ctx, &layer, next, NULL, &tape, NULL);             // continues
 *
 * With `plain` a layer is an LSTM: r_t = h_{t-1}, m_t = c_{t-1}.
 *
 * In mixed precision (fv_ctx_set_compute) the products with x take bf16; states, keys and weights
 * of the attention are f32.
 */
#ifndef FV_MODELS_LSTMN_H
#define FV_MODELS_LSTMN_H

#include "fovea/layers.h"

enum { FV_LSTMN_LONGEST = 4096 }; /* positions of one call */

typedef struct fv_lstmn_sizes {
    int64_t in, hidden;
    int64_t width;     /* of the attention; 0: a plain LSTM */
    int64_t distances; /* with a bias of their own; 0: none */
    double recency;
} fv_lstmn_sizes;

typedef struct fv_lstmn_layer {
    bool plain;
    int64_t hidden;
    fv_dense x_gates, r_gates;      /* to 4 hidden each: i, f, g, o */
    fv_dense x_query, r_query, key; /* to the width of the attention; not with plain */
    fv_tensor *v;                   /* [width]; likewise */
    fv_tensor *nearness;            /* [distances], the farthest first; NULL: no bias */
} fv_lstmn_layer;

/* What was read so far; all NULL before the first position. */
typedef struct fv_lstmn_tape {
    fv_tensor *keys;    /* [rows, 1, n, width]: W_h h_i */
    fv_tensor *states;  /* [rows, 1, n, 2 hidden]: h_i, c_i */
    fv_tensor *visible; /* f32 [rows, 1, 1, n]: 0 before a row's first token; NULL: all */
    fv_tensor *h, *c;   /* [rows, hidden]: r_t; of plain layers h_t, c_t */
} fv_lstmn_tape;

/* Parameters prefix.x_gates.weight and so on. */
fv_status fv_lstmn_layer_create(fv_params *params, const char *prefix, const fv_lstmn_sizes *sizes,
                                fv_lstmn_layer *out);

/*
 * Reads x [rows, n, in] after what is on the tape, and adds to it. Returns h [rows, n, hidden].
 * `real`, or NULL: f32 [rows, n], 0 at positions before a row's first token, which leave no trace;
 * given for all calls over one tape or for none. *weights, unless NULL: [rows, 1, n, N], N the
 * length of the tape afterwards, 0 from the query's own position on; plain layers: all 0.
 */
fv_tensor *fv_lstmn_read(fv_ctx *ctx, const fv_lstmn_layer *layer, fv_tensor *x, fv_tensor *real,
                         fv_lstmn_tape *tape, fv_tensor **weights);

#endif

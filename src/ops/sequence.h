/*
 * Shared by LSTM and GRU over whole sequences (kernels/sequence.h): shapes, the launch, sequences
 * without steps, and the gradient of the weight over all steps at once.
 */
#ifndef FV_OPS_SEQUENCE_H
#define FV_OPS_SEQUENCE_H

#include "kernels/sequence.h"
#include "ops/product.h"

typedef struct fv_sequence {
    fv_ctx *ctx;
    fv_dtype dtype;
    int64_t steps, batch, hidden, gates; /* gates: 4 x hidden for LSTM, 3 x for GRU */
    int64_t total;                       /* rows of all steps */
    bool reverse;
    void *lengths; /* NULL: every sequence has all steps */
} fv_sequence;

typedef struct fv_sequence_params {
    bool reverse;
    bool overwrite;     /* LSTM: what backward needs goes over x_gates */
    bool equal_lengths; /* LSTM: all `lengths` are the same */
} fv_sequence_params;

/* fv_lstm_varlen for gates that nothing else reads, in forward or backward: it may overwrite them,
 * which saves a tensor of their size. If all lengths are the same, steps are not searched for, and
 * h before each step is read in place. */
fv_tensor *fv_lstm_over_gates(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths,
                              bool equal_lengths, fv_tensor *weight, fv_tensor *h0, fv_tensor *c0,
                              bool reverse, fv_tensor **h_last, fv_tensor **c_last);

/* Checks x_gates (input 0) [T, B, n H], weight (input 1) [n H, H] and the states [B, H] among the
 * inputs from first_state to the last but one, n being 4 or 3. The last input, `lengths`, is NULL
 * or i64 [B]: then x_gates is [total, n H]. Results: h like x_gates, then n_out - 1 of [B, H]. */
fv_status fv_sequence_infer(fv_op_run *run, int64_t n, int first_state, int lengths, int n_out);

/* h and h_last: the first two results; lengths may be NULL. */
fv_sequence fv_sequence_of(fv_ctx *ctx, const void *params, const fv_tensor *h, int64_t n,
                           const fv_tensor *lengths);

/* A tensor with `width` vectors of H for each row. */
fv_tensor *fv_sequence_rows(const fv_sequence *s, int64_t width);

/* Launches a kernel of kernels/sequence.h; ptr must hold weight.data. */
void fv_sequence_launch(const fv_sequence *s, fv_kernel_id kernel, fv_matrix weight,
                        void *const *ptr);

/* The last state of sequences without steps: the first state, or zeros for NULL. */
void fv_sequence_copy_state(const fv_sequence *s, fv_tensor *out, fv_tensor *first);

/* Its address, or NULL for no tensor. */
static inline void *fv_data_or_null(const fv_tensor *t) { return t ? t->data : NULL; }

/* The gradient of result k, contiguous; NULL where none arrived. */
fv_tensor *fv_sequence_grad(fv_op_back *back, int k);

/* The array for h before each step that a kernel fills for the weight's gradient; NULL if the
 * gradient is not requested, or if those rows are there: h, one step away. */
fv_tensor *fv_sequence_before(fv_op_back *back, const fv_sequence *s);

/* Sends dW (input 1), if requested, = the sum over steps of dgates^T h_before. Without `before`
 * that is term `term`, and term + 1 for the step that reads h0 (or NULL: zeros). */
void fv_sequence_send_weight(fv_op_back *back, const fv_sequence *s, fv_tensor *dgates,
                             fv_tensor *before, fv_tensor *h, fv_tensor *h0, int term);

#endif

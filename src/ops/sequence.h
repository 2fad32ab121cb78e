/*
 * What whole-sequence LSTM and GRU share: where each step's data lies, the product of every step
 * with one weight, and the weight's gradient over all steps at once. Steps are numbered in the
 * order they run: 0 first, even when the sequence is read from its end.
 */
#ifndef FV_OPS_SEQUENCE_H
#define FV_OPS_SEQUENCE_H

#include "ops/product.h"

typedef struct fv_sequence {
    fv_ctx *ctx;
    fv_dtype dtype;
    int64_t steps, batch, hidden, gates; /* gates: 4 x hidden for LSTM, 3 x for GRU */
    bool reverse;
} fv_sequence;

typedef struct fv_sequence_params {
    bool reverse;
} fv_sequence_params;

/* Checks x_gates (input 0) [T, B, n H], weight (input 1) [n H, H] and the states [B, H] among the
 * inputs from first_state on, n being 4 or 3. Results: h [T, B, H], then n_out - 1 of [B, H]. */
fv_status fv_sequence_infer(fv_op_run *run, int64_t n, int first_state, int n_out);

/* h: the first result. */
fv_sequence fv_sequence_of(fv_ctx *ctx, const void *params, const fv_tensor *h, int64_t n);

/* The rows of step k in t, which holds `width` entries a row for every step. */
char *fv_sequence_at(const fv_sequence *s, const fv_tensor *t, int64_t k, int64_t width);

/* dst (B, H) = step k of h. */
void fv_sequence_copy_step(const fv_sequence *s, fv_tensor *dst, const fv_tensor *h, int64_t k);

/* A product that every step repeats: (batch, k) x B (k, n). B is packed once if that pays. */
typedef struct fv_step_product {
    fv_gemm gemm;
    void *b;
    fv_tensor *packed; /* to free afterwards, or NULL */
} fv_step_product;
fv_step_product fv_step_product_of(const fv_sequence *s, fv_matrix b);
/* c = a B + bias + residual; the last two may be NULL, and residual may be c. */
void fv_step_multiply(const fv_sequence *s, const fv_step_product *p, void *c, void *a, void *bias,
                      void *residual);

/* dst += src, (B, H) each. */
void fv_sequence_add(const fv_sequence *s, void *dst, void *src);

/*
 * The gradient of the last step's h: that of h_last (term `term`) plus that of h at the step
 * (term `term` + 1), either of which may be NULL. Written to `room` where it is not one of them.
 */
void *fv_sequence_last_grad(fv_op_back *back, const fv_sequence *s, fv_tensor *room, fv_tensor *dh,
                            fv_tensor *dh_last, int term);

/* Sends dW (input 1) = the sum over steps of dgates^T h_before. Steps after the first are term
 * `term`, the first one (with h0, if not NULL) is term + 1. */
void fv_sequence_send_weight(fv_op_back *back, const fv_sequence *s, fv_tensor *dgates,
                             fv_tensor *h, fv_tensor *h0, int term);

#endif

/*
 * The interface between ops and the tape: everything that an op file may call of src/autograd. The
 * calls go up one layer, so tools/check-layers accepts exactly what is declared here.
 *
 * In the other direction the tape knows ops by their descriptors (fv_op_table) alone. For gradients
 * of weights it also uses the matrix products of ops/product.h.
 */
#ifndef FV_OPS_TAPE_INTERFACE_H
#define FV_OPS_TAPE_INTERFACE_H

#include "ops/op.h"

struct fv_matrix; /* ops/product.h */

/* ---- calling an op (autograd/apply.c) ---------------------------------------------- */

/* Runs the op; out gets n results (the invalid tensor each, on failure). */
void fv_op_apply_many(fv_ctx *ctx, fv_op_id id, int n_in, fv_tensor *const *in, const void *params,
                      int n_out, fv_tensor **out);
/* An op with one result. */
fv_tensor *fv_op_apply(fv_ctx *ctx, fv_op_id id, int n_in, fv_tensor *const *in,
                       const void *params);

/* ---- inside forward ---------------------------------------------------------------- */

/* Keeps t for backward (a no-op unless recording). t may be NULL. Slots are 0, 1, ... */
void fv_save(fv_op_run *run, int slot, fv_tensor *t);

/* ---- inside backward (autograd/backward.c) ----------------------------------------- */

bool fv_back_wants(const fv_op_back *back, int i);
int fv_back_rank(const fv_op_back *back, int i);
const int64_t *fv_back_shape(const fv_op_back *back, int i);
fv_dtype fv_back_dtype(const fv_op_back *back, int i);

/* A fresh uninitialised tensor of input i's shape and dtype. */
fv_tensor *fv_back_new(fv_op_back *back, int i);
/* The same over the numbers of `saved`, a contiguous tensor of that shape and dtype that fv_save
 * kept, if only this call reads them again: a kernel that reads an element before it writes it then
 * needs no more memory. */
fv_tensor *fv_back_over(fv_op_back *back, int i, fv_tensor *saved);
/* Sends g (input i's shape) to input i. g may be one of back->grad or a view. */
void fv_back_send(fv_op_back *back, int i, fv_tensor *g);
/* Sends g, which has a shape that input i was broadcast to: sums it down first. */
void fv_back_send_reduced(fv_op_back *back, int i, fv_tensor *g);
/*
 * Where a kernel that can add in place may write input i's gradient: with *accumulate true the
 * result must be added. Follow with fv_back_commit(back, i, t).
 */
fv_tensor *fv_back_dest(fv_op_back *back, int i, bool *accumulate);
void fv_back_commit(fv_op_back *back, int i, fv_tensor *t, bool accumulated);
/*
 * Where the gradient of input i can be written straight into that of the tensor which it is a view
 * of, through any number of views: a tensor of its shape with strides of its own, whose last axis
 * is contiguous. Every element must be written or, with *accumulate true, added to; nothing is sent
 * then. NULL if there is no such place: use fv_back_new or fv_back_dest. An accumulating place may
 * also be left unused.
 *
 *     bool accumulate;
 *     fv_tensor *dq = fv_back_place(back, Q, &accumulate);
 *     if (!dq || accumulate) ...                // dq = fv_back_new(back, Q), send it afterwards
 */
fv_tensor *fv_back_place(fv_op_back *back, int i, bool *accumulate);
/* The same for a view's backward: the place of its own result in its input's gradient, with any
 * strides. */
fv_tensor *fv_back_place_own(fv_op_back *back, bool *accumulate);
/* Sends the matrix product a b to input i, adding in place where that is possible; the second form
 * rounds the operands to bf16 if `bf16` is true. */
void fv_back_send_product(fv_op_back *back, int i, struct fv_matrix a, struct fv_matrix b);
void fv_back_send_product_mixed(fv_op_back *back, int i, bool bf16, struct fv_matrix a,
                                struct fv_matrix b);
/* Sends du^T x, summed over the rows of du [..., out] and x [..., in], to input i [out, in], if it
 * wants one, and the sum of du's rows to input `bias` [out] (-1: none): both in one launch where
 * there is a product. For a weight that several calls use, products may be deferred and computed as
 * one at the end of backward (autograd/pending.c), except those with operands rounded to bf16. */
void fv_back_send_outer(fv_op_back *back, int i, int bias, bool bf16, fv_tensor *du, fv_tensor *x);

/* Whether to compute additive term k: always, except in sabotaged test runs. For terms added by
 * separate launches; terms inside kernels use FV_TERM. */
bool fv_back_term(const fv_op_back *back, int k);

/* ---- the op that is part of the tape ----------------------------------------------- */

/* Checkpointing runs a block again inside backward, so it stands beside the tape; ops.def lists it
 * like any other op. */
extern const fv_op_desc fv_op_checkpoint;

#endif

/*
 * What the reductions over any axes share: they differ in the kernel's op code and in what
 * backward needs.
 *
 *     static void forward(fv_op_run *run) { fv_reduce_forward(run, FV_REDUCE_SUM, 1.0); }
 *     static void backward(fv_op_back *back)
 *     {
 *         fv_reduce_backward(back, FV_REDUCE_SUM, 1.0, NULL, NULL);
 *     }
 */
#ifndef FV_OPS_REDUCE_H
#define FV_OPS_REDUCE_H

#include "kernels/reduce.h"
#include "ops/op.h"

typedef struct fv_reduce_params {
    int n_axes; /* 0: all axes; outside 0..FV_MAX_RANK infer refuses */
    int axes[FV_MAX_RANK];
    bool keep; /* reduced axes stay, with size 1 */
} fv_reduce_params;

/* The public call of every reduction. */
fv_tensor *fv_reduce_apply(fv_ctx *ctx, fv_op_id id, fv_tensor *x, int n_axes, const int *axes,
                           bool keep);

/* Checks the axes and describes the result, of x's dtype. `_nonempty` also refuses a reduction of
 * no elements, which has no maximum. */
fv_status fv_reduce_infer(fv_op_run *run);
fv_status fv_reduce_infer_nonempty(fv_op_run *run);

/* How many elements go into one result. params have passed infer. */
int64_t fv_reduce_length(const fv_reduce_params *params, int rank, const int64_t *shape);

/* out[0] = the reduction of in[0]; alpha scales a sum. */
void fv_reduce_forward(fv_op_run *run, fv_reduce op, double alpha);
/* Likewise for max and min; when recording, saves in slot 0 which element each result is. */
void fv_reduce_forward_chosen(fv_op_run *run, fv_reduce op);
/* out[0] (i64) = which element it is. */
void fv_reduce_forward_index(fv_op_run *run, fv_reduce op);

/* Sends dx. x and y as kernels/reduce.h says for REDUCE_GRAD: y is the result or the saved index;
 * NULL where the formula does not use them. */
void fv_reduce_backward(fv_op_back *back, fv_reduce op, double alpha, fv_tensor *x, fv_tensor *y);

/* What the gradient check asks of a reduction that is smooth and takes no elements too. */
enum { FV_REDUCE_CASES = 6 };
extern const fv_op_case fv_reduce_cases[FV_REDUCE_CASES];

#endif

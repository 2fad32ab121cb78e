/*
 * Matrix products on parts of tensors, for linear layers, recurrent steps and convolutions. Nothing
 * here records gradients.
 *
 *     // dW += du^T x, with du (rows, out) and x (rows, in)
 *     fv_matrix dw_out = fv_matrix_at(dw->data, out, in);
 *     fv_product(ctx, dw->dtype, dw_out, fv_matrix_transpose(du), x, true);
 */
#ifndef FV_OPS_PRODUCT_H
#define FV_OPS_PRODUCT_H

#include "kernels/gemm.h"
#include "ops/op.h"

/* rows x cols elements of device memory with element strides between rows and columns. */
typedef struct fv_matrix {
    char *data;
    int64_t rows, cols;
    int64_t row, col;
    bool bf16; /* its elements are bf16; else of the product's dtype */
} fv_matrix;

/* Row-major without gaps. */
static inline fv_matrix fv_matrix_at(void *data, int64_t rows, int64_t cols)
{
    return (fv_matrix){.data = data, .rows = rows, .cols = cols, .row = cols, .col = 1};
}

static inline fv_matrix fv_matrix_transpose(fv_matrix m)
{
    return (fv_matrix){
        .data = m.data, .rows = m.cols, .cols = m.rows, .row = m.col, .col = m.row, .bf16 = m.bf16};
}

/*
 * t (rank >= 1) as a matrix: its last axis the columns, all axes before it the rows. Where the
 * strides do not allow that with one of the two strides 1, *t becomes a contiguous copy; drop it
 * with fv_drop_copy.
 */
fv_matrix fv_matrix_of(fv_ctx *ctx, fv_tensor **t);

/* C = A B, or C += A B. C's columns must be contiguous. */
void fv_product(fv_ctx *ctx, fv_dtype dtype, fv_matrix c, fv_matrix a, fv_matrix b,
                bool accumulate);
/* The same with operands rounded to bf16 if `bf16` is true and dtype is f32. */
void fv_product_mixed(fv_ctx *ctx, fv_dtype dtype, bool bf16, fv_matrix c, fv_matrix a, fv_matrix b,
                      bool accumulate);
/* The description of C = A B for callers that add an epilogue, a batch or packed panels. */
fv_gemm fv_product_gemm(fv_matrix c, fv_matrix a, fv_matrix b);
/* ptr: C, A, B, bias, residual, aux. Checks the sizes, then launches; does nothing for an empty C.
 */
void fv_product_launch(fv_ctx *ctx, fv_dtype dtype, const fv_gemm *gemm, void *const ptr[6]);

/* B (k x n, f32) as panels for products with b_packed, in a tensor of the innermost scope. */
fv_tensor *fv_product_pack(fv_ctx *ctx, fv_weight_form form, fv_matrix b);

/* Whether a weight [out, in] has panels and they are up to date. */
static inline bool fv_weight_packed(const fv_tensor *w)
{
    if (w->flags & FV_TENSOR_PACKED_ONLY) return true;
    return w->packed && w->packed_version == w->buffer->version;
}
/* For infer: refuses a packed-only weight in a recorded call, since it has no gradient. */
fv_status fv_need_not_frozen(fv_op_run *run, int i);

/*
 * The argmax of a linear layer without computing every output (kernels/prefilter.h), for greedy
 * search. fv_linear_prefilter packs a candidate pre-filter for a weight [out, in] and its bias (or
 * NULL) into a tensor of the innermost scope; NULL if the device or the weight's format has none.
 * fv_linear_argmax returns i64 [rows] for x [rows, in]: exactly fv_argmax of fv_linear, or -1 in
 * rows with too many candidates. f32 only.
 */
fv_tensor *fv_linear_prefilter(fv_ctx *ctx, fv_tensor *weight, fv_tensor *bias);
fv_tensor *fv_linear_argmax(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                            fv_tensor *prefilter);

/* act(x) W^T + b + residual, where backward keeps x and computes act(x) again. After fv_linear it
 * gives a feed-forward network that keeps one hidden tensor where fv_linear_act and fv_linear keep
 * two, if the derivative of act needs its argument (the GELUs, SiLU). */
fv_tensor *fv_act_linear(fv_ctx *ctx, fv_tensor *x, fv_act act, fv_tensor *weight, fv_tensor *bias,
                         fv_tensor *residual);
/* fv_linear whose result is f32 in mixed precision too: logits of a model that runs. Not recorded.
 */
fv_tensor *fv_linear_wide(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias);
/* Whether the derivative of an activation is computed from its argument; else from its value. */
bool fv_act_needs_argument(fv_act act);

/* Whether products of bf16 run faster than those of f32 on the context's device and level. */
bool fv_product_prefers_bf16(const fv_ctx *ctx);

/* out (cols entries, contiguous) = the sum over the rows of m. */
void fv_column_sum(fv_ctx *ctx, fv_dtype dtype, void *out, fv_matrix m);

#endif

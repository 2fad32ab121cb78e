#include "ops/product.h"

#include "kernels/reduce.h"
#include "ops/rows.h"

/* Whether the axes before the last merge into one with a single stride; *step is that stride. */
static bool rows_merge(const fv_tensor *t, int64_t *step)
{
    int64_t inner = 0, size = 1; /* of the axes merged so far: stride and length */
    for (int i = t->rank - 2; i >= 0; i--) {
        if (t->shape[i] == 1) continue;
        if (size > 1 && t->stride[i] != inner * size) return false;
        if (size == 1) inner = t->stride[i];
        size *= t->shape[i];
    }
    *step = inner;
    return true;
}

fv_matrix fv_matrix_of(fv_ctx *ctx, fv_tensor **t)
{
    fv_matrix m = {.data = NULL};
    if (ctx->error != FV_OK) return m;
    const fv_tensor *x = *t;
    m.rows = fv_row_count(x);
    m.cols = x->shape[x->rank - 1];
    m.col = m.cols > 1 ? x->stride[x->rank - 1] : 1;
    bool usable = x->count > 0 && rows_merge(x, &m.row);
    if (m.rows <= 1) m.row = m.col == 1 ? m.cols : 1;
    if (!usable || (m.row != 1 && m.col != 1)) {
        x = *t = fv_contiguous_raw(ctx, *t);
        m.row = m.cols;
        m.col = 1;
    }
    m.data = x->data;
    m.bf16 = x->dtype == FV_BF16;
    return m;
}

fv_gemm fv_product_gemm(fv_matrix c, fv_matrix a, fv_matrix b)
{
    return (fv_gemm){.m = c.rows,
                     .n = c.cols,
                     .k = a.cols,
                     .a_row = a.row,
                     .a_col = a.col,
                     .b_row = b.row,
                     .b_col = b.col,
                     .c_row = c.row,
                     .residual_row = c.row,
                     .batch = 1,
                     .stored_bf16 = (a.bf16 ? FV_GEMM_STORED_A : 0u) |
                                    (b.bf16 ? FV_GEMM_STORED_B : 0u) |
                                    (c.bf16 ? FV_GEMM_STORED_C : 0u)};
}

void fv_product_launch(fv_ctx *ctx, fv_dtype dtype, const fv_gemm *gemm, void *const ptr[6])
{
    if (ctx->error != FV_OK || gemm->m == 0 || gemm->n == 0 || gemm->batch == 0) return;
    if (fv_gemm_check(gemm) != FV_OK) {
        fv_poison(ctx, FV_ERR_LIMIT, "matrix product too large: [%lld, %lld] times [%lld, %lld]",
                  (long long)gemm->m, (long long)gemm->k, (long long)gemm->k, (long long)gemm->n);
        return;
    }
    fv_launch(ctx, FV_KERNEL_GEMM, fv_wide_dtype(dtype), ptr, gemm, sizeof *gemm);
}

void fv_product(fv_ctx *ctx, fv_dtype dtype, fv_matrix c, fv_matrix a, fv_matrix b, bool accumulate)
{
    fv_product_mixed(ctx, dtype, false, c, a, b, accumulate);
}

void fv_product_mixed(fv_ctx *ctx, fv_dtype dtype, bool bf16, fv_matrix c, fv_matrix a, fv_matrix b,
                      bool accumulate)
{
    fv_gemm gemm = fv_product_gemm(c, a, b);
    gemm.accumulate = accumulate;
    gemm.bf16 = bf16 && fv_wide_dtype(dtype) == FV_F32;
    fv_product_launch(ctx, dtype, &gemm, (void *[6]){c.data, a.data, b.data});
}

fv_tensor *fv_product_pack(fv_ctx *ctx, fv_weight_form form, fv_matrix b)
{
    const size_t bytes = ctx->device->ops->packed_bytes(ctx->device, form, b.rows, b.cols);
    if (ctx->error == FV_OK && bytes > INT64_MAX)
        fv_poison(ctx, FV_ERR_LIMIT, "weight too large to pack: [%lld, %lld]", (long long)b.rows,
                  (long long)b.cols);
    fv_tensor *packed =
        fv_tensor_new(ctx, FV_F32, 1, (int64_t[]){(int64_t)(bytes / sizeof(float))});
    if (ctx->error != FV_OK || packed->count == 0) return packed;
    fv_gemm_pack_args args = {
        .k = b.rows, .n = b.cols, .b_row = b.row, .b_col = b.col, .form = form};
    fv_launch(ctx, FV_KERNEL_PACK, FV_F32, (void *[]){packed->data, b.data}, &args, sizeof args);
    return packed;
}

/* A bf16 matrix as f32, in a tensor of the innermost scope. */
static fv_tensor *widen_matrix(fv_ctx *ctx, fv_matrix *m)
{
    fv_tensor *wide = fv_tensor_new(ctx, FV_F32, 2, (int64_t[]){m->rows, m->cols});
    if (ctx->error != FV_OK) return wide;
    fv_elementwise_args args = {
        .to = FV_F32, .from = FV_BF16, .rank = 2, .shape = {m->rows, m->cols}};
    args.stride[0][0] = m->cols;
    args.stride[0][1] = 1;
    args.stride[1][0] = m->row;
    args.stride[1][1] = m->col;
    fv_launch(ctx, FV_KERNEL_COPY, FV_F32, (void *[]){wide->data, m->data}, &args, sizeof args);
    *m = fv_matrix_at(wide->data, m->rows, m->cols);
    return wide;
}

void fv_column_sum(fv_ctx *ctx, fv_dtype dtype, void *out, fv_matrix m)
{
    if (ctx->error != FV_OK || m.cols == 0) return;
    fv_tensor *wide = m.bf16 ? widen_matrix(ctx, &m) : NULL;
    if (ctx->error != FV_OK) return;
    fv_reduce_args args = {.op = FV_REDUCE_SUM, .alpha = 1.0, .out_rank = 1, .red_rank = 1};
    args.out_shape[0] = m.cols;
    args.out_stride[0] = m.col;
    args.red_shape[0] = m.rows;
    args.red_stride[0] = m.row;
    fv_launch(ctx, FV_KERNEL_REDUCE, dtype, (void *[]){out, NULL, m.data}, &args, sizeof args);
    if (wide) fv_tensor_free(ctx, &wide);
}

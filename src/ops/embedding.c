/*
 * y[..., :] = table[index[...], :].
 *   dtable[v] = the sum of g over the positions whose index is v, in order; the padding row gets no
 *   gradient.
 */
#include "kernels/index.h"
#include "kernels/weights.h"
#include "ops/product.h"
#include "ops/rows.h"

enum { TABLE, INDEX };

typedef struct embedding_params {
    int64_t padding;
} embedding_params;

fv_tensor *fv_embedding(fv_ctx *ctx, fv_tensor *table, fv_tensor *index, int64_t padding)
{
    const embedding_params params = {padding};
    return fv_op_apply(ctx, FV_OP_EMBEDDING, 2, (fv_tensor *[]){table, index}, &params);
}

static fv_status infer(fv_op_run *run)
{
    const embedding_params *params = run->params;
    FV_TRY(fv_need_real(run, TABLE));
    FV_TRY(fv_need_dtype(run, INDEX, FV_I64));
    FV_TRY(fv_need_not_frozen(run, TABLE));
    FV_TRY(fv_need_rank(run, TABLE, 2, 2));
    FV_TRY(fv_need_rank(run, INDEX, 0, FV_MAX_RANK - 1));
    const fv_tensor *table = run->in[TABLE];
    if (params->padding < -1 || params->padding >= table->shape[0])
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "padding row %lld is out of range for a table with %lld rows",
                           (long long)params->padding, (long long)table->shape[0]);
    fv_spec_like(run, 0, INDEX);
    fv_spec *spec = &run->spec[0];
    spec->dtype = fv_result_dtype(run);
    spec->shape[spec->rank++] = table->shape[1];
    return FV_OK;
}

static void gather_packed(fv_op_run *run, const fv_tensor *table, fv_tensor *rows)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[INDEX]);
    if (ctx->error != FV_OK) return;
    const fv_gather_weights_args args = {.count = index->count,
                                         .k = table->shape[1],
                                         .n = table->shape[0],
                                         .form = (fv_weight_form)table->packed_form};
    fv_launch(ctx, FV_KERNEL_GATHER_WEIGHTS, FV_F32,
              (void *[]){rows->data, table->packed->data, index->data}, &args, sizeof args);
    fv_drop_copy(ctx, index, run->in[INDEX]);
}

/* rows, of the table's dtype, get the rows of the table. */
static void gather(fv_op_run *run, fv_tensor *rows)
{
    fv_ctx *ctx = run->ctx;
    if (ctx->error != FV_OK) return;
    if (run->in[TABLE]->flags & FV_TENSOR_PACKED_ONLY) {
        gather_packed(run, run->in[TABLE], rows);
        return;
    }
    fv_tensor *table = fv_contiguous_raw(ctx, run->in[TABLE]);
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[INDEX]);
    if (ctx->error != FV_OK) return;
    const fv_rows_index_args args = {.outer = 1,
                                     .count = index->count,
                                     .rows = table->shape[0],
                                     .cols = table->shape[1],
                                     .padding_index = -1};
    fv_launch(ctx, FV_KERNEL_GATHER_ROWS, table->dtype,
              (void *[]){rows->data, table->data, index->data}, &args, sizeof args);
    fv_save(run, 0, index);
    fv_drop_copy(ctx, table, run->in[TABLE]);
}

static void forward(fv_op_run *run)
{
    fv_tensor *out = run->out[0], *rows = out;
    const fv_dtype dtype = run->in[TABLE]->dtype;
    if (out->dtype != dtype) rows = fv_tensor_new(run->ctx, dtype, out->rank, out->shape);
    gather(run, rows);
    if (rows == out) return;
    if (run->ctx->error == FV_OK) fv_copy_into(run->ctx, out, rows);
    fv_tensor_free(run->ctx, &rows);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    const embedding_params *params = back->params;
    fv_tensor *index = back->saved[0], *g = fv_contiguous_raw(ctx, back->grad[0]);
    bool accumulate;
    fv_tensor *dtable = fv_back_dest(back, TABLE, &accumulate);
    if (ctx->error != FV_OK) return;
    if (!accumulate) fv_fill(ctx, dtable, 0.0);
    const fv_rows_index_args args = {.outer = 1,
                                     .count = index->count,
                                     .rows = dtable->shape[0],
                                     .cols = dtable->shape[1],
                                     .padding_index = params->padding};
    fv_launch(ctx, FV_KERNEL_INDEX_ADD, g->dtype, (void *[]){dtable->data, g->data, index->data},
              &args, sizeof args);
    fv_back_commit(back, TABLE, dtable, accumulate);
}

static const embedding_params none = {-1}, last = {5};

static const fv_op_case cases[] = {
    {.name = "words", .params = &none, .n_in = 2, .in = {FV_IN(NORMAL, 5, 3), FV_INDEX(5, 2, 4)}},
    {.name = "unused padding",
     .params = &last,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 6, 3), FV_INDEX(5, 4)}},
    {.name = "one row", .params = &none, .n_in = 2, .in = {FV_IN(NORMAL, 1, 3), FV_INDEX(1, 3)}},
    {.name = "no words", .params = &none, .n_in = 2, .in = {FV_IN(NORMAL, 4, 3), FV_INDEX(4, 0)}},
};

const fv_op_desc fv_op_embedding = {
    .id = FV_OP_EMBEDDING,
    .name = "embedding",
    .formula = "y[...] = table[index[...]]",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(embedding_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .packed_only_inputs = 1u << TABLE,
    .bf16 = FV_BF16_COMPUTES,
    FV_CASES(cases),
};

/*
 * C = A B for the last two axes, every other axis broadcast:
 *   C(i,j) = sum_p A(i,p) B(p,j).
 * dA(i,p) = sum_j g(i,j) B(p,j):  dA = g B^T.
 * dB(p,j) = sum_i A(i,p) g(i,j):  dB = A^T g.
 * An input repeated along a batch axis gets the sum over it. Where B is one matrix for a whole
 * batch, the sum over the batch is just a longer sum over i: one product does it.
 */
#include <string.h>

#include "ops/product.h"
#include "ops/rows.h"

/* A batch of matrices as the product reads it; copy is the tensor to drop afterwards. */
typedef struct operand {
    fv_tensor *tensor, *copy;
    int rank;
    int64_t shape[FV_MAX_RANK], stride[FV_MAX_RANK];
} operand;

/* Rank-1 operands are a row on the left and a column on the right, as in NumPy. */
fv_tensor *fv_matmul(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    const bool row = a && b && a->rank == 1 && fv_tensor_valid(a);
    const bool column = a && b && b->rank == 1 && fv_tensor_valid(b);
    if (row) a = fv_unsqueeze(ctx, a, 0);
    if (column) b = fv_unsqueeze(ctx, b, 1);
    fv_tensor *c = fv_op_apply(ctx, FV_OP_MATMUL, 2, (fv_tensor *[]){a, b}, NULL);
    if (column) c = fv_squeeze(ctx, c, -1);
    if (row) c = fv_squeeze(ctx, c, column ? -1 : -2);
    return c;
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, 0, 2, FV_MAX_RANK));
    FV_TRY(fv_need_rank(run, 1, 2, FV_MAX_RANK));
    const fv_tensor *a = run->in[0], *b = run->in[1];
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return fv_op_mismatch(run, 0, 1,
                              "do not multiply: the last axis of the first must equal "
                              "the second-to-last axis of the second");
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t shape[FV_MAX_RANK];
    for (int i = 0; i < rank - 2; i++) {
        const int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        const int64_t na = ia >= 0 ? a->shape[ia] : 1, nb = ib >= 0 ? b->shape[ib] : 1;
        if (na != nb && na != 1 && nb != 1)
            return fv_op_mismatch(run, 0, 1, "do not broadcast before their last two axes");
        shape[i] = na == 1 ? nb : na;
    }
    shape[rank - 2] = a->shape[a->rank - 2];
    shape[rank - 1] = b->shape[b->rank - 1];
    fv_spec_set(run, 0, a->dtype, rank, shape);
    return FV_OK;
}

static operand operand_of(fv_ctx *ctx, fv_tensor *t, bool transpose)
{
    operand o = {.tensor = t, .copy = t};
    if (ctx->error != FV_OK) return o;
    const int rank = t->rank;
    const bool unit = t->shape[rank - 1] <= 1 || t->shape[rank - 2] <= 1 ||
                      t->stride[rank - 1] == 1 || t->stride[rank - 2] == 1;
    if (!unit) o.copy = fv_contiguous_raw(ctx, t);
    o.rank = rank;
    memcpy(o.shape, t->shape, sizeof o.shape);
    memcpy(o.stride, o.copy->stride, sizeof o.stride);
    /* The stride of an axis of one element has no meaning: 1 is the kernels' fast case. */
    if (o.shape[rank - 1] <= 1 && o.stride[rank - 2] != 1) o.stride[rank - 1] = 1;
    if (o.shape[rank - 2] <= 1 && o.stride[rank - 1] != 1) o.stride[rank - 2] = 1;
    if (transpose) {
        const int64_t shape = o.shape[rank - 1], stride = o.stride[rank - 1];
        o.shape[rank - 1] = o.shape[rank - 2];
        o.stride[rank - 1] = o.stride[rank - 2];
        o.shape[rank - 2] = shape;
        o.stride[rank - 2] = stride;
    }
    return o;
}

static void operand_drop(fv_ctx *ctx, operand *o) { fv_drop_copy(ctx, o->copy, o->tensor); }

/* The operand's stride along batch axis i of a result of the given rank; 0 where it is repeated. */
static int64_t batch_stride(const operand *o, int rank, int axis)
{
    const int i = axis - (rank - o->rank);
    return i < 0 || o->shape[i] == 1 ? 0 : o->stride[i];
}

static void push_batch_axis(fv_gemm *g, int64_t size, int64_t a, int64_t b, int64_t c)
{
    const int last = g->batch_rank - 1;
    g->batch *= size;
    if (size == 1) return;
    if (last >= 0 && g->a_batch[last] == a * size && g->b_batch[last] == b * size &&
        g->c_batch[last] == c * size) {
        g->batch_shape[last] *= size;
    } else {
        g->batch_shape[g->batch_rank++] = size;
    }
    g->a_batch[g->batch_rank - 1] = a;
    g->b_batch[g->batch_rank - 1] = b;
    g->c_batch[g->batch_rank - 1] = c;
}

/* One B for a batch of A whose rows are contiguous: the batch becomes more rows. */
static void merge_batch_into_rows(fv_gemm *g)
{
    while (g->batch_rank > 0) {
        const int last = g->batch_rank - 1;
        const bool follows = g->b_batch[last] == 0 && g->a_batch[last] == g->m * g->a_row &&
                             g->c_batch[last] == g->m * g->c_row;
        if (!follows) return;
        g->m *= g->batch_shape[last];
        g->batch /= g->batch_shape[last];
        g->batch_rank = last;
    }
}

/* c (contiguous) = a b, or c += a b. */
static void multiply(fv_ctx *ctx, fv_tensor *c, const operand *a, const operand *b, bool accumulate)
{
    if (ctx->error != FV_OK || c->count == 0) return;
    const int rank = c->rank;
    fv_gemm g = {.m = c->shape[rank - 2],
                 .n = c->shape[rank - 1],
                 .k = a->shape[a->rank - 1],
                 .a_row = a->stride[a->rank - 2],
                 .a_col = a->stride[a->rank - 1],
                 .b_row = b->stride[b->rank - 2],
                 .b_col = b->stride[b->rank - 1],
                 .c_row = c->shape[rank - 1],
                 .batch = 1,
                 .accumulate = accumulate};
    for (int i = 0; i < rank - 2; i++)
        push_batch_axis(&g, c->shape[i], batch_stride(a, rank, i), batch_stride(b, rank, i),
                        c->stride[i]);
    if (g.k > 0) merge_batch_into_rows(&g);
    fv_product_launch(ctx, c->dtype, &g, (void *[6]){c->data, a->copy->data, b->copy->data});
}

static void forward(fv_op_run *run)
{
    operand a = operand_of(run->ctx, run->in[0], false);
    operand b = operand_of(run->ctx, run->in[1], false);
    multiply(run->ctx, run->out[0], &a, &b, false);
    operand_drop(run->ctx, &a);
    operand_drop(run->ctx, &b);
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

/* Whether input i has g's batch axes, so that no sum over repeated ones is needed. */
static bool same_batch(const fv_op_back *back, int i, const fv_tensor *g)
{
    return fv_shape_equal(fv_back_rank(back, i) - 2, fv_back_shape(back, i), g->rank - 2, g->shape);
}

static void send_product(fv_op_back *back, int i, const operand *a, const operand *b)
{
    fv_ctx *ctx = back->ctx;
    const fv_tensor *g = back->grad[0];
    if (same_batch(back, i, g)) {
        bool accumulate;
        fv_tensor *dest = fv_back_dest(back, i, &accumulate);
        multiply(ctx, dest, a, b, accumulate);
        fv_back_commit(back, i, dest, accumulate);
        return;
    }
    int64_t shape[FV_MAX_RANK];
    memcpy(shape, g->shape, sizeof shape);
    shape[g->rank - 2] = a->shape[a->rank - 2];
    shape[g->rank - 1] = b->shape[b->rank - 1];
    fv_tensor *whole = fv_tensor_new(ctx, g->dtype, g->rank, shape);
    multiply(ctx, whole, a, b, false);
    fv_back_send_reduced(back, i, whole);
}

/* dB for a B without batch axes: one product over all rows of A and g. */
static void send_unbatched(fv_op_back *back, fv_tensor *a, fv_tensor *g)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *a_rows = a, *g_rows = g;
    fv_matrix ma = fv_matrix_of(ctx, &a_rows), mg = fv_matrix_of(ctx, &g_rows);
    bool accumulate;
    fv_tensor *db = fv_back_dest(back, 1, &accumulate);
    if (ctx->error == FV_OK)
        fv_product(ctx, db->dtype, fv_matrix_at(db->data, ma.cols, mg.cols),
                   fv_matrix_transpose(ma), mg, accumulate);
    fv_back_commit(back, 1, db, accumulate);
}

static bool one_matrix(const fv_op_back *back, int i)
{
    for (int axis = 0; axis < fv_back_rank(back, i) - 2; axis++)
        if (fv_back_shape(back, i)[axis] != 1) return false;
    return true;
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *a = back->saved[0], *b = back->saved[1], *g = back->grad[0];
    operand og = operand_of(ctx, g, false);
    if (fv_back_wants(back, 0)) {
        operand transposed = operand_of(ctx, b, true);
        send_product(back, 0, &og, &transposed);
        operand_drop(ctx, &transposed);
    }
    if (!fv_back_wants(back, 1) || ctx->error != FV_OK) return;
    if (one_matrix(back, 1) && same_batch(back, 0, g)) {
        send_unbatched(back, a, g);
    } else {
        operand transposed = operand_of(ctx, a, true);
        send_product(back, 1, &transposed, &og);
    }
}

static const fv_op_case cases[] = {
    {.name = "3x4x2", .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 4, 2)}},
    {.name = "one row", .n_in = 2, .in = {FV_IN(NORMAL, 1, 5), FV_IN(NORMAL, 5, 3)}},
    {.name = "one column", .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 4, 1)}},
    {.name = "outer", .n_in = 2, .in = {FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 1, 4)}},
    {.name = "batch", .n_in = 2, .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(NORMAL, 2, 4, 2)}},
    {.name = "one B", .n_in = 2, .in = {FV_IN(NORMAL, 2, 2, 3, 4), FV_IN(NORMAL, 4, 2)}},
    {.name = "one A", .n_in = 2, .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 2, 4, 2)}},
    {.name = "crossed", .n_in = 2, .in = {FV_IN(NORMAL, 2, 1, 3, 2), FV_IN(NORMAL, 1, 3, 2, 2)}},
    {.name = "no rows", .n_in = 2, .in = {FV_IN(NORMAL, 0, 4), FV_IN(NORMAL, 4, 2)}},
    {.name = "empty sum", .n_in = 2, .in = {FV_IN(NORMAL, 3, 0), FV_IN(NORMAL, 0, 2)}},
    {.name = "no batch", .n_in = 2, .in = {FV_IN(NORMAL, 0, 3, 4), FV_IN(NORMAL, 4, 2)}},
};

const fv_op_desc fv_op_matmul = {
    .id = FV_OP_MATMUL,
    .name = "matmul",
    .formula = "C = A B, leading axes broadcast",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};

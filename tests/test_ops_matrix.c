/* Products and linear layers: against plain loops, with every kind of view, and bit for bit between
 * the ways they can be computed. */
#include "fovea/autograd.h"
#include "fovea/optim.h"
#include "support/opcase.h"
#include "support/tensors.h"
#include "tensor/tensor.h"

static fv_ctx *make(void) { return op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU); }

/* ---- matmul ----------------------------------------------------------------------- */

/* Element offset in t of the given place of a broadcast batch. */
static int64_t batch_offset(const fv_tensor *t, int rank, const int64_t *place)
{
    int64_t at = 0;
    for (int i = 0; i < rank - 2; i++) {
        int own = i - (rank - fv_tensor_rank(t));
        if (own >= 0 && fv_tensor_size(t, own) != 1) at += place[i] * fv_tensor_strides(t)[own];
    }
    return at;
}

/* c against sums in double over the strides of a and b. */
static void expect_product(fv_ctx *ctx, fv_tensor *c, fv_tensor *a, fv_tensor *b)
{
    if (!fv_tensor_valid(c)) {
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
        return;
    }
    const int rank = fv_tensor_rank(c), ra = fv_tensor_rank(a), rb = fv_tensor_rank(b);
    const int64_t m = fv_tensor_size(c, -2), n = fv_tensor_size(c, -1), k = fv_tensor_size(a, -1);
    const int64_t *sa = fv_tensor_strides(a) + ra - 2, *sb = fv_tensor_strides(b) + rb - 2;
    const float *da = fv_tensor_data(a), *db = fv_tensor_data(b), *dc = fv_tensor_data(c);
    for (int64_t e = 0; e < fv_tensor_count(c); e++) {
        int64_t place[FV_MAX_RANK], rest = e / (m * n);
        for (int i = rank - 3; i >= 0; i--) {
            place[i] = rest % fv_tensor_size(c, i);
            rest /= fv_tensor_size(c, i);
        }
        const int64_t i = e / n % m, j = e % n;
        const int64_t oa = batch_offset(a, rank, place), ob = batch_offset(b, rank, place);
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; p++) {
            double term =
                (double)da[oa + i * sa[0] + p * sa[1]] * (double)db[ob + p * sb[0] + j * sb[1]];
            sum += term;
            size += fabs(term);
        }
        CHECK_NEAR(dc[e], sum, 1e-6 * size + 1e-12);
    }
}

static void matmul_equals_loops(void)
{
    fv_ctx *ctx = make();
    struct {
        fv_tensor *a, *b;
    } pairs[] = {
        {tensor_random(ctx, 1, 2, 7, 5), tensor_random(ctx, 2, 2, 5, 9)},
        {tensor_random(ctx, 3, 2, 1, 70), tensor_random(ctx, 4, 2, 70, 130)},
        {tensor_random(ctx, 5, 3, 4, 6, 8), tensor_random(ctx, 6, 3, 4, 8, 3)},
        {tensor_random(ctx, 7, 4, 2, 3, 5, 8), tensor_random(ctx, 8, 2, 8, 4)},
        {tensor_random(ctx, 9, 2, 5, 8), tensor_random(ctx, 10, 3, 6, 8, 4)},
        {tensor_random(ctx, 11, 5, 2, 1, 3, 4, 6), tensor_random(ctx, 12, 4, 5, 1, 6, 2)},
        {tensor_random(ctx, 13, 8, 2, 1, 2, 1, 2, 1, 3, 4),
         tensor_random(ctx, 14, 8, 1, 2, 1, 2, 1, 2, 4, 3)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        expect_product(ctx, fv_matmul(ctx, pairs[i].a, pairs[i].b), pairs[i].a, pairs[i].b);
    fv_ctx_destroy(&ctx);
}

static void matmul_of_views(void)
{
    fv_ctx *ctx = make();
    fv_tensor *a = tensor_random(ctx, 1, 3, 6, 4, 10), *b = tensor_random(ctx, 2, 3, 6, 9, 10);
    fv_tensor *views[][2] = {
        {a, fv_transpose(ctx, b, 1, 2)},                               /* A B^T */
        {fv_transpose(ctx, a, 1, 2), fv_slice(ctx, a, 2, 0, 7, 1)},    /* A^T B, gaps */
        {fv_slice(ctx, a, 2, 1, 10, 3), fv_slice(ctx, b, 1, 0, 3, 1)}, /* no unit stride */
        {fv_transpose(ctx, a, 0, 1),
         fv_transpose(ctx, fv_slice(ctx, b, 0, 0, 1, 1), 1, 2)}, /* batch steps */
        {fv_broadcast(ctx, fv_slice(ctx, a, 1, 0, 1, 1), 3, (int64_t[]){6, 5, 10}),
         fv_transpose(ctx, b, 1, 2)}, /* repeated rows */
    };
    for (int i = 0; i < 5; i++) {
        fv_tensor *x = views[i][0], *y = views[i][1];
        fv_tensor *c = fv_matmul(ctx, x, y);
        expect_product(ctx, c, x, y);
        fv_tensor *plain = fv_matmul(ctx, fv_contiguous(ctx, x), fv_contiguous(ctx, y));
        CHECK(tensor_same(ctx, c, plain));
    }
    fv_ctx_destroy(&ctx);
}

static void matmul_of_vectors(void)
{
    fv_ctx *ctx = make();
    fv_tensor *m = tensor_of(ctx, (float[]){1, 2, 3, 4, 5, 6}, 2, 2, 3);
    fv_tensor *v = fv_leaf(ctx, tensor_of(ctx, (float[]){1, 0, -1}, 1, 3));
    fv_tensor *u = tensor_of(ctx, (float[]){2, 1}, 1, 2);
    fv_tensor *mv = fv_matmul(ctx, m, v), *um = fv_matmul(ctx, u, m);
    CHECK_EQ(fv_tensor_rank(mv), 1);
    CHECK_VALUES(ctx, mv, 0, -2, -2);
    CHECK_EQ(fv_tensor_rank(um), 1);
    CHECK_VALUES(ctx, um, 0, 6, 9, 12);
    fv_tensor *dot = fv_matmul(ctx, v, v);
    CHECK_EQ(fv_tensor_rank(dot), 0);
    CHECK_VALUES(ctx, dot, 0, 2);
    CHECK_OK(ctx, fv_backward(ctx, dot));
    CHECK_VALUES(ctx, fv_grad(ctx, v), 0, 2, 0, -2);
    fv_ctx_destroy(&ctx);
}

static void matmul_refuses(void)
{
    fv_ctx *ctx = make();
    fv_tensor *a = tensor_random(ctx, 1, 2, 3, 4), *b = tensor_random(ctx, 2, 2, 3, 4);
    CHECK(!fv_tensor_valid(fv_matmul(ctx, a, b)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "matmul: shapes [3,4] and [3,4]");
    fv_matmul(ctx, tensor_random(ctx, 1, 3, 2, 3, 4), tensor_random(ctx, 1, 3, 5, 4, 2));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,3,4] and [5,4,2]");
    fv_matmul(ctx, a, fv_cast(ctx, fv_transpose(ctx, b, 0, 1), FV_F64));
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "f32 and f64");
    fv_matmul(ctx, fv_scalar(ctx, FV_F32, 1), a);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rank 0");
    fv_matmul(ctx, a, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "missing");
    fv_ctx_destroy(&ctx);
}

/* A row's bits do not depend on the rows and the batch around it. */
static void rows_are_independent(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_random(ctx, 1, 3, 3, 11, 37), *w = tensor_random(ctx, 2, 2, 37, 70);
    fv_tensor *all = fv_matmul(ctx, x, w);
    for (int64_t b = 0; b < 3; b++)
        for (int64_t r = 0; r < 11; r++) {
            fv_tensor *row = fv_slice(ctx, fv_slice(ctx, x, 0, b, b + 1, 1), 1, r, r + 1, 1);
            fv_tensor *of_all = fv_slice(ctx, fv_slice(ctx, all, 0, b, b + 1, 1), 1, r, r + 1, 1);
            CHECK(tensor_same(ctx, fv_matmul(ctx, row, w), of_all));
        }
    fv_ctx_destroy(&ctx);
}

/* ---- linear ----------------------------------------------------------------------- */

static fv_tensor *activation(fv_ctx *ctx, fv_tensor *y, fv_act act)
{
    switch (act) {
    case FV_ACT_RELU:
        return fv_relu(ctx, y);
    case FV_ACT_GELU:
        return fv_gelu(ctx, y);
    case FV_ACT_GELU_TANH:
        return fv_gelu_tanh(ctx, y);
    case FV_ACT_SILU:
        return fv_silu(ctx, y);
    case FV_ACT_TANH:
        return fv_tanh(ctx, y);
    case FV_ACT_SIGMOID:
        return fv_sigmoid(ctx, y);
    case FV_ACT_QUICK_GELU:
        return fv_quick_gelu(ctx, y);
    default:
        return y;
    }
}

/* act(x W^T + b) + residual, step by step. */
static fv_tensor *by_steps(fv_ctx *ctx, fv_tensor *x, fv_tensor *w, fv_tensor *b, fv_act act,
                           fv_tensor *residual)
{
    fv_tensor *y = fv_matmul(ctx, x, fv_transpose(ctx, w, 0, 1));
    if (b) y = fv_add(ctx, y, b);
    y = activation(ctx, y, act);
    return residual ? fv_add(ctx, y, residual) : y;
}

/* Fused, recorded and step by step give the same bits; so do packed weights. */
static void linear_ways_agree(void)
{
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        fv_ctx *ctx = op_context((fv_simd)level, 1, FV_DEVICE_CPU);
        fv_tensor *x = tensor_random(ctx, 1, 3, 2, 9, 33), *w = tensor_random(ctx, 2, 2, 70, 33);
        fv_tensor *bias = tensor_random(ctx, 3, 1, 70), *res = tensor_random(ctx, 4, 3, 2, 9, 70);
        fv_tensor *w2 = fv_leaf(ctx, tensor_random(ctx, 2, 2, 70, 33));
        fv_tensor *w3 = tensor_random(ctx, 2, 2, 70, 33);
        fv_tensor *w4 = fv_leaf(ctx, tensor_random(ctx, 2, 2, 70, 33));
        CHECK_OK(ctx, fv_linear_pack(ctx, w3));
        CHECK_OK(ctx, fv_linear_pack(ctx, w4));
        for (int act = FV_ACT_NONE; act < FV_ACT_COUNT; act++)
            for (int parts = 0; parts < 4; parts++) {
                fv_scope_begin(ctx);
                fv_tensor *b = parts & 1 ? bias : NULL, *r = parts & 2 ? res : NULL;
                fv_tensor *fused = fv_linear_act(ctx, x, w, b, (fv_act)act, r);
                fv_tensor *recorded = fv_linear_act(ctx, x, w2, b, (fv_act)act, r);
                fv_tensor *packed = fv_linear_act(ctx, x, w3, b, (fv_act)act, r);
                fv_tensor *both = fv_linear_act(ctx, x, w4, b, (fv_act)act, r);
                fv_tensor *steps = by_steps(ctx, x, w, b, (fv_act)act, r);
                CHECK(tensor_same(ctx, fused, recorded));
                CHECK(tensor_same(ctx, fused, packed));
                CHECK(tensor_same(ctx, fused, both));
                CHECK(tensor_same(ctx, fused, steps));
                fv_scope_end(ctx);
            }
        fv_ctx_destroy(&ctx);
    }
}

/* The result and the gradients of act(x) W^T + b + residual, with bits of the composition. */
static void activated_inputs_agree(void)
{
    for (int act = FV_ACT_NONE; act < FV_ACT_COUNT; act++) {
        fv_ctx *ctx = make();
        fv_tensor *leaves[2][4], *y[2];
        for (int way = 0; way < 2; way++) {
            fv_tensor **in = leaves[way];
            in[0] = fv_leaf(ctx, tensor_random(ctx, 1, 3, 2, 9, 33));
            in[1] = fv_leaf(ctx, tensor_random(ctx, 2, 2, 70, 33));
            in[2] = fv_leaf(ctx, tensor_random(ctx, 3, 1, 70));
            in[3] = fv_leaf(ctx, tensor_random(ctx, 4, 3, 2, 9, 70));
            y[way] = way ? fv_act_linear(ctx, in[0], (fv_act)act, in[1], in[2], in[3])
                         : fv_linear_act(ctx, activation(ctx, in[0], (fv_act)act), in[1], in[2],
                                         FV_ACT_NONE, in[3]);
        }
        CHECK(tensor_same(ctx, y[0], y[1]));
        for (int way = 0; way < 2; way++)
            CHECK_OK(ctx, fv_backward_from(ctx, y[way], tensor_random(ctx, 5, 3, 2, 9, 70)));
        for (int i = 0; i < 4; i++)
            CHECK(tensor_same(ctx, fv_grad(ctx, leaves[0][i]), fv_grad(ctx, leaves[1][i])));
        fv_ctx_destroy(&ctx);
    }
}

/* A frozen weight or input needs its part of backward only. */
static void activated_inputs_of_constants(void)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        fv_ctx *ctx = make();
        fv_tensor *x = tensor_random(ctx, 1, 2, 5, 8), *w = tensor_random(ctx, 2, 2, 3, 8);
        fv_tensor *leaf = fv_leaf(ctx, frozen ? x : w), *g = tensor_random(ctx, 3, 2, 5, 3);
        fv_tensor *other = fv_leaf(ctx, frozen ? x : w);
        CHECK_OK(ctx, fv_backward_from(ctx,
                                       fv_act_linear(ctx, frozen ? leaf : x, FV_ACT_GELU,
                                                     frozen ? w : leaf, NULL, NULL),
                                       g));
        CHECK_OK(ctx, fv_backward_from(ctx,
                                       fv_linear(ctx, fv_gelu(ctx, frozen ? other : x),
                                                 frozen ? w : other, NULL),
                                       g));
        CHECK(tensor_same(ctx, fv_grad(ctx, leaf), fv_grad(ctx, other)));
        fv_ctx_destroy(&ctx);
    }
}

/* Between forward and backward, a hidden layer by fv_act_linear holds one hidden tensor less. */
static void activated_inputs_are_not_kept(void)
{
    enum { ROWS = 64, WIDTH = 16, HIDDEN = 1024, BYTES = ROWS * HIDDEN * 4 };
    uint64_t held[2];
    for (int way = 0; way < 2; way++) {
        fv_ctx *ctx = make();
        fv_tensor *x = tensor_random(ctx, 1, 2, ROWS, WIDTH);
        fv_tensor *up = fv_leaf(ctx, tensor_random(ctx, 2, 2, HIDDEN, WIDTH));
        fv_tensor *down = fv_leaf(ctx, tensor_random(ctx, 3, 2, WIDTH, HIDDEN));
        fv_scope_begin(ctx);
        fv_tensor *y =
            way ? fv_act_linear(ctx, fv_linear(ctx, x, up, NULL), FV_ACT_GELU, down, NULL, NULL)
                : fv_linear(ctx, fv_linear_act(ctx, x, up, NULL, FV_ACT_GELU, NULL), down, NULL);
        fv_scope_keep(ctx, y);
        fv_scope_end(ctx);
        fv_memory_stats memory;
        fv_ctx_memory(ctx, &memory);
        held[way] = memory.used_bytes;
        fv_ctx_destroy(&ctx);
    }
    CHECK(held[0] >= held[1] + BYTES);
}

static void packed_copy_follows_the_weight(void)
{
    fv_ctx *ctx = make();
    fv_tensor *w = tensor_of(ctx, (float[]){1, 2, 3, 4}, 2, 2, 2);
    fv_tensor *x = tensor_of(ctx, (float[]){1, 10}, 2, 1, 2);
    CHECK_OK(ctx, fv_linear_pack(ctx, w));
    CHECK(w->packed != NULL);
    CHECK_VALUES(ctx, fv_linear(ctx, x, w, NULL), 0, 21, 43);
    float other[4] = {5, 6, 7, 8};
    CHECK_OK(ctx, fv_tensor_write(ctx, w, other, sizeof other));
    CHECK_VALUES(ctx, fv_linear(ctx, x, w, NULL), 0, 65, 87);
    CHECK_OK(ctx, fv_linear_pack(ctx, w));
    CHECK_OK(ctx, fv_linear_pack(ctx, w)); /* again: replaces */
    CHECK_VALUES(ctx, fv_linear(ctx, x, w, NULL), 0, 65, 87);
    float row[2] = {0, 1};
    CHECK_OK(ctx, fv_tensor_write(ctx, fv_slice(ctx, w, 0, 0, 1, 1), row, sizeof row));
    CHECK_VALUES(ctx, fv_linear(ctx, x, w, NULL), 0, 10, 87); /* written through a view */

    CHECK_EQ(fv_linear_pack(ctx, fv_cast(ctx, w, FV_F64)), FV_ERR_DTYPE);
    CHECK_EQ(fv_linear_pack(ctx, tensor_random(ctx, 1, 1, 4)), FV_ERR_SHAPE);
    CHECK_EQ(fv_linear_pack(ctx, NULL), FV_ERR_STATE);
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    fv_ctx_destroy(&ctx);
}

/* A packed-only weight gives the products of its form, rows of it as an embedding, and nothing
 * else. */
static void frozen_weights(void)
{
    for (int form = FV_WEIGHT_F32; form < FV_WEIGHT_FORM_COUNT; form++) {
        fv_ctx *ctx = make();
        enum { OUT = 70, IN = 33, ROWS = 9 };
        fv_params *params = NULL;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        fv_tensor *plain = tensor_random(ctx, 2, 2, OUT, IN);
        fv_tensor *w = fv_params_add(params, "w", tensor_random(ctx, 2, 2, OUT, IN));
        fv_tensor *x = tensor_random(ctx, 1, 2, ROWS, IN);
        CHECK_OK(ctx, fv_linear_pack_in_place(ctx, w, (fv_weight_form)form));
        fv_tensor *y = fv_linear(ctx, x, w, NULL), *want = fv_linear(ctx, x, plain, NULL);
        const double error = tensor_distance(ctx, y, want);
        CHECK(form == FV_WEIGHT_F32 ? error == 0 : error > 0 && error < 0.2);

        /* Row r of the table is what a product with the r-th unit vector sees in column r. */
        int64_t all[OUT];
        for (int64_t i = 0; i < OUT; i++)
            all[i] = i;
        fv_tensor *units = fv_one_hot(ctx, indices_of(ctx, all, IN), IN, FV_F32);
        fv_tensor *rows = fv_embedding(ctx, w, indices_of(ctx, all, OUT), -1);
        fv_tensor *columns = fv_linear(ctx, units, w, NULL);
        CHECK(tensor_same(ctx, rows, fv_contiguous(ctx, fv_transpose(ctx, columns, 0, 1))));

        float values[OUT * IN];
        CHECK_EQ(fv_tensor_read(ctx, w, values, sizeof values), FV_ERR_STATE);
        CHECK_EQ(fv_linear_pack_in_place(ctx, w, FV_WEIGHT_F32), FV_ERR_STATE);
        CHECK_EQ(fv_linear_pack(ctx, w), FV_ERR_STATE);
        fv_add(ctx, w, w);
        CHECK_ERROR(ctx, FV_ERR_STATE, "packed-only");
        fv_linear(ctx, fv_leaf(ctx, x), w, NULL);
        CHECK_ERROR(ctx, FV_ERR_STATE, "packed-only weight, which has no gradient");
        fv_embedding(ctx, w, indices_of(ctx, (int64_t[]){OUT}, 1), -1);
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
        CHECK_EQ(fv_linear_pack_in_place(ctx, x, (fv_weight_form)9), FV_ERR_ARGUMENT);
        CHECK_EQ(fv_linear_pack_in_place(ctx, x, FV_WEIGHT_FORM_COUNT), FV_ERR_ARGUMENT);
        CHECK_EQ(fv_linear_pack_in_place(ctx, x, (fv_weight_form)-1), FV_ERR_ARGUMENT);
        CHECK_EQ(fv_linear_pack_in_place(ctx, tensor_random(ctx, 1, 1, 4), FV_WEIGHT_I8),
                 FV_ERR_SHAPE);
        fv_params_destroy(&params);
        fv_ctx_destroy(&ctx);
    }
}

/* The gradient of a weight that several calls use is that of one call over all their rows, the
 * later calls' first, to the bit; whether few or too many rows wait for the end of backward. */
static void shared_weights_sum_in_one_chain(void)
{
    const struct {
        int calls, rows, in, out;
    } cases[] = {{3, 7, 33, 20}, {5, 1024, 4092, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int calls = cases[i].calls, rows = cases[i].rows, in = cases[i].in;
        fv_ctx *ctx = make();
        fv_tensor *w = fv_leaf(ctx, tensor_random(ctx, 9, 2, cases[i].out, in));
        fv_tensor *w_once = fv_leaf(ctx, tensor_random(ctx, 9, 2, cases[i].out, in));
        fv_tensor *x[5], *reversed[5], *y[5];
        for (int k = 0; k < calls; k++) {
            x[k] = reversed[calls - 1 - k] = tensor_random(ctx, (uint64_t)k, 2, rows, in);
            y[k] = fv_linear(ctx, x[k], w, NULL);
        }
        fv_tensor *all = fv_square(ctx, fv_concat(ctx, calls, y, 0));
        CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, all, 0, NULL, false)));
        fv_tensor *once = fv_linear(ctx, fv_concat(ctx, calls, reversed, 0), w_once, NULL);
        CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, once), 0, NULL, false)));
        CHECK(tensor_same(ctx, fv_grad(ctx, w), fv_grad(ctx, w_once)));
        fv_ctx_destroy(&ctx);
    }
}

/* A transposed view as the weight, and x with gaps, against plain copies. */
static void linear_of_views(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_slice(ctx, tensor_random(ctx, 1, 3, 4, 5, 24), 2, 0, 24, 2);
    fv_tensor *w = fv_transpose(ctx, tensor_random(ctx, 2, 2, 12, 7), 0, 1);
    fv_tensor *b = fv_slice(ctx, tensor_random(ctx, 3, 1, 14), 0, 0, 14, 2);
    fv_tensor *y = fv_linear(ctx, x, w, b);
    CHECK_EQ(fv_tensor_rank(y), 3);
    CHECK(tensor_same(
        ctx, y,
        fv_linear(ctx, fv_contiguous(ctx, x), fv_contiguous(ctx, w), fv_contiguous(ctx, b))));
    fv_tensor *swapped = fv_transpose(ctx, x, 0, 1);
    CHECK(tensor_same(ctx, fv_linear(ctx, swapped, w, b), fv_transpose(ctx, y, 0, 1)));
    fv_ctx_destroy(&ctx);
}

/* One weight used twice: the second gradient is added to the first in place. */
static void shared_weight_adds_up(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x1 = tensor_random(ctx, 1, 2, 6, 5), *x2 = tensor_random(ctx, 2, 2, 4, 5);
    fv_tensor *w = fv_leaf(ctx, tensor_random(ctx, 3, 2, 3, 5));
    fv_tensor *b = fv_leaf(ctx, tensor_random(ctx, 4, 1, 3));
    fv_tensor *y1 = fv_sum(ctx, fv_square(ctx, fv_linear(ctx, x1, w, b)), 0, NULL, false);
    fv_tensor *y2 = fv_sum(ctx, fv_square(ctx, fv_linear(ctx, x2, w, b)), 0, NULL, false);
    CHECK_OK(ctx, fv_backward(ctx, fv_add(ctx, y1, y2)));

    fv_tensor *both[2] = {x1, x2};
    fv_tensor *w2 = fv_leaf(ctx, tensor_random(ctx, 3, 2, 3, 5));
    fv_tensor *b2 = fv_leaf(ctx, tensor_random(ctx, 4, 1, 3));
    fv_tensor *whole = fv_linear(ctx, fv_concat(ctx, 2, both, 0), w2, b2);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, whole), 0, NULL, false)));
    CHECK(tensor_distance(ctx, fv_grad(ctx, w), fv_grad(ctx, w2)) < 1e-4);
    CHECK(tensor_distance(ctx, fv_grad(ctx, b), fv_grad(ctx, b2)) < 1e-4);
    fv_ctx_destroy(&ctx);
}

static void linear_refuses(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_random(ctx, 1, 2, 3, 4), *w = tensor_random(ctx, 2, 2, 5, 4);
    fv_linear(ctx, x, tensor_random(ctx, 2, 2, 5, 3), NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[3,4] and [5,3]");
    fv_linear(ctx, x, w, tensor_random(ctx, 2, 1, 4));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[5,4] and [4]");
    fv_linear_act(ctx, x, w, NULL, FV_ACT_NONE, x);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "residual has shape [3,4], expected [3,5]");
    fv_linear_act(ctx, x, w, NULL, (fv_act)99, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "activation");
    fv_linear(ctx, fv_scalar(ctx, FV_F32, 1), w, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rank 0");
    fv_ctx_destroy(&ctx);
}

/* ---- convolution ------------------------------------------------------------------ */

static void conv1d_equals_loops(void)
{
    enum { B = 2, C = 3, T = 10, O = 4, K = 3, D = 3 };
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_random(ctx, 1, 3, B, C, T), *w = tensor_random(ctx, 2, 3, O, C, K);
    fv_tensor *bias = tensor_random(ctx, 3, 1, O);
    fv_tensor *y = fv_conv1d_causal(ctx, x, w, bias, D);
    CHECK(fv_tensor_valid(y));
    const float *dx = fv_tensor_data(x), *dw = fv_tensor_data(w), *db = fv_tensor_data(bias);
    const float *dy = fv_tensor_data(y);
    for (int b = 0; b < B; b++)
        for (int o = 0; o < O; o++)
            for (int t = 0; t < T; t++) {
                double sum = (double)db[o];
                for (int c = 0; c < C; c++)
                    for (int j = 0; j < K; j++) {
                        int from = t - (K - 1 - j) * D;
                        if (from >= 0)
                            sum += (double)dw[(o * C + c) * K + j] *
                                   (double)dx[(b * C + c) * T + from];
                    }
                CHECK_NEAR(dy[(b * O + o) * T + t], sum, 1e-5);
            }
    fv_conv1d_causal(ctx, x, tensor_random(ctx, 2, 3, O, C + 1, K), NULL, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,3,10] and [4,4,3]");
    fv_conv1d_causal(ctx, x, w, NULL, 0);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "dilation 0");
    fv_conv1d_causal(ctx, x, w, NULL, INT64_MAX / 2);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "dilation");
    fv_conv1d_causal(ctx, x, w, x, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "bias");
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(matmul_equals_loops);
    RUN(matmul_of_views);
    RUN(matmul_of_vectors);
    RUN(matmul_refuses);
    RUN(rows_are_independent);
    RUN(linear_ways_agree);
    RUN(activated_inputs_agree);
    RUN(activated_inputs_of_constants);
    RUN(activated_inputs_are_not_kept);
    RUN(packed_copy_follows_the_weight);
    RUN(frozen_weights);
    RUN(linear_of_views);
    RUN(shared_weight_adds_up);
    RUN(shared_weights_sum_in_one_chain);
    RUN(linear_refuses);
    RUN(conv1d_equals_loops);
    return TEST_END();
}

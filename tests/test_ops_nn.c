/* Values and edges of the ops that layers are made of: normalisers, indices, random numbers, losses
 * and recurrent sequences. Their gradients are proved in test_grad.c. */
#include "fovea/autograd.h"
#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *make(void) { return op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU); }

static fv_tensor *total(fv_ctx *ctx, fv_tensor *x) { return fv_sum(ctx, x, 0, NULL, false); }

/* ---- normalisers ------------------------------------------------------------------ */

static void softmax_values(void)
{
    fv_ctx *ctx = make();
    const float inf = INFINITY;
    fv_tensor *x = tensor_of(ctx, (float[]){0, logf(3), -inf, -inf, 1000, 1000}, 2, 3, 2);
    CHECK_VALUES(ctx, fv_softmax(ctx, x, -1), 1e-6, 0.25, 0.75, 0, 0, 0.5, 0.5);
    CHECK_VALUES(ctx, fv_log_softmax(ctx, x, 1), 1e-6, log(0.25), log(0.75), -INFINITY, -INFINITY,
                 -log(2), -log(2));
    fv_tensor *y = tensor_random(ctx, 1, 3, 4, 5, 6);
    for (int axis = 0; axis < 3; axis++) {
        fv_tensor *last = fv_softmax(ctx, fv_contiguous(ctx, fv_transpose(ctx, y, axis, 2)), 2);
        CHECK(tensor_same(ctx, fv_softmax(ctx, y, axis), fv_transpose(ctx, last, axis, 2)));
        CHECK(tensor_distance(ctx, fv_exp(ctx, fv_log_softmax(ctx, y, axis)),
                              fv_softmax(ctx, y, axis)) < 1e-6);
    }
    fv_softmax(ctx, y, 3);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "softmax: axis 3");
    fv_softmax(ctx, fv_scalar(ctx, FV_F32, 1), 0);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "rank 0");
    fv_softmax(ctx, indices_of(ctx, (int64_t[]){1}, 1), 0);
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "i64");
    fv_ctx_destroy(&ctx);
}

static void norm_values(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 3, 5, 5}, 2, 2, 2);
    fv_tensor *gamma = tensor_of(ctx, (float[]){2, 3}, 1, 2);
    fv_tensor *beta = tensor_of(ctx, (float[]){10, 20}, 1, 2);
    CHECK_VALUES(ctx, fv_layer_norm(ctx, x, gamma, beta, 0.0625), 1e-5, 10 - 2 / sqrt(1.0625),
                 20 + 3 / sqrt(1.0625), 10, 20);
    CHECK_VALUES(ctx, fv_layer_norm(ctx, x, NULL, NULL, 0.0625), 1e-6, -1 / sqrt(1.0625),
                 1 / sqrt(1.0625), 0, 0);
    CHECK_VALUES(ctx, fv_rms_norm(ctx, x, gamma, 0), 1e-5, 2 / sqrt(5), 9 / sqrt(5), 2, 3);
    fv_layer_norm(ctx, x, tensor_of(ctx, (float[]){1, 2, 3}, 1, 3), NULL, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,2] and [3]");
    fv_rms_norm(ctx, x, NULL, -1);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "eps");
    fv_ctx_destroy(&ctx);
}

/* gamma's gradient waits in place while beta's does not: each launch adds or overwrites as it must.
 */
static void norm_parameters_add_up(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_random(ctx, 1, 2, 9, 5);
    fv_tensor *gamma = fv_leaf(ctx, tensor_random(ctx, 2, 1, 5));
    fv_tensor *beta = fv_leaf(ctx, tensor_random(ctx, 3, 1, 5));
    fv_tensor *h = fv_layer_norm(ctx, x, NULL, NULL, 1e-5);
    fv_tensor *y = total(ctx, fv_layer_norm(ctx, x, gamma, beta, 1e-5));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_layer_norm(ctx, x, gamma, NULL, 1e-5))));
    CHECK_OK(ctx, fv_backward(ctx, y));
    const int rows = 0;
    fv_tensor *once = fv_sum(ctx, h, 1, &rows, false);
    CHECK(tensor_distance(ctx, fv_grad(ctx, gamma), fv_scale(ctx, once, 2)) < 1e-5);
    CHECK_VALUES(ctx, fv_grad(ctx, beta), 0, 9, 9, 9, 9, 9);
    fv_ctx_destroy(&ctx);
}

/* ---- indices ---------------------------------------------------------------------- */

static void embedding_skips_padding(void)
{
    fv_ctx *ctx = make();
    fv_tensor *table = fv_leaf(ctx, tensor_of(ctx, (float[]){1, 2, 3, 4, 5, 6}, 2, 3, 2));
    fv_tensor *index = indices_of(ctx, (int64_t[]){2, 0, 2, 1}, 4);
    fv_tensor *y = fv_embedding(ctx, table, index, 0);
    CHECK_VALUES(ctx, y, 0, 5, 6, 1, 2, 5, 6, 3, 4);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    CHECK_VALUES(ctx, fv_grad(ctx, table), 0, 0, 0, 1, 1, 2, 2);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_embedding(ctx, table, index, -1))));
    CHECK_VALUES(ctx, fv_grad(ctx, table), 0, 1, 1, 2, 2, 4, 4);

    fv_embedding(ctx, table, indices_of(ctx, (int64_t[]){0, 3}, 2), -1);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "3");
    fv_embedding(ctx, table, indices_of(ctx, (int64_t[]){-1}, 1), -1);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "-1");
    fv_embedding(ctx, table, index, 3);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "padding row 3");
    fv_embedding(ctx, table, table, -1);
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "i64");
    fv_ctx_destroy(&ctx);
}

static void gather_and_scatter(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3, 4, 5, 6}, 2, 2, 3);
    fv_tensor *index =
        fv_reshape(ctx, indices_of(ctx, (int64_t[]){2, 0, 1, 1}, 4), 2, (int64_t[]){2, 2});
    CHECK_VALUES(ctx, fv_gather(ctx, x, index, 1), 0, 3, 1, 5, 5);
    fv_tensor *src = tensor_of(ctx, (float[]){10, 20, 30, 40}, 2, 2, 2);
    CHECK_VALUES(ctx, fv_scatter_add(ctx, x, index, src, -1), 0, 21, 2, 13, 4, 75, 6);
    fv_tensor *rows =
        fv_reshape(ctx, indices_of(ctx, (int64_t[]){1, 1, 0}, 3), 2, (int64_t[]){1, 3});
    CHECK_VALUES(ctx, fv_gather(ctx, x, rows, 0), 0, 4, 5, 3);
    CHECK_VALUES(ctx, x, 0, 1, 2, 3, 4, 5, 6);

    fv_tensor *pick = indices_of(ctx, (int64_t[]){2, 2, 0}, 3);
    CHECK_VALUES(ctx, fv_index_select(ctx, x, pick, 1), 0, 3, 3, 1, 6, 6, 4);
    CHECK_VALUES(ctx, fv_index_select(ctx, fv_transpose(ctx, x, 0, 1), pick, 0), 0, 3, 6, 3, 6, 1,
                 4);

    /* Whole numbers, too large for a double to tell apart. */
    const int64_t big = (INT64_C(1) << 53) + 1;
    int64_t got[3];
    fv_tensor *numbers = indices_of(ctx, (int64_t[]){7, -1, big}, 3);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_index_select(ctx, numbers, pick, 0), got, sizeof got));
    CHECK(got[0] == big && got[1] == big && got[2] == 7);

    fv_gather(ctx, x, index, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,3] and [2,2]");
    fv_scatter_add(ctx, x, index, x, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,2] and [2,3]");
    fv_index_select(ctx, x, pick, 0);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "2");
    fv_index_select(ctx, x, index, 0);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rank 2");
    fv_ctx_destroy(&ctx);
}

static void one_hot_values(void)
{
    fv_ctx *ctx = make();
    fv_tensor *index = indices_of(ctx, (int64_t[]){2, 0}, 2);
    CHECK_VALUES(ctx, fv_one_hot(ctx, index, 3, FV_F32), 0, 0, 0, 1, 1, 0, 0);
    CHECK_VALUES(ctx, fv_one_hot(ctx, index, 3, FV_I64), 0, 0, 0, 1, 1, 0, 0);
    fv_one_hot(ctx, index, 2, FV_F32);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "2");
    fv_one_hot(ctx, index, 0, FV_F32);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "expected at least one class, got 0");
    fv_ctx_destroy(&ctx);
}

static void topk_values(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 5, 5, -2, 0, NAN, 7, 7}, 2, 2, 4), *place;
    CHECK_VALUES(ctx, fv_topk(ctx, x, 3, &place), 0, 5, 5, 1, NAN, 7, 7);
    CHECK_VALUES(ctx, place, 0, 1, 2, 0, 1, 2, 3);
    CHECK_VALUES(ctx, fv_topk(ctx, x, 1, NULL), 0, 5, NAN);
    fv_topk(ctx, x, 5, &place);
    CHECK(!fv_tensor_valid(place));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "k is 5, expected 0 to 4");
    fv_ctx_destroy(&ctx);
}

/* ---- random ----------------------------------------------------------------------- */

static void dropout_keeps_its_mask(void)
{
    enum { N = 64, D = 100 };
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 2, (int64_t[]){N, D}, 3.0));
    fv_ctx_set_step(ctx, 5, 0);
    fv_tensor *y = fv_retain(ctx, fv_dropout(ctx, x, 0.25));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, y)));
    float *value = tensor_floats(ctx, y), *grad = tensor_floats(ctx, fv_grad(ctx, x));
    int kept = 0;
    for (int i = 0; i < N * D; i++) {
        bool keep = value[i] != 0;
        kept += keep;
        CHECK_NEAR(value[i], keep ? 4.0 : 0.0, 1e-6);
        CHECK_NEAR(grad[i], keep ? 1.0 / 0.75 : 0.0, 1e-6);
    }
    CHECK(kept > 0.72 * N * D && kept < 0.78 * N * D);
    free(value);
    free(grad);

    CHECK(fv_dropout(ctx, x, 0.0) == x);
    fv_dropout(ctx, x, 1.0);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "dropout: p is 1");
    fv_dropout(ctx, x, NAN);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "dropout");
    fv_ctx_destroy(&ctx);
}

/* Rows [first, last) of a batch, drawn alone under their own offset. */
static fv_tensor *part_of_draw(fv_ctx *ctx, fv_tensor *x, int64_t first, int64_t last)
{
    fv_ctx_set_step(ctx, 9, (uint64_t)first);
    return fv_dropout(ctx, fv_slice(ctx, x, 0, first, last, 1), 0.5);
}

static void a_split_batch_draws_the_same(void)
{
    fv_ctx *ctx = make();
    fv_tensor *shapes[] = {tensor_random(ctx, 1, 1, 10), tensor_random(ctx, 2, 2, 10, 7),
                           tensor_random(ctx, 3, 4, 10, 3, 2, 5)};
    for (int i = 0; i < 3; i++) {
        fv_ctx_set_step(ctx, 9, 0);
        fv_tensor *whole = fv_dropout(ctx, shapes[i], 0.5);
        fv_tensor *next = fv_dropout(ctx, shapes[i], 0.5);
        CHECK(!tensor_same(ctx, whole, next)); /* another site */
        fv_tensor *parts[2] = {part_of_draw(ctx, shapes[i], 0, 4),
                               part_of_draw(ctx, shapes[i], 4, 10)};
        CHECK(tensor_same(ctx, whole, fv_concat(ctx, 2, parts, 0)));
        fv_ctx_set_step(ctx, 10, 0);
        CHECK(!tensor_same(ctx, whole, fv_dropout(ctx, shapes[i], 0.5))); /* another step */
    }
    fv_ctx_destroy(&ctx);
}

static void random_numbers(void)
{
    enum { N = 40000 };
    fv_ctx *ctx = make();
    fv_tensor *u = fv_rand_uniform(ctx, FV_F32, 2, (int64_t[]){N / 100, 100}, -1, 3);
    fv_tensor *z = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){N / 100, 100}, 2, 0.5);
    float *value = tensor_floats(ctx, u), *normal = tensor_floats(ctx, z);
    double mean = 0, normal_mean = 0, square = 0;
    for (int i = 0; i < N; i++) {
        CHECK(value[i] >= -1 && value[i] < 3);
        mean += (double)value[i] / N;
        normal_mean += (double)normal[i] / N;
        square += ((double)normal[i] - 2) * ((double)normal[i] - 2) / N;
    }
    /* Five standard errors each. */
    CHECK_NEAR(mean, 1.0, 5 * 4 / sqrt(12.0 * N));
    CHECK_NEAR(normal_mean, 2.0, 5 * 0.5 / sqrt(N));
    CHECK_NEAR(square, 0.25, 5 * 0.25 * sqrt(2.0 / N));
    free(value);
    free(normal);
    CHECK_EQ(fv_tensor_rank(fv_rand_normal(ctx, FV_F64, 0, NULL, 0, 1)), 0);
    fv_rand_uniform(ctx, FV_I64, 1, (int64_t[]){3}, 0, 1);
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "i64");
    fv_rand_uniform(ctx, FV_F32, 1, (int64_t[]){3}, 1, 0);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "from 1 to 0");
    fv_rand_normal(ctx, FV_F32, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rank 9");
    fv_rand_normal(ctx, FV_F32, 1, (int64_t[]){-3}, 0, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "invalid shape of rank");
    fv_ctx_destroy(&ctx);
}

static void multinomial_frequencies(void)
{
    enum { SAMPLES = 20000 };
    fv_ctx *ctx = make();
    fv_tensor *w = tensor_of(ctx, (float[]){1, 0, 3, 0, 5, 5}, 2, 2, 3);
    fv_ctx_set_step(ctx, 1, 0);
    fv_tensor *picks = fv_multinomial(ctx, w, SAMPLES);
    int64_t *index = tensor_indices(ctx, picks), count[2][3] = {{0}};
    for (int i = 0; i < 2 * SAMPLES; i++) {
        CHECK(index[i] >= 0 && index[i] < 3);
        if (index[i] >= 0 && index[i] < 3) count[i / SAMPLES][index[i]]++;
    }
    free(index);
    CHECK_EQ(count[0][1], 0);
    CHECK_EQ(count[1][0], 0);
    CHECK_NEAR((double)count[0][2] / SAMPLES, 0.75, 5 * sqrt(0.75 * 0.25 / SAMPLES));
    CHECK_NEAR((double)count[1][1] / SAMPLES, 0.5, 5 * sqrt(0.25 / SAMPLES));

    fv_ctx_set_step(ctx, 1, 1);
    fv_tensor *second = fv_multinomial(ctx, fv_slice(ctx, w, 0, 1, 2, 1), SAMPLES);
    CHECK(tensor_same(ctx, second, fv_slice(ctx, picks, 0, 1, 2, 1)));

    fv_multinomial(ctx, tensor_of(ctx, (float[]){0, 0}, 1, 2), 1);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "row 0");
    fv_multinomial(ctx, w, -1);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "expected a number of samples >= 0, got -1");
    fv_multinomial(ctx, tensor_of(ctx, NULL, 2, 2, 0), 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rows have no weights");
    fv_ctx_destroy(&ctx);
}

/* ---- losses ----------------------------------------------------------------------- */

static void cross_entropy_edges(void)
{
    fv_ctx *ctx = make();
    const float ln3 = logf(3);
    fv_tensor *x = fv_leaf(ctx, tensor_of(ctx, (float[]){0, ln3, 5, 5, ln3, 0}, 2, 3, 2));
    fv_tensor *t = indices_of(ctx, (int64_t[]){1, 7, 1}, 3);
    const double a = -log(0.75), b = -log(0.25);
    fv_tensor *mean = fv_cross_entropy(ctx, x, t, 7, 0, FV_REDUCTION_MEAN);
    CHECK_VALUES(ctx, mean, 1e-6, (a + b) / 2);
    CHECK_VALUES(ctx, fv_cross_entropy(ctx, x, t, 7, 0, FV_REDUCTION_SUM), 1e-6, a + b);
    CHECK_VALUES(ctx, fv_cross_entropy(ctx, x, t, 7, 0.2, FV_REDUCTION_SUM), 1e-6,
                 0.8 * (a + b) + 0.2 * (a + b));
    CHECK_OK(ctx, fv_backward(ctx, mean));
    CHECK_VALUES(ctx, fv_grad(ctx, x), 1e-6, 0.125, -0.125, 0, 0, 0.375, -0.375);

    fv_zero_grad(ctx, x); /* nothing kept: no loss, no gradient, no NaN */
    fv_tensor *all = indices_of(ctx, (int64_t[]){-1, -1, -1}, 3);
    fv_tensor *none = fv_cross_entropy(ctx, x, all, -1, 0.1, FV_REDUCTION_MEAN);
    CHECK_VALUES(ctx, none, 0, 0);
    CHECK_OK(ctx, fv_backward(ctx, none));
    CHECK_VALUES(ctx, fv_grad(ctx, x), 0, 0, 0, 0, 0, 0, 0);

    fv_cross_entropy(ctx, x, t, -100, 0, FV_REDUCTION_MEAN);
    CHECK_ERROR(ctx, FV_ERR_INDEX, "7");
    fv_cross_entropy(ctx, x, indices_of(ctx, (int64_t[]){1, 1}, 2), -100, 0, FV_REDUCTION_MEAN);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[3,2] and [2]");
    fv_cross_entropy(ctx, x, t, 7, 1.0, FV_REDUCTION_MEAN);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "smoothing is 1");
    fv_ctx_destroy(&ctx);
}

static void bce_edges(void)
{
    fv_ctx *ctx = make();
    fv_tensor *p = fv_leaf(ctx, tensor_of(ctx, (float[]){0, 1, 0.25f, 1}, 1, 4));
    fv_tensor *t = tensor_of(ctx, (float[]){1, 1, 0.5f, 0}, 1, 4);
    fv_tensor *loss = fv_bce(ctx, p, t);
    CHECK_VALUES(ctx, loss, 1e-4, (100 + 0 - 0.5 * (log(0.25) + log(0.75)) + 100) / 4);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    float *g = tensor_floats(ctx, fv_grad(ctx, p));
    CHECK_NEAR(g[0], -1e12 / 4, 1e6);
    CHECK_NEAR(g[1], 0, 0);
    CHECK_NEAR(g[2], -0.25 / 0.1875 / 4, 1e-6);
    CHECK_NEAR(g[3], 1e12 / 4, 1e6);
    free(g);

    fv_tensor *x = fv_leaf(ctx, tensor_of(ctx, (float[]){-200, 200, 0, 10}, 1, 4));
    fv_tensor *exact = fv_bce_logits(ctx, x, t);
    CHECK_VALUES(ctx, exact, 1e-5, (200 + 0 + log(2) + 10 + log1p(exp(-10))) / 4);
    CHECK_OK(ctx, fv_backward(ctx, exact));
    CHECK_VALUES(ctx, fv_grad(ctx, x), 1e-6, -0.25, 0, 0, 0.25 / (1 + exp(-10)));
    fv_tensor *y = tensor_random(ctx, 1, 2, 5, 6),
              *q = fv_sigmoid(ctx, tensor_random(ctx, 2, 2, 5, 6));
    CHECK(tensor_distance(ctx, fv_bce_logits(ctx, y, q), fv_bce(ctx, fv_sigmoid(ctx, y), q)) <
          1e-5);
    fv_bce(ctx, p, q);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[4] and [5,6]");
    fv_ctx_destroy(&ctx);
}

static void mse_and_empty_means(void)
{
    fv_ctx *ctx = make();
    fv_tensor *a = tensor_of(ctx, (float[]){1, 2, 3}, 1, 3),
              *b = tensor_of(ctx, (float[]){1, 0, 6}, 1, 3);
    CHECK_VALUES(ctx, fv_mse(ctx, a, b), 1e-6, 13.0 / 3);
    fv_tensor *none = tensor_of(ctx, NULL, 2, 0, 3);
    CHECK_VALUES(ctx, fv_mse(ctx, none, none), 0, 0);
    CHECK_VALUES(ctx, fv_bce(ctx, none, none), 0, 0);
    CHECK_VALUES(ctx, fv_bce_logits(ctx, none, none), 0, 0);
    fv_mse(ctx, a, fv_reshape(ctx, b, 2, (int64_t[]){3, 1}));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[3] and [3,1]");
    fv_ctx_destroy(&ctx);
}

/* ---- recurrent -------------------------------------------------------------------- */

enum { STEPS = 6, BATCH = 3, HIDDEN = 10 };

static fv_tensor *step_of(fv_ctx *ctx, fv_tensor *x, int64_t t)
{
    return fv_squeeze(ctx, fv_slice(ctx, x, 0, t, t + 1, 1), 0);
}

/* The whole-sequence op against a loop over the cell: results bit for bit, gradients nearly. */
static void lstm_equals_its_cell(void)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        fv_ctx *ctx = make();
        fv_tensor *leaves[2][4], *h_last[2], *c_last[2], *all[2];
        for (int way = 0; way < 2; way++) {
            leaves[way][0] = fv_leaf(ctx, tensor_random(ctx, 1, 3, STEPS, BATCH, 4 * HIDDEN));
            leaves[way][1] = fv_leaf(ctx, tensor_random(ctx, 2, 2, 4 * HIDDEN, HIDDEN));
            leaves[way][2] = fv_leaf(ctx, tensor_random(ctx, 3, 2, BATCH, HIDDEN));
            leaves[way][3] = fv_leaf(ctx, tensor_random(ctx, 4, 2, BATCH, HIDDEN));
        }
        all[0] = fv_lstm(ctx, leaves[0][0], leaves[0][1], leaves[0][2], leaves[0][3], reverse,
                         &h_last[0], &c_last[0]);
        fv_tensor *h = leaves[1][2], *c = leaves[1][3], *steps[STEPS];
        for (int k = 0; k < STEPS; k++) {
            int64_t t = reverse ? STEPS - 1 - k : k;
            fv_tensor *gates = fv_linear_act(ctx, h, leaves[1][1], NULL, FV_ACT_NONE,
                                             step_of(ctx, leaves[1][0], t));
            fv_lstm_cell(ctx, gates, c, &h, &c);
            steps[t] = h;
        }
        all[1] = fv_stack(ctx, STEPS, steps, 0);
        h_last[1] = h;
        c_last[1] = c;
        CHECK(tensor_same(ctx, all[0], all[1]));
        CHECK(tensor_same(ctx, h_last[0], h_last[1]));
        CHECK(tensor_same(ctx, c_last[0], c_last[1]));
        for (int way = 0; way < 2; way++) {
            fv_tensor *loss = total(ctx, fv_square(ctx, all[way]));
            loss = fv_add(ctx, loss, total(ctx, h_last[way]));
            loss = fv_add(ctx, loss, fv_scale(ctx, total(ctx, c_last[way]), 0.5));
            CHECK_OK(ctx, fv_backward(ctx, loss));
        }
        for (int i = 0; i < 4; i++)
            CHECK(tensor_distance(ctx, fv_grad(ctx, leaves[0][i]), fv_grad(ctx, leaves[1][i])) <
                  2e-5);
        fv_ctx_destroy(&ctx);
    }
}

static void gru_equals_its_cell(void)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        fv_ctx *ctx = make();
        fv_tensor *leaves[2][4], *h_last[2], *all[2];
        for (int way = 0; way < 2; way++) {
            leaves[way][0] = fv_leaf(ctx, tensor_random(ctx, 1, 3, STEPS, BATCH, 3 * HIDDEN));
            leaves[way][1] = fv_leaf(ctx, tensor_random(ctx, 2, 2, 3 * HIDDEN, HIDDEN));
            leaves[way][2] = fv_leaf(ctx, tensor_random(ctx, 3, 1, 3 * HIDDEN));
            leaves[way][3] = fv_leaf(ctx, tensor_random(ctx, 4, 2, BATCH, HIDDEN));
        }
        all[0] = fv_gru(ctx, leaves[0][0], leaves[0][1], leaves[0][2], leaves[0][3], reverse,
                        &h_last[0]);
        fv_tensor *h = leaves[1][3], *steps[STEPS];
        for (int k = 0; k < STEPS; k++) {
            int64_t t = reverse ? STEPS - 1 - k : k;
            fv_tensor *gates = fv_linear(ctx, h, leaves[1][1], leaves[1][2]);
            h = steps[t] = fv_gru_cell(ctx, step_of(ctx, leaves[1][0], t), gates, h);
        }
        all[1] = fv_stack(ctx, STEPS, steps, 0);
        h_last[1] = h;
        CHECK(tensor_same(ctx, all[0], all[1]));
        CHECK(tensor_same(ctx, h_last[0], h_last[1]));
        for (int way = 0; way < 2; way++)
            CHECK_OK(ctx, fv_backward(ctx, fv_add(ctx, total(ctx, fv_square(ctx, all[way])),
                                                  total(ctx, h_last[way]))));
        for (int i = 0; i < 4; i++)
            CHECK(tensor_distance(ctx, fv_grad(ctx, leaves[0][i]), fv_grad(ctx, leaves[1][i])) <
                  2e-5);
        fv_ctx_destroy(&ctx);
    }
}

/* Only a last state is used; only part of the inputs is differentiated. */
static void recurrent_with_parts_missing(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = tensor_random(ctx, 1, 3, STEPS, 1, 4 * HIDDEN), *c_last;
    fv_tensor *w = fv_leaf(ctx, tensor_random(ctx, 2, 2, 4 * HIDDEN, HIDDEN)), *h_last;
    fv_tensor *h = fv_lstm(ctx, x, w, NULL, NULL, false, &h_last, &c_last);
    CHECK(tensor_same(ctx, h_last, step_of(ctx, h, STEPS - 1)));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, c_last)));
    CHECK(fv_grad(ctx, w) != NULL);

    fv_tensor *zero = fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, HIDDEN});
    fv_tensor *same = fv_lstm(ctx, x, fv_detach(ctx, w), zero, zero, false, NULL, NULL);
    CHECK(tensor_same(ctx, fv_lstm(ctx, x, w, NULL, NULL, false, NULL, NULL), same));

    fv_lstm(ctx, x, tensor_random(ctx, 2, 2, 3 * HIDDEN, HIDDEN), NULL, NULL, false, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[6,1,40] and [30,10]");
    fv_lstm(ctx, x, w, tensor_random(ctx, 2, 2, 2, HIDDEN), NULL, false, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[6,1,40] and [2,10]");
    fv_gru(ctx, x, w, NULL, NULL, false, &h_last);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[6,1,40] and [40,10]");
    CHECK(!fv_tensor_valid(h_last));
    fv_lstm_cell(ctx, x, zero, &h_last, &c_last);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "rank 3");
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(softmax_values);
    RUN(norm_values);
    RUN(norm_parameters_add_up);
    RUN(embedding_skips_padding);
    RUN(gather_and_scatter);
    RUN(one_hot_values);
    RUN(topk_values);
    RUN(dropout_keeps_its_mask);
    RUN(a_split_batch_draws_the_same);
    RUN(random_numbers);
    RUN(multinomial_frequencies);
    RUN(cross_entropy_edges);
    RUN(bce_edges);
    RUN(mse_and_empty_means);
    RUN(lstm_equals_its_cell);
    RUN(gru_equals_its_cell);
    RUN(recurrent_with_parts_missing);
    return TEST_END();
}

/*
 * A tour of the ops: each on a tensor small enough to check by hand. Every line prints an
 * expression, its shape and its values; the values are compared with the ones written here.
 *
 *     ops
 */
#include "example.h"

enum { MOST = 16 };

static fv_ctx *ctx;

/* Prints a tensor of any dtype and ends the program unless it holds the expected values. */
static void check(const char *what, fv_tensor *t, int count, const double *expected)
{
    double values[MOST];
    claim(count <= MOST && fv_tensor_count(t) == count, what);
    must(ctx, fv_tensor_read(ctx, fv_cast(ctx, t, FV_F64), values, (size_t)count * sizeof *values));
    printf("%-46s %-4s [", what, fv_dtype_name(fv_tensor_dtype(t)));
    for (int axis = 0; axis < fv_tensor_rank(t); axis++)
        printf(axis ? ", %lld" : "%lld", (long long)fv_tensor_size(t, axis));
    printf("] ");
    for (int i = 0; i < count; i++)
        printf(" %g", values[i]);
    puts("");
    for (int i = 0; i < count; i++)
        claim(fabs(values[i] - expected[i]) <= 1e-5 * (1 + fabs(expected[i])), what);
}

/* SHOW(expression, expected values ...) */
#define SHOW(t, ...)                                                                               \
    check(#t, t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static fv_tensor *vector(int64_t n, const float *values)
{
    return fv_from_host(ctx, FV_F32, 1, &n, values);
}

static fv_tensor *indices(int64_t n, const int64_t *values)
{
    return fv_from_host(ctx, FV_I64, 1, &n, values);
}

static void two_inputs(void)
{
    puts("a = 1 2 4, b = 4 2 1");
    fv_tensor *a = vector(3, (float[]){1, 2, 4}), *b = vector(3, (float[]){4, 2, 1});
    SHOW(fv_add(ctx, a, b), 5, 4, 5);
    SHOW(fv_sub(ctx, a, b), -3, 0, 3);
    SHOW(fv_mul(ctx, a, b), 4, 4, 4);
    SHOW(fv_div(ctx, a, b), 0.25, 1, 4);
    SHOW(fv_pow(ctx, a, b), 1, 4, 4);
    SHOW(fv_maximum(ctx, a, b), 4, 2, 4);
    SHOW(fv_minimum(ctx, a, b), 1, 2, 1);
    SHOW(fv_eq(ctx, a, b), 0, 1, 0);
    SHOW(fv_ne(ctx, a, b), 1, 0, 1);
    SHOW(fv_lt(ctx, a, b), 1, 0, 0);
    SHOW(fv_le(ctx, a, b), 1, 1, 0);
    SHOW(fv_gt(ctx, a, b), 0, 0, 1);
    SHOW(fv_ge(ctx, a, b), 0, 1, 1);
    SHOW(fv_where(ctx, fv_gt(ctx, a, b), a, b), 4, 2, 4);
    SHOW(fv_masked_fill(ctx, a, fv_lt(ctx, a, b), -1), -1, 2, 4);
}

static void one_input(void)
{
    puts("\nx = 1/4 1 4");
    fv_tensor *x = vector(3, (float[]){0.25f, 1, 4});
    SHOW(fv_log(ctx, x), -1.386294, 0, 1.386294);
    SHOW(fv_sqrt(ctx, x), 0.5, 1, 2);
    SHOW(fv_rsqrt(ctx, x), 2, 1, 0.5);
    SHOW(fv_square(ctx, x), 0.0625, 1, 16);
    SHOW(fv_reciprocal(ctx, x), 4, 1, 0.25);
    SHOW(fv_pow_scalar(ctx, x, 1.5), 0.125, 1, 8);
    SHOW(fv_affine(ctx, x, 2, 1), 1.5, 3, 9);
    SHOW(fv_clamp(ctx, x, 0.5, 2), 0.5, 1, 2);
    SHOW(fv_erf(ctx, x), 0.276326, 0.842701, 1);
    puts("\nangle = 0, 30 and 90 degrees");
    fv_tensor *angle = vector(3, (float[]){0, 0.523598776f, 1.570796327f});
    SHOW(fv_sin(ctx, angle), 0, 0.5, 1);
    SHOW(fv_cos(ctx, angle), 1, 0.866025, 0);
    puts("\ny = -1 0 2: activations");
    fv_tensor *y = vector(3, (float[]){-1, 0, 2});
    SHOW(fv_abs(ctx, y), 1, 0, 2);
    SHOW(fv_relu(ctx, y), 0, 0, 2);
    SHOW(fv_leaky_relu(ctx, y, 0.1), -0.1, 0, 2);
    SHOW(fv_sigmoid(ctx, y), 0.268941, 0.5, 0.880797);
    SHOW(fv_silu(ctx, y), -0.268941, 0, 1.761594);
    SHOW(fv_quick_gelu(ctx, y), -0.154204, 0, 1.935659);
    SHOW(fv_softplus(ctx, y), 0.313262, 0.693147, 2.126928);
}

static void reductions(void)
{
    puts("\nm = 1 2 / 3 4");
    fv_tensor *m = matrix(ctx, 2, 2, (float[]){1, 2, 3, 4});
    const int rows[] = {0}, columns[] = {1};
    SHOW(fv_sum(ctx, m, 0, NULL, false), 10);
    SHOW(fv_mean(ctx, m, 1, rows, false), 2, 3);
    SHOW(fv_max(ctx, m, 1, columns, true), 2, 4);
    SHOW(fv_min(ctx, m, 1, columns, true), 1, 3);
    SHOW(fv_logsumexp(ctx, m, 1, columns, false), 2.313262, 4.313262);
    SHOW(fv_argmax(ctx, m, 0, false), 1, 1);
    SHOW(fv_argmin(ctx, m, 0, false), 0, 0);
    SHOW(fv_cumsum(ctx, m, 1), 1, 3, 3, 7);
}

static void linear_layers(void)
{
    puts("\nx = 1 -2, w = 1 0 / 1 1 / 0 3, bias = 0 0 1");
    fv_tensor *x = matrix(ctx, 1, 2, (float[]){1, -2}), *bias = vector(3, (float[]){0, 0, 1});
    fv_tensor *w = matrix(ctx, 3, 2, (float[]){1, 0, 1, 1, 0, 3});
    fv_tensor *skip = matrix(ctx, 1, 3, (float[]){10, 20, 30});
    SHOW(fv_linear(ctx, x, w, bias), 1, -1, -5);
    SHOW(fv_linear_act(ctx, x, w, bias, FV_ACT_RELU, skip), 11, 20, 30);
    /* For running: a packed copy is faster with few rows; in place it saves the memory too. */
    must(ctx, fv_linear_pack(ctx, w));
    SHOW(fv_linear(ctx, x, w, bias), 1, -1, -5);
    must(ctx, fv_linear_pack_in_place(ctx, w, FV_WEIGHT_BF16));
    SHOW(fv_linear(ctx, x, w, bias), 1, -1, -5);

    puts("\nmixed precision: bf16 has eight bits, so 1.001 becomes 1 on its way into the product");
    fv_tensor *near = matrix(ctx, 1, 1, (float[]){1.001f}), *one = matrix(ctx, 1, 1, (float[]){1});
    SHOW(fv_linear(ctx, near, one, NULL), 1.001);
    must(ctx, fv_ctx_set_compute(ctx, FV_BF16));
    claim(fv_ctx_compute(ctx) == FV_BF16, "linear layers compute in bf16");
    SHOW(fv_linear(ctx, near, one, NULL), 1);
    must(ctx, fv_ctx_set_compute(ctx, FV_F32));
}

static void norms(void)
{
    puts("\nv = 3 4");
    fv_tensor *v = matrix(ctx, 1, 2, (float[]){3, 4});
    SHOW(fv_softmax(ctx, v, -1), 0.268941, 0.731059);
    SHOW(fv_layer_norm(ctx, v, NULL, NULL, 1e-9), -1, 1);
    SHOW(fv_rms_norm(ctx, v, NULL, 1e-9), 0.848528, 1.131371);
    SHOW(fv_unit(ctx, v), 0.6, 0.8);
}

static void indexing(void)
{
    puts("\nt = 0 1 2 / 10 11 12, i = 2 0");
    fv_tensor *t = matrix(ctx, 2, 3, (float[]){0, 1, 2, 10, 11, 12});
    fv_tensor *i = indices(2, (int64_t[]){2, 0});
    fv_tensor *zeros = fv_zeros(ctx, FV_F32, 1, (int64_t[]){3});
    SHOW(fv_index_select(ctx, t, i, 1), 2, 0, 12, 10);
    SHOW(fv_scatter_add(ctx, zeros, i, vector(2, (float[]){5, 6}), 0), 6, 0, 5);
    SHOW(fv_one_hot(ctx, i, 3, FV_F32), 0, 0, 1, 1, 0, 0);
    SHOW(fv_permute(ctx, t, (int[]){1, 0}), 0, 10, 1, 11, 2, 12);
    SHOW(fv_roll(ctx, t, 1, 1), 2, 0, 1, 12, 10, 11);
    fv_tensor *row = vector(2, (float[]){7, 8}), *both[] = {row, fv_neg(ctx, row)};
    SHOW(fv_concat(ctx, 2, both, 0), 7, 8, -7, -8);
    SHOW(fv_stack(ctx, 2, both, 1), 7, -7, 8, -8);
}

static void random_numbers(void)
{
    puts("\ndrawn: dropout keeps the mean, and multinomial draws only what has weight");
    enum { N = 1000 };
    float dropped[N], sum = 0;
    read_floats(ctx, fv_dropout(ctx, fv_full(ctx, FV_F32, 1, (int64_t[]){N}, 1), 0.5), dropped);
    for (int i = 0; i < N; i++) {
        claim(dropped[i] == 0 || dropped[i] == 2, "dropout(0.5) of 1 is 0 or 2");
        sum += dropped[i];
    }
    printf("mean of 1000 ones after fv_dropout(0.5): %g\n", sum / N);
    claim(sum > 0.9 * N && sum < 1.1 * N, "the mean stays about 1");
    SHOW(fv_multinomial(ctx, vector(3, (float[]){0, 5, 0}), 4), 1, 1, 1, 1);
}

static void losses(void)
{
    puts("\np = 1/4 3/4, logits = 0 0, labels = 1 0");
    fv_tensor *p = vector(2, (float[]){0.25f, 0.75f}), *labels = vector(2, (float[]){1, 0});
    fv_tensor *logits = fv_zeros(ctx, FV_F32, 1, (int64_t[]){2});
    SHOW(fv_bce(ctx, p, labels), 1.386294);
    SHOW(fv_bce_logits(ctx, logits, labels), 0.693147);
    SHOW(fv_mse(ctx, p, labels), 0.5625);
}

/* With all gates at 0 every sigmoid is 1/2 and the new content is 0: a cell halves its state. */
static void cells(void)
{
    puts("\nrecurrent cells without input or weights halve their state");
    enum { BATCH = 2, TOTAL = 3 };
    const int64_t state_shape[] = {BATCH, 1}, lstm_shape[] = {TOTAL, 4}, gru_shape[] = {TOTAL, 3};
    fv_tensor *h, *c, *state = fv_full(ctx, FV_F32, 2, state_shape, 1);
    fv_lstm_cell(ctx, fv_zeros(ctx, FV_F32, 2, (int64_t[]){BATCH, 4}), state, &h, &c);
    SHOW(c, 0.5, 0.5);
    SHOW(h, 0.231059, 0.231059); /* tanh(c) / 2 */
    fv_tensor *gates = fv_zeros(ctx, FV_F32, 2, (int64_t[]){BATCH, 3});
    SHOW(fv_gru_cell(ctx, gates, gates, state), 0.5, 0.5);

    puts("two packed sequences, of two steps and of one");
    fv_tensor *lengths = indices(BATCH, (int64_t[]){2, 1});
    fv_tensor *lstm_weight = fv_zeros(ctx, FV_F32, 2, (int64_t[]){4, 1}),
              *gru_weight = fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 1});
    fv_tensor *all = fv_lstm_varlen(ctx, fv_zeros(ctx, FV_F32, 2, lstm_shape), lengths, lstm_weight,
                                    NULL, state, false, &h, &c);
    SHOW(all, 0.231059, 0.231059, 0.122459);
    SHOW(c, 0.25, 0.5);
    all = fv_gru_varlen(ctx, fv_zeros(ctx, FV_F32, 2, gru_shape), lengths, gru_weight, NULL, state,
                        false, &h);
    SHOW(all, 0.5, 0.5, 0.25);
    SHOW(h, 0.25, 0.5);
}

int main(void)
{
    ctx = example_start(FV_SIMD_SCALAR);
    two_inputs();
    one_input();
    reductions();
    linear_layers();
    norms();
    indexing();
    random_numbers();
    losses();
    cells();
    fv_ctx_destroy(&ctx);
    return 0;
}

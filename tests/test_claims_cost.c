/*
 * Claims about cost, by counting: multiply-adds and waiting calls read off the tape, path lengths
 * by what really reaches what, memory by the context's own ledger. Each has a twin that must come
 * out otherwise. Measured times against length are `fovea bench compare`.
 */
#include <time.h>

#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "support/ledger.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { WIDTH = 16, TAPS = 3 };

/* ---- the layers compared (93) ------------------------------------------------------------ */

/* x [n, WIDTH] -> [n, WIDTH]; `step` is the layer's number in a stack. */
typedef fv_tensor *(*layer_fn)(fv_ctx *ctx, fv_tensor *x, int step);

static fv_tensor *weights_of(fv_ctx *ctx, uint64_t key, int64_t rows, int64_t cols)
{
    return fv_scale(ctx, tensor_random(ctx, key, 2, (int)rows, (int)cols), 1 / sqrt((double)cols));
}

static fv_tensor *convolve(fv_ctx *ctx, fv_tensor *x, int64_t dilation)
{
    fv_tensor *w = fv_reshape(ctx, weights_of(ctx, 1, WIDTH, WIDTH * TAPS), 3,
                              (int64_t[]){WIDTH, WIDTH, TAPS});
    fv_tensor *row = fv_unsqueeze(ctx, fv_transpose(ctx, x, 0, 1), 0); /* [1, WIDTH, n] */
    fv_tensor *y = fv_conv1d_causal(ctx, row, w, NULL, dilation);
    return fv_transpose(ctx, fv_squeeze(ctx, y, 0), 0, 1);
}

static fv_tensor *convolution(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    return convolve(ctx, x, 1);
}

static fv_tensor *dilated(fv_ctx *ctx, fv_tensor *x, int step)
{
    int64_t dilation = 1;
    while (step-- > 0)
        dilation *= TAPS;
    return convolve(ctx, x, dilation);
}

static fv_tensor *recurrence(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    const int64_t n = fv_tensor_size(x, 0);
    fv_tensor *w = weights_of(ctx, 2, WIDTH, WIDTH), *h = NULL;
    fv_tensor **rows = calloc((size_t)n, sizeof *rows);
    for (int64_t t = 0; t < n; t++) {
        fv_tensor *now = fv_slice(ctx, x, 0, t, t + 1, 1);
        h = fv_tanh(ctx, h ? fv_add(ctx, now, fv_linear(ctx, h, w, NULL)) : now);
        rows[t] = h;
    }
    fv_tensor *y = rows[0];
    for (int64_t t = 1; t < n; t += 7) { /* fv_concat takes a few at a time */
        fv_tensor *part[8] = {y};
        int parts = 1;
        for (int64_t i = t; i < n && i < t + 7; i++)
            part[parts++] = rows[i];
        y = fv_concat(ctx, parts, part, 0);
    }
    free(rows);
    return y;
}

static fv_tensor *attend_with(fv_ctx *ctx, fv_tensor *x, fv_attention_score score)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    const int64_t n = fv_tensor_size(x, 0), d = fv_tensor_size(x, 1), shape[4] = {1, 1, n, d};
    fv_tensor *heads = fv_reshape(ctx, x, 4, shape);
    fv_attention_input in = {.q = heads, .k = heads, .v = heads};
    if (score == FV_ATTENTION_ADDITIVE) in.w = tensor_random(ctx, 3, 1, (int)d);
    return fv_reshape(ctx, fv_attention_run(ctx, &in, &how, NULL), 2, (int64_t[]){n, d});
}

static fv_tensor *attention(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    return attend_with(ctx, x, FV_ATTENTION_SCALED);
}

static fv_tensor *additive(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    return attend_with(ctx, x, FV_ATTENTION_ADDITIVE);
}

static ledger cost_of(layer_fn layer, int n)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    layer(ctx, fv_leaf(ctx, tensor_random(ctx, 4, 2, n, WIDTH)), 0);
    CHECK_OK(ctx, fv_ctx_error(ctx));
    const ledger l = ledger_read(ctx);
    fv_ctx_destroy(&ctx);
    return l;
}

/* Layers until the first input reaches the last output: its gradient there is no longer zero. */
static int path_length(layer_fn layer, int n, int most)
{
    for (int layers = 1; layers <= most; layers++) {
        fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
        fv_tensor *x = fv_leaf(ctx, tensor_random(ctx, 5, 2, n, WIDTH)), *y = x;
        for (int step = 0; step < layers; step++)
            y = layer(ctx, y, step);
        fv_tensor *last = fv_slice(ctx, y, 0, n - 1, n, 1);
        CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, last, 0, NULL, false)));
        fv_tensor *first = fv_slice(ctx, fv_grad(ctx, x), 0, 0, 1, 1);
        double size = 0;
        CHECK_OK(ctx, fv_tensor_item(ctx, fv_norm(ctx, first, 0, NULL, false), &size));
        fv_ctx_destroy(&ctx);
        if (size > 0) return layers;
    }
    return -1;
}

/* (93) Work: convolution k n d^2, recurrence n d^2, self-attention n^2 d. */
static void work(void)
{
    for (int n = 32; n <= 128; n *= 2) {
        CHECK_EQ(cost_of(convolution, n).products, (int64_t)TAPS * n * WIDTH * WIDTH);
        CHECK_EQ(cost_of(recurrence, n).products, (int64_t)(n - 1) * WIDTH * WIDTH);
        CHECK_EQ(cost_of(attention, n).products, (int64_t)2 * n * n * WIDTH);
    }
    /* Hence attention is the cheaper one while n < d, and not beyond. */
    CHECK(cost_of(attention, WIDTH / 4).products < cost_of(convolution, WIDTH / 4).products);
    CHECK(cost_of(attention, 8 * WIDTH).products > cost_of(convolution, 8 * WIDTH).products);
}

/* (93) Steps that wait: one for convolution and attention, n for recurrence. (98) So a known
 * sequence is encoded at once; decoding feeds each output back and waits like a recurrence. */
static fv_tensor *decoding(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    fv_tensor *seen = fv_slice(ctx, x, 0, 0, 1, 1);
    for (int64_t t = 1; t < fv_tensor_size(x, 0); t++) {
        fv_tensor *y = attention(ctx, seen, 0);
        fv_tensor *newest = fv_slice(ctx, y, 0, t - 1, t, 1);
        seen = fv_concat(ctx, 2, (fv_tensor *[]){seen, newest}, 0);
    }
    return seen;
}

static void steps_that_wait(void)
{
    for (int n = 8; n <= 32; n *= 2) {
        CHECK_EQ(cost_of(convolution, n).chain, 1);
        CHECK_EQ(cost_of(attention, n).chain, 1);
        CHECK_EQ(cost_of(recurrence, n).chain, n - 1);
        CHECK_EQ(cost_of(decoding, n).chain, n - 1);
    }
}

static int layers_needed(int n, int reach_grows_by, bool times)
{
    int layers = 0;
    for (int64_t reach = 1; reach < n; layers++)
        reach = times ? reach * TAPS : reach + reach_grows_by;
    return layers;
}

/* (93) Path: n/k layers of convolution (k - 1 a causal layer), log_k n dilated ones, one of
 * attention; one recurrent layer, which walks n steps inside. */
static void paths(void)
{
    static const int lengths[] = {9, 10, 27, 28};
    for (int i = 0; i < 4; i++) {
        const int n = lengths[i];
        CHECK_EQ(path_length(convolution, n, 40), layers_needed(n, TAPS - 1, false));
        CHECK_EQ(path_length(dilated, n, 40), layers_needed(n, 0, true));
        CHECK_EQ(path_length(attention, n, 40), 1);
        CHECK_EQ(path_length(recurrence, n, 40), 1);
    }
    CHECK(path_length(dilated, 28, 40) < path_length(convolution, 28, 40));
}

/* ---- memory (94) -------------------------------------------------------------------------- */

static uint64_t peak_bytes(int n, bool maps)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *x = tensor_random(ctx, 6, 4, 1, 1, n, WIDTH);
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.want_weights = maps;
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    fv_ctx_memory_reset_peak(ctx);
    fv_attention_run(ctx, &(fv_attention_input){.q = x, .k = x, .v = x}, &how, NULL);
    CHECK_OK(ctx, fv_ctx_error(ctx));
    fv_ctx_memory(ctx, &after);
    fv_ctx_destroy(&ctx);
    return after.peak_bytes - before.used_bytes;
}

/* (94) A map of weights has n^2 numbers: four times the memory for twice the length. The claim is
 * about the map; streamed attention has none, and grows as its inputs do. */
static void memory(void)
{
    const double map = (double)peak_bytes(2048, true) / (double)peak_bytes(1024, true);
    const double streamed = (double)peak_bytes(2048, false) / (double)peak_bytes(1024, false);
    CHECK(map > 3.5 && map < 4.5);
    CHECK(streamed < 2.5);
}

/* ---- dot and additive (99) ----------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of several runs, in CPU time of this thread: neighbours do not count. */
static double seconds(layer_fn layer, int n, int d)
{
    double best = INFINITY;
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *x = tensor_random(ctx, 7, 2, n, d);
    fv_no_grad_begin(ctx);
    for (int run = 0; run < 5; run++) {
        fv_scope_begin(ctx);
        const double begin = cpu_seconds();
        layer(ctx, x, 0);
        best = fmin(best, cpu_seconds() - begin);
        fv_scope_end(ctx);
    }
    fv_ctx_destroy(&ctx);
    return best;
}

/* (99) On paper both cost n^2 d multiply-adds; the additive one adds as many tanhs, and is slower.
 */
static void dot_is_faster_than_additive(void)
{
    enum { LONG = 512, WIDE = 128 };
    const ledger dot = cost_of(attention, 64), sum = cost_of(additive, 64);
    CHECK_EQ(dot.products, sum.products);
    CHECK_EQ(dot.tanhs, 0);
    CHECK_EQ(sum.tanhs, (int64_t)64 * 64 * WIDTH);
    const double ratio = seconds(additive, LONG, WIDE) / seconds(attention, LONG, WIDE);
#ifdef NDEBUG /* only an optimised build says anything about time */
    CHECK(ratio > 1.4);
#endif
    printf("additive scores take %.1f times as long as dot products\n", ratio);
}

/* ---- hard and soft (101) -------------------------------------------------------------------- */

static ledger blend_cost(fv_attention_normaliser normaliser, bool *reaches_queries)
{
    enum { N = 32 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = normaliser;
    fv_attention_input in = {.q = fv_leaf(ctx, tensor_random(ctx, 8, 4, 1, 1, N, WIDTH)),
                             .k = fv_leaf(ctx, tensor_random(ctx, 9, 4, 1, 1, N, WIDTH)),
                             .v = fv_leaf(ctx, tensor_random(ctx, 10, 4, 1, 1, N, WIDTH))};
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    const ledger l = ledger_read(ctx);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false)));
    *reaches_queries = fv_grad(ctx, in.q) != NULL;
    CHECK(fv_grad(ctx, in.v) != NULL);
    fv_ctx_destroy(&ctx);
    return l;
}

/* (101) Choosing one value saves the n^2 d products that blend them; and the gradient of what was
 * chosen reaches the values alone: how it was chosen cannot be learned that way. */
static void hard_is_cheaper_and_blind(void)
{
    bool soft_learns, hard_learns;
    const ledger soft = blend_cost(FV_ATTENTION_SOFTMAX, &soft_learns);
    const ledger hard = blend_cost(FV_ATTENTION_HARD_ARGMAX, &hard_learns);
    CHECK_EQ(soft.products, 2 * 32 * 32 * WIDTH);
    CHECK_EQ(hard.products, 32 * 32 * WIDTH);
    CHECK(soft_learns);
    CHECK(!hard_learns);
}

/* ---- separable convolution (105) --------------------------------------------------------------
 */

static int64_t counted;

static double times(double a, double b)
{
    counted++;
    return a * b;
}

/* y_i = P sum_j D_(i-j) * x_j: a weight for each offset and channel, then one matrix for all. */
static void separable_convolution(int n, int taps, double *y)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c < WIDTH; c++) {
            double sum = 0;
            for (int tap = 0; tap < taps; tap++)
                sum += times(0.5, (double)(i + tap + c));
            y[c] = sum;
            for (int out = 0; out < WIDTH; out++)
                y[out] += times(0.1, sum);
        }
}

static void full_convolution(int n, int taps, double *y)
{
    for (int i = 0; i < n; i++)
        for (int tap = 0; tap < taps; tap++)
            for (int c = 0; c < WIDTH; c++)
                for (int out = 0; out < WIDTH; out++)
                    y[out] += times(0.5, (double)(i + tap + c));
}

static int64_t count_of(void (*layer)(int, int, double *), int n, int taps)
{
    double y[WIDTH] = {0};
    counted = 0;
    layer(n, taps, y);
    return counted;
}

/* The weights are given (a convolution's are, too): blend, then one matrix for every position. */
static fv_tensor *blend_and_matrix(fv_ctx *ctx, fv_tensor *x, int step)
{
    (void)step;
    const int64_t n = fv_tensor_size(x, 0);
    fv_tensor *a = fv_full(ctx, FV_F32, 2, (int64_t[]){n, n}, 1.0 / (double)n);
    return fv_linear(ctx, fv_matmul(ctx, a, x), weights_of(ctx, 11, WIDTH, WIDTH), NULL);
}

/* (105) A separable convolution as long as the sequence costs what attention's blend and a linear
 * layer cost: k n d + n d^2 with k = n. A full convolution costs d times the first term. */
static void separable_costs_as_attention(void)
{
    for (int n = 8; n <= 32; n *= 2) {
        CHECK_EQ(count_of(separable_convolution, n, n), cost_of(blend_and_matrix, n).products);
        CHECK(count_of(full_convolution, n, n) > cost_of(blend_and_matrix, n).products);
        CHECK(count_of(separable_convolution, n, TAPS) < cost_of(blend_and_matrix, n).products);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(work);
    RUN(steps_that_wait);
    RUN(paths);
    RUN(memory);
    RUN(dot_is_faster_than_additive);
    RUN(hard_is_cheaper_and_blind);
    RUN(separable_costs_as_attention);
    return TEST_END();
}

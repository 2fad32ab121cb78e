/*
 * A row's bits do not depend on its neighbours: running a batch of n and running its entries one
 * by one must give the same bytes, results and input gradients alike. Sizes are chosen so that the
 * products take their different paths (one row, few rows, tiles) on the two sides.
 */
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/opcase.h"

enum { BATCH = 9, TIME = 13, WIDTH = 40, OUT = 72 };

/* Weights shared by all entries, made once per context. */
typedef struct shared {
    fv_tensor *w, *bias, *square, *gamma, *beta, *gates, *kernel;
} shared;

typedef fv_tensor *(*layer_fn)(fv_ctx *ctx, const shared *s, fv_tensor *x);

static fv_tensor *normal(fv_ctx *ctx, int rank, const int64_t *shape)
{
    return fv_rand_normal(ctx, FV_F32, rank, shape, 0.0, 0.5);
}

static shared make_shared(fv_ctx *ctx)
{
    fv_ctx_set_step(ctx, 1, 0);
    return (shared){
        .w = normal(ctx, 2, (int64_t[]){OUT, WIDTH}),
        .bias = normal(ctx, 1, (int64_t[]){OUT}),
        .square = normal(ctx, 2, (int64_t[]){WIDTH, WIDTH}),
        .gamma = normal(ctx, 1, (int64_t[]){WIDTH}),
        .beta = normal(ctx, 1, (int64_t[]){WIDTH}),
        .gates = normal(ctx, 2, (int64_t[]){4 * (WIDTH / 4), WIDTH / 4}),
        .kernel = normal(ctx, 3, (int64_t[]){11, TIME, 3}),
    };
}

static fv_tensor *linear(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_linear(ctx, x, s->w, s->bias);
}

static fv_tensor *linear_gelu(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_linear_act(ctx, x, s->w, s->bias, FV_ACT_GELU, NULL);
}

/* One vector per batch entry: a product with BATCH rows against products with one. */
static fv_tensor *linear_one_row(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_linear(ctx, fv_slice(ctx, x, 1, 3, 4, 1), s->w, s->bias);
}

static fv_tensor *attention(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    fv_tensor *q = fv_matmul(ctx, x, s->square);
    fv_tensor *a = fv_softmax(ctx, fv_matmul(ctx, q, fv_transpose(ctx, x, -1, -2)), -1);
    return fv_matmul(ctx, a, x);
}

static fv_tensor *layer_norm(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_layer_norm(ctx, x, s->gamma, s->beta, 1e-5);
}

static fv_tensor *rms_norm(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_rms_norm(ctx, x, s->gamma, 1e-5);
}

static fv_tensor *softmax_over_time(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    (void)s;
    return fv_softmax(ctx, x, 1);
}

static fv_tensor *reductions(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    (void)s;
    fv_tensor *a = fv_logsumexp(ctx, x, 1, (int[]){2}, true);
    fv_tensor *b = fv_norm(ctx, x, 1, (int[]){1}, true);
    fv_tensor *c = fv_sum(ctx, x, 2, (int[]){1, 2}, true);
    return fv_mul(ctx, fv_add(ctx, a, b), c);
}

static fv_tensor *convolution(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    return fv_conv1d_causal(ctx, x, s->kernel, NULL, 2);
}

/* fv_lstm has time first. */
static fv_tensor *lstm(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    fv_tensor *gates = fv_contiguous(ctx, fv_transpose(ctx, x, 0, 1));
    fv_tensor *h = fv_lstm(ctx, gates, s->gates, NULL, NULL, false, NULL, NULL);
    return fv_transpose(ctx, h, 0, 1);
}

static fv_tensor *activations(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    (void)s;
    return fv_silu(ctx, fv_softplus(ctx, fv_gelu_tanh(ctx, x)));
}

static fv_tensor *dropout(fv_ctx *ctx, const shared *s, fv_tensor *x)
{
    (void)s;
    return fv_dropout(ctx, x, 0.4);
}

/* ---- the comparison --------------------------------------------------------------- */

typedef struct outcome {
    float *y, *dx;
    size_t y_bytes; /* per entry */
} outcome;

/* Runs `count` entries from `first` on; appends to the arrays of `o`. */
static void run_part(fv_ctx *ctx, const shared *s, layer_fn layer, const float *data, int64_t first,
                     int64_t count, outcome *o)
{
    fv_scope_begin(ctx);
    fv_ctx_set_step(ctx, 5, (uint64_t)first);
    int64_t shape[] = {count, TIME, WIDTH};
    fv_tensor *x = fv_leaf(ctx, fv_from_host(ctx, FV_F32, 3, shape, data + first * TIME * WIDTH));
    fv_tensor *y = fv_contiguous(ctx, layer(ctx, s, x));
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    o->y_bytes = (size_t)(fv_tensor_count(y) / count) * sizeof(float);
    if (!o->y) o->y = calloc(BATCH, o->y_bytes);
    if (!o->dx) o->dx = calloc(BATCH * TIME * WIDTH, sizeof(float));
    CHECK_OK(ctx, fv_tensor_read(ctx, y, (char *)o->y + (size_t)first * o->y_bytes,
                                 (size_t)count * o->y_bytes));
    fv_tensor *g = fv_full(ctx, FV_F32, fv_tensor_rank(y), fv_tensor_shape(y), 0.75);
    CHECK_OK(ctx, fv_backward_from(ctx, y, g));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), o->dx + first * TIME * WIDTH,
                                 (size_t)(count * TIME * WIDTH) * sizeof(float)));
    fv_scope_end(ctx);
}

static void compare(const char *name, fv_ctx *ctx, const shared *s, layer_fn layer,
                    const float *data)
{
    static const int64_t parts[] = {1, 4};
    outcome whole = {0};
    run_part(ctx, s, layer, data, 0, BATCH, &whole);
    for (int p = 0; p < 2; p++) {
        outcome split = {0};
        for (int64_t first = 0; first < BATCH; first += parts[p]) {
            int64_t left = BATCH - first;
            run_part(ctx, s, layer, data, first, left < parts[p] ? left : parts[p], &split);
        }
        if (memcmp(whole.y, split.y, BATCH * whole.y_bytes) != 0)
            test_failed(__FILE__, __LINE__, "%s: results depend on the batch", name);
        if (memcmp(whole.dx, split.dx, BATCH * TIME * WIDTH * sizeof(float)) != 0)
            test_failed(__FILE__, __LINE__, "%s: gradients depend on the batch", name);
        free(split.y);
        free(split.dx);
    }
    free(whole.y);
    free(whole.dx);
}

static void batches_agree(void)
{
    static const struct {
        const char *name;
        layer_fn layer;
    } layers[] = {
        {"linear", linear},
        {"linear + gelu", linear_gelu},
        {"one row", linear_one_row},
        {"attention", attention},
        {"layer norm", layer_norm},
        {"RMS norm", rms_norm},
        {"softmax", softmax_over_time},
        {"reductions", reductions},
        {"convolution", convolution},
        {"LSTM", lstm},
        {"activations", activations},
        {"dropout", dropout},
    };
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
        for (int threads = 1; threads <= 2; threads++) {
            fv_ctx *ctx = op_context((fv_simd)level, threads, FV_DEVICE_CPU);
            shared s = make_shared(ctx);
            static float data[BATCH * TIME * WIDTH];
            fv_tensor *x = normal(ctx, 3, (int64_t[]){BATCH, TIME, WIDTH});
            CHECK_OK(ctx, fv_tensor_read(ctx, x, data, sizeof data));
            for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
                compare(layers[i].name, ctx, &s, layers[i].layer, data);
            fv_ctx_destroy(&ctx);
        }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(batches_agree);
    return TEST_END();
}

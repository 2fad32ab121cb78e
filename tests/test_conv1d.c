/*
 * Convolution layers over sequences: both forms against a plain sum, what a result depends on, and
 * what is refused. Gradients are proved in test_compounds.c, failing memory in test_oom.c.
 */
#include "support/layerbench.h"
#include "support/tensors.h"

enum { IN = 3, OUT = 4, N = 9, BATCH = 2 };

static const struct {
    fv_conv1d_options options;
    int64_t window;
    bool bias;
} settings[] = {
    {{.causal = false}, 3, true},
    {{.causal = false, .dilation = 2}, 3, false},
    {{.causal = false}, 4, true}, /* one more tap after than before */
    {{.causal = true}, 3, true},
    {{.causal = true, .dilation = 4}, 2, true},
    {{.causal = false, .dilation = 3}, 5, true}, /* wider than the sequence */
    {{.causal = false}, 1, true},
};
enum { SETTINGS = (int)(sizeof settings / sizeof *settings) };

static fv_conv1d_layer make(const bench *b, int i)
{
    fv_conv1d_layer layer;
    CHECK_OK(b->ctx, fv_conv1d_create(b->params, "c", IN, OUT, settings[i].window, settings[i].bias,
                                      &settings[i].options, &layer));
    return layer;
}

/* y of output o at row t of a sequence x of n rows, of IN numbers each. */
static double expected(int i, const float *w, const float *bias, const double *x, int64_t n,
                       int64_t o, int64_t t)
{
    const int64_t k = settings[i].window, before = settings[i].options.causal ? k - 1 : (k - 1) / 2;
    const int64_t dilation = settings[i].options.dilation ? settings[i].options.dilation : 1;
    double sum = bias ? (double)bias[o] : 0;
    for (int64_t j = 0; j < k; j++) {
        const int64_t at = t + (j - before) * dilation;
        for (int64_t c = 0; at >= 0 && at < n && c < IN; c++)
            sum += (double)w[(o * IN + c) * k + j] * x[at * IN + c];
    }
    return sum;
}

static void both_forms_by_the_formula(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        bench b = bench_new();
        const fv_conv1d_layer layer = make(&b, i);
        fv_tensor *x = tensor_random(b.ctx, 1, 3, BATCH, IN, N);
        float *given = tensor_floats(b.ctx, x), *w = tensor_floats(b.ctx, layer.weight);
        float *bias = layer.bias ? tensor_floats(b.ctx, layer.bias) : NULL;
        float *y = tensor_floats(b.ctx, fv_conv1d_run(b.ctx, &layer, x));
        for (int64_t s = 0; s < BATCH; s++) {
            double rows[N * IN];
            for (int64_t t = 0; t < N; t++)
                for (int64_t c = 0; c < IN; c++)
                    rows[t * IN + c] = (double)given[(s * IN + c) * N + t];
            for (int64_t o = 0; o < OUT; o++)
                for (int64_t t = 0; t < N; t++)
                    CHECK_NEAR(y[(s * OUT + o) * N + t], expected(i, w, bias, rows, N, o, t), 1e-5);
        }
        free(y);
        free(given);

        static const int64_t begin[] = {0, 4, 5, 5, 12};
        fv_tensor *all = tensor_random(b.ctx, 2, 2, 12, IN);
        given = tensor_floats(b.ctx, all);
        y = tensor_floats(b.ctx, fv_conv1d_run_varlen(b.ctx, &layer, all, 4, begin));
        for (int s = 0; s < 4; s++) {
            double rows[12 * IN];
            const int64_t n = begin[s + 1] - begin[s];
            for (int64_t e = 0; e < n * IN; e++)
                rows[e] = (double)given[begin[s] * IN + e];
            for (int64_t t = 0; t < n; t++)
                for (int64_t o = 0; o < OUT; o++)
                    CHECK_NEAR(y[(begin[s] + t) * OUT + o], expected(i, w, bias, rows, n, o, t),
                               1e-5);
        }
        free(y);
        free(given);
        free(w);
        free(bias);
        bench_free(&b);
    }
}

/* Alone or among others: the same bits. Neighbours that are NaN stay outside. */
static void sequences_do_not_mix(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        bench b = bench_new();
        const fv_conv1d_layer layer = make(&b, i);
        fv_tensor *x = tensor_random(b.ctx, 3, 2, 5, IN);
        fv_tensor *nan = fv_full(b.ctx, FV_F32, 2, (int64_t[]){4, IN}, (double)NAN);
        fv_tensor *all = fv_concat(b.ctx, 3, (fv_tensor *[]){nan, x, nan}, 0);
        fv_tensor *alone = fv_conv1d_run_varlen(b.ctx, &layer, x, 1, (int64_t[]){0, 5});
        fv_tensor *among = fv_conv1d_run_varlen(b.ctx, &layer, all, 3, (int64_t[]){0, 4, 9, 13});
        CHECK(tensor_same(b.ctx, alone, fv_slice(b.ctx, among, 0, 4, 9, 1)));
        bench_free(&b);
    }
}

/* Whether y_t changes with x_at. */
static bool depends(const bench *b, const fv_conv1d_layer *layer, int64_t t, int64_t at)
{
    fv_tensor *x = tensor_random(b->ctx, 4, 3, 1, IN, N), *y = fv_conv1d_run(b->ctx, layer, x);
    fv_tensor *bump = fv_pad(b->ctx, fv_full(b->ctx, FV_F32, 3, (int64_t[]){1, IN, 1}, 1),
                             (int64_t[]){0, 0, at}, (int64_t[]){0, 0, N - 1 - at}, 0);
    fv_tensor *z = fv_conv1d_run(b->ctx, layer, fv_add(b->ctx, x, bump));
    return !tensor_same(b->ctx, fv_slice(b->ctx, y, 2, t, t + 1, 1),
                        fv_slice(b->ctx, z, 2, t, t + 1, 1));
}

static void a_causal_result_does_not_know_the_future(void)
{
    bench b = bench_new(), c = bench_new();
    const fv_conv1d_layer causal = make(&b, 3), centred = make(&c, 0);
    for (int64_t at = 0; at < N; at++) {
        CHECK(depends(&b, &causal, 4, at) == (at >= 2 && at <= 4));
        CHECK(depends(&c, &centred, 4, at) == (at >= 3 && at <= 5));
    }
    bench_free(&b);
    bench_free(&c);
}

static void refusals(void)
{
    static const struct {
        int64_t in, out, window;
        fv_conv1d_options options;
    } bad[] = {{0, 1, 1, {0}},
               {1, 0, 1, {0}},
               {1, 1, 0, {0}},
               {1, 1, 1, {.dilation = -1}},
               {1, 1, 65536, {0}}};
    bench b = bench_new();
    fv_conv1d_layer layer = {.weight = NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(fv_conv1d_create(b.params, "c", bad[i].in, bad[i].out, bad[i].window, true,
                                  &bad[i].options, &layer),
                 FV_ERR_ARGUMENT);
        CHECK(layer.weight == NULL);
    }
    layer = make(&b, 0);
    fv_tensor *x = tensor_random(b.ctx, 1, 2, 4, IN);
    fv_conv1d_run_varlen(b.ctx, &layer, x, 1, (int64_t[]){0, 3});
    CHECK_ERROR(b.ctx, FV_ERR_SHAPE, "all in one of the 1 sequences");
    fv_conv1d_run_varlen(b.ctx, &layer, x, 2, (int64_t[]){0, 5, 4});
    CHECK_ERROR(b.ctx, FV_ERR_SHAPE, "all in one of the 2 sequences");
    fv_conv1d_run_varlen(b.ctx, &layer, x, 1, (int64_t[]){1, 4});
    CHECK_ERROR(b.ctx, FV_ERR_SHAPE, "[total, 3]");
    fv_conv1d_run_varlen(b.ctx, &layer, tensor_random(b.ctx, 1, 2, 4, IN + 1), 1,
                         (int64_t[]){0, 4});
    CHECK_ERROR(b.ctx, FV_ERR_SHAPE, "[total, 3]");
    fv_conv1d_run(b.ctx, &layer, x);
    CHECK_ERROR(b.ctx, FV_ERR_SHAPE, "");
    bench_free(&b);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(both_forms_by_the_formula);
    RUN(sequences_do_not_mix);
    RUN(a_causal_result_does_not_know_the_future);
    RUN(refusals);
    return TEST_END();
}

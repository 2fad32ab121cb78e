/*
 * The memory heads of a Neural Turing Machine: addressing against its formula written down plainly,
 * the edges where a naive form divides by zero or overflows, writing by several heads, and many
 * random steps with extreme parameters.
 */
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "support/test.h"

enum { W = 3, N = 6, S = 3 };

static fv_ctx *make_ctx(void)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.seed = 3;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    return ctx;
}

/* One head in double. */
typedef struct head {
    double key[W], strength, gate, shift[S], exponent, before[N], memory[W][N];
} head;

static fv_tensor *put(fv_ctx *ctx, int rank, const int64_t *shape, const double *values)
{
    return fv_from_host(ctx, FV_F64, rank, shape, values);
}

typedef struct inputs {
    fv_tensor *key, *strength, *gate, *shift, *exponent, *before, *memory;
} inputs;

static inputs make_inputs(fv_ctx *ctx, const head *h, int64_t shifts)
{
    const int64_t one[] = {1, 1};
    return (inputs){put(ctx, 3, (int64_t[]){1, 1, W}, h->key),
                    put(ctx, 2, one, &h->strength),
                    put(ctx, 2, one, &h->gate),
                    put(ctx, 3, (int64_t[]){1, 1, shifts}, h->shift),
                    put(ctx, 2, one, &h->exponent),
                    put(ctx, 3, (int64_t[]){1, 1, N}, h->before),
                    put(ctx, 3, (int64_t[]){1, W, N}, &h->memory[0][0])};
}

static fv_tensor *run(fv_ctx *ctx, const inputs *in, bool uniform)
{
    return fv_ntm_address(ctx, in->key, in->strength, in->gate, in->shift, in->exponent, in->before,
                          in->memory, uniform);
}

static void weights_of(const head *h, bool uniform, double out[N])
{
    fv_ctx *ctx = make_ctx();
    const inputs in = make_inputs(ctx, h, uniform ? 1 : S);
    CHECK_EQ(fv_tensor_read(ctx, run(ctx, &in, uniform), out, N * sizeof *out), FV_OK);
    fv_ctx_destroy(&ctx);
}

static const head usual = {
    .key = {0.5, -1, 2},
    .strength = 1.7,
    .gate = 0.6,
    .shift = {0.2, 0.7, 0.1},
    .exponent = 2.5,
    .before = {0.1, 0.3, 0, 0.2, 0.4, 0},
    .memory = {{1, 0, -1, 2, 0.5, 0.1}, {0.2, 1, 0.3, -2, 0, 0.7}, {-1, 2, 0.5, 0.25, 1, 3}}};

static int wrap(int i) { return ((i % N) + N) % N; }

/* The formula, with the shift as weights of the offsets `first`, `first + 1`, ... */
static void plain(const head *h, int first, int taps, const double *shift, double out[N])
{
    double c[N], q[N], sum = 0;
    for (int i = 0; i < N; i++) {
        double dot = 0, a = 0, b = 0;
        for (int j = 0; j < W; j++) {
            dot += h->key[j] * h->memory[j][i];
            a += h->key[j] * h->key[j];
            b += h->memory[j][i] * h->memory[j][i];
        }
        sum += c[i] = exp(h->strength * dot / sqrt(a * b));
    }
    for (int i = 0; i < N; i++)
        c[i] = h->gate * c[i] / sum + (1 - h->gate) * h->before[i];
    sum = 0;
    for (int i = 0; i < N; i++) {
        q[i] = 0;
        for (int t = 0; t < taps; t++)
            q[i] += shift[t] * c[wrap(i - first - t)];
        sum += q[i] = pow(q[i], h->exponent);
    }
    for (int i = 0; i < N; i++)
        out[i] = q[i] / sum;
}

static void check_row(const double *got, const double *want)
{
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], want[i], 1e-14);
}

static void addressing_follows_the_formula(void)
{
    double got[N], want[N];
    weights_of(&usual, false, got);
    plain(&usual, -1, S, usual.shift, want);
    check_row(got, want);
    head rotated = usual; /* all weight on the offset +1: everything moves to the next slot */
    rotated.shift[0] = rotated.shift[1] = 0;
    rotated.shift[2] = rotated.exponent = 1;
    rotated.gate = 0;
    weights_of(&rotated, false, got);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[wrap(i + 1)], usual.before[i], 1e-15);
}

/* 2.75 moves a quarter by two slots and three quarters by three; bounds count modulo the slots. */
static void a_uniform_shift_splits_between_two_offsets(void)
{
    static const struct {
        double bound, first_weight;
        int first;
    } cases[] = {{2.75, 0.25, 2}, {-0.25, 0.25, -1}, {4, 1, 4}, {N + 1.5, 0.5, 1}, {-N, 1, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        head h = usual;
        double got[N], want[N];
        h.shift[0] = cases[k].bound;
        weights_of(&h, true, got);
        plain(&h, cases[k].first, 2, (double[]){cases[k].first_weight, 1 - cases[k].first_weight},
              want);
        check_row(got, want);
    }
}

static void check_distribution(const double *w)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        CHECK(w[i] >= 0 && w[i] <= 1 + 1e-12);
        sum += w[i];
    }
    CHECK_NEAR(sum, 1, 1e-12);
}

static void edges_have_results(void)
{
    double w[N];
    head h = usual;
    h.key[0] = h.key[1] = h.key[2] = 0; /* a key of length zero: all slots are equally similar */
    h.gate = h.exponent = 1;
    weights_of(&h, false, w);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(w[i], 1.0 / N, 1e-15);

    h = usual; /* an empty slot has cosine 0 */
    for (int j = 0; j < W; j++)
        h.memory[j][4] = 0;
    h.gate = h.exponent = 1;
    h.shift[0] = h.shift[2] = 0;
    h.shift[1] = 1;
    weights_of(&h, false, w);
    check_distribution(w);
    head same = h; /* as a slot at a right angle to the key has */
    same.memory[0][4] = 2;
    same.memory[1][4] = 1;
    double v[N];
    weights_of(&same, false, v);
    check_row(w, v);

    static const double large[] = {1e3, 1e30, 1e300};
    for (int k = 0; k < 3; k++) {
        h = usual;
        h.strength = h.exponent = large[k];
        weights_of(&h, false, w);
        check_distribution(w);
        h.strength = -large[k];
        weights_of(&h, false, w);
        check_distribution(w);
    }
    h = usual; /* huge and tiny numbers: squares overflow and vanish */
    h.key[0] = 1e200;
    h.memory[0][0] = 1e300;
    h.memory[1][1] = -1e250;
    for (int j = 0; j < W; j++)
        h.memory[j][2] = 1e-200;
    weights_of(&h, false, w);
    check_distribution(w);

    h = usual; /* the product with the key overflows, too */
    for (int j = 0; j < W; j++) {
        h.key[j] = 1;
        h.memory[j][3] = 1.7e308;
    }
    weights_of(&h, false, w);
    for (int j = 0; j < W; j++)
        h.memory[j][3] = 0;
    weights_of(&h, false, v);
    check_row(w, v);
    h.before[1] = (double)NAN; /* what is not a number is not hidden */
    weights_of(&h, false, w);
    CHECK(isnan(w[0]) || isnan(w[1]));

    h = usual; /* 0 to any power is 0 */
    h.gate = 0;
    h.shift[0] = h.shift[2] = 0;
    h.shift[1] = 1;
    weights_of(&h, false, w);
    CHECK(w[2] == 0 && w[5] == 0);
    check_distribution(w);

    for (int i = 0; i < N; i++) /* nothing to sharpen */
        h.before[i] = 0;
    weights_of(&h, false, w);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(w[i], 1.0 / N, 1e-15);
}

/* The gradient of before[i], for a loss that weighs slot k by k. */
static void before_grads(const head *h, double out[N], double key[W], double memory[W * N])
{
    fv_ctx *ctx = make_ctx();
    inputs in = make_inputs(ctx, h, S);
    in.before = fv_leaf(ctx, in.before);
    in.key = fv_leaf(ctx, in.key);
    in.memory = fv_leaf(ctx, in.memory);
    double k[N];
    for (int i = 0; i < N; i++)
        k[i] = i;
    fv_tensor *loss = fv_mul(ctx, run(ctx, &in, false), put(ctx, 3, (int64_t[]){1, 1, N}, k));
    CHECK_EQ(fv_backward(ctx, fv_sum(ctx, loss, 0, NULL, false)), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, fv_grad(ctx, in.before), out, N * sizeof *out), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, fv_grad(ctx, in.key), key, W * sizeof *key), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, fv_grad(ctx, in.memory), memory, W * N * sizeof *memory), FV_OK);
    fv_ctx_destroy(&ctx);
}

static void gradients_at_the_edges_are_defined(void)
{
    head h = usual;
    double d[N], key[W], memory[W * N];
    h.gate = 0;
    h.shift[0] = h.shift[2] = 0;
    h.shift[1] = 1;
    h.exponent = 3; /* w = q^3 / sum: flat where q is 0 */
    before_grads(&h, d, key, memory);
    CHECK(d[2] == 0 && d[5] == 0 && d[1] != 0);
    h.exponent = 1; /* w = q / sum: d/dq_i = i - sum w_k k, everywhere */
    before_grads(&h, d, key, memory);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(d[i], i - (0.3 + 3 * 0.2 + 4 * 0.4), 1e-13);

    h = usual;
    h.key[0] = h.key[1] = h.key[2] = 0; /* no direction, so no gradient */
    for (int j = 0; j < W; j++)
        h.memory[j][4] = 0;
    before_grads(&h, d, key, memory);
    for (int j = 0; j < W; j++) {
        CHECK(key[j] == 0);
        CHECK(memory[j * N + 4] == 0);
        for (int i = 0; i < N; i++)
            CHECK(isfinite(memory[j * N + i]));
    }
}

/* ---- a whole step -----------------------------------------------------------------------------
 */

/* Two writers erase and add; the reader sees the memory before them. */
static void writers_erase_and_add(void)
{
    const fv_ntm_heads heads = {.readers = 1, .writers = 2, .shifts = 1};
    const int64_t count = fv_ntm_params(&heads, W);
    CHECK_EQ(count, 3 * (W + 4) + 2 * 2 * W);
    fv_ctx *ctx = make_ctx();
    fv_tensor *raw = fv_rand_normal(ctx, FV_F64, 2, (int64_t[]){1, count}, 0, 1);
    fv_tensor *memory = fv_rand_normal(ctx, FV_F64, 3, (int64_t[]){1, W, N}, 0, 1);
    fv_tensor *before = fv_rand_uniform(ctx, FV_F64, 3, (int64_t[]){1, 3, N}, 0, 1);
    fv_tensor *read = NULL, *weights = NULL, *next = NULL;
    fv_ntm_step(ctx, raw, before, memory, &heads, &read, &weights, &next);
    double p[64], m[W][N], w[3][N], r[W], m2[W][N];
    CHECK_EQ(fv_tensor_read(ctx, raw, p, (size_t)count * sizeof *p), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, memory, m, sizeof m), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, weights, w, sizeof w), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, read, r, sizeof r), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, next, m2, sizeof m2), FV_OK);
    for (int j = 0; j < W; j++) {
        double sum = 0;
        for (int i = 0; i < N; i++) {
            double want = m[j][i];
            for (int v = 0; v < 2; v++)
                want *= 1 - w[1 + v][i] / (1 + exp(-p[3 * (W + 4) + v * 2 * W + j]));
            for (int v = 0; v < 2; v++)
                want += w[1 + v][i] * tanh(p[3 * (W + 4) + v * 2 * W + W + j]);
            CHECK_NEAR(m2[j][i], want, 1e-14);
            sum += w[0][i] * m[j][i];
        }
        CHECK_NEAR(r[j], sum, 1e-14);
    }
    /* The same weights as the addressing alone gives for activated parameters. */
    const double *q = p + (W + 4);
    const double strength = log1p(exp(q[W])), gate = 1 / (1 + exp(-q[W + 1])), shift = 1,
                 exponent = 1 + log1p(exp(q[W + 3]));
    double alone[N];
    fv_tensor *a = fv_ntm_address(
        ctx, put(ctx, 3, (int64_t[]){1, 1, W}, q), put(ctx, 2, (int64_t[]){1, 1}, &strength),
        put(ctx, 2, (int64_t[]){1, 1}, &gate), put(ctx, 3, (int64_t[]){1, 1, 1}, &shift),
        put(ctx, 2, (int64_t[]){1, 1}, &exponent), fv_slice(ctx, before, 1, 1, 2, 1), memory,
        false);
    CHECK_EQ(fv_tensor_read(ctx, a, alone, sizeof alone), FV_OK);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(alone[i], w[1][i], 1e-13);
    fv_ctx_destroy(&ctx);
}

/* A million head steps: parameters with deviations of 1, 100 and 10000 in turn. Weights stay
 * distributions, and everything stays finite. */
static void a_million_steps_stay_finite(void)
{
    enum { ROWS = 250, STEPS = 2000, SLOTS = 5, HEADS = 2 };
    const fv_ntm_heads kinds[] = {{.readers = 1, .writers = 1, .shifts = 3},
                                  {.readers = 1, .writers = 1, .shifts = 0}};
    static float w[ROWS][HEADS][SLOTS], m[ROWS][2][SLOTS];
    fv_ctx *ctx = make_ctx();
    double worst = 0;
    for (int kind = 0; kind < 2; kind++) {
        fv_params *state = NULL;
        CHECK_EQ(fv_params_create(ctx, &state), FV_OK);
        fv_tensor *weights = fv_params_add_buffer(
            state, "w", fv_full(ctx, FV_F32, 3, (int64_t[]){ROWS, HEADS, SLOTS}, 1.0 / SLOTS));
        fv_tensor *memory = fv_params_add_buffer(
            state, "m", fv_full(ctx, FV_F32, 3, (int64_t[]){ROWS, 2, SLOTS}, 1e-6));
        for (int t = 0; t < STEPS / 2; t++) {
            static const double deviation[] = {1, 100, 10000};
            fv_scope_begin(ctx);
            fv_ctx_set_step(ctx, (uint64_t)(kind * STEPS + t), 0);
            fv_tensor *raw =
                fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){ROWS, fv_ntm_params(&kinds[kind], 2)}, 0,
                               deviation[t % 3]);
            fv_tensor *read, *next, *after;
            fv_ntm_step(ctx, raw, weights, memory, &kinds[kind], &read, &after, &next);
            CHECK_EQ(fv_tensor_read(ctx, after, w, sizeof w), FV_OK);
            fv_tensor *all =
                fv_add(ctx, fv_sum(ctx, next, 0, NULL, false), fv_sum(ctx, read, 0, NULL, false));
            double sum = NAN;
            CHECK_EQ(fv_tensor_item(ctx, all, &sum), FV_OK);
            CHECK(isfinite(sum));
            for (int r = 0; r < ROWS; r++)
                for (int h = 0; h < HEADS; h++) {
                    double total = 0;
                    for (int i = 0; i < SLOTS; i++)
                        total += (double)w[r][h][i] >= 0 ? (double)w[r][h][i] : (double)NAN;
                    worst = test_worse(worst, fabs(total - 1));
                }
            CHECK_EQ(fv_tensor_write(ctx, weights, w, sizeof w), FV_OK);
            CHECK_EQ(fv_tensor_read(ctx, next, m, sizeof m), FV_OK);
            CHECK_EQ(fv_tensor_write(ctx, memory, m, sizeof m), FV_OK);
            fv_scope_end(ctx);
        }
        fv_params_destroy(&state);
    }
    printf("%d head steps, sums off by at most %.2g\n", ROWS * STEPS * HEADS, worst);
    CHECK(worst < 1e-6);
    fv_ctx_destroy(&ctx);
}

static void wrong_shapes_are_refused(void)
{
    fv_ctx *ctx = make_ctx();
    inputs in = make_inputs(ctx, &usual, S);
    in.shift = fv_zeros(ctx, FV_F64, 3, (int64_t[]){1, 1, 2});
    run(ctx, &in, false);
    CHECK(strstr(fv_ctx_message(ctx), "shift has 2 numbers, expected an odd number"));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    in = make_inputs(ctx, &usual, S);
    run(ctx, &in, true);
    CHECK(strstr(fv_ctx_message(ctx), "shift has 3 numbers, expected 1"));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    in.gate = fv_zeros(ctx, FV_F64, 2, (int64_t[]){1, 2});
    run(ctx, &in, false);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    const fv_ntm_heads none = {.readers = 0, .writers = 0, .shifts = 3},
                       even = {.readers = 1, .writers = 0, .shifts = 2},
                       one = {.readers = 1, .writers = 0, .shifts = 3};
    const fv_ntm_heads *const bad[] = {&none, &even, &one};
    for (int k = 0; k < 3; k++) { /* the last one has too few parameters */
        fv_tensor *raw = fv_zeros(ctx, FV_F64, 2, (int64_t[]){1, 5}), *out[3];
        fv_tensor *before = fv_zeros(ctx, FV_F64, 3, (int64_t[]){1, 1, N});
        fv_ntm_step(ctx, raw, before, in.memory, bad[k], &out[0], &out[1], &out[2]);
        CHECK_EQ(fv_ctx_take_error(ctx), k < 2 ? FV_ERR_ARGUMENT : FV_ERR_SHAPE);
    }
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(addressing_follows_the_formula);
    RUN(a_uniform_shift_splits_between_two_offsets);
    RUN(edges_have_results);
    RUN(gradients_at_the_edges_are_defined);
    RUN(writers_erase_and_add);
    RUN(a_million_steps_stay_finite);
    RUN(wrong_shapes_are_refused);
    return TEST_END();
}

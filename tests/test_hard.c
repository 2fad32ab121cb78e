/*
 * Hard attention: the choice, its value, and the estimator of its gradient. The estimator is held
 * against enumeration: every possible choice is made, its estimated gradient weighed with its
 * probability, and the sum must be the exact gradient of the expectation.
 */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { KEYS = 4, WIDTH = 3, CLASSES = 3, TARGET = 1, LEAVES = 4, MOST = 16 };
static const double LAMBDA_ENTROPY = 0.05;

/* One query over four keys; the chosen value goes through U to the logits of the answer. */
typedef struct problem {
    fv_ctx *ctx;
    fv_tensor *leaf[LEAVES]; /* q, k, v, U */
} problem;

static problem problem_new(void)
{
    problem p = {.ctx = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU)};
    static const int64_t shape[LEAVES][4] = {
        {1, 1, 1, WIDTH}, {1, 1, KEYS, WIDTH}, {1, 1, KEYS, WIDTH}, {CLASSES, WIDTH}};
    for (int i = 0; i < LEAVES; i++)
        p.leaf[i] = fv_leaf(p.ctx, fv_rand_normal(p.ctx, FV_F64, i == 3 ? 2 : 4, shape[i], 0, 1));
    return p;
}

/* ln p(y | s), from contexts [..., WIDTH]: one number a row, [rows]. */
static fv_tensor *log_likelihood(const problem *p, fv_tensor *context)
{
    fv_tensor *rows = fv_reshape(p->ctx, context, 2, (int64_t[]){-1, WIDTH});
    fv_tensor *logits = fv_linear(p->ctx, rows, p->leaf[3], NULL);
    fv_tensor *log_p =
        fv_slice(p->ctx, fv_log_softmax(p->ctx, logits, -1), 1, TARGET, TARGET + 1, 1);
    return fv_squeeze(p->ctx, log_p, 1);
}

typedef struct gradients {
    double x[LEAVES][MOST];
} gradients;

static gradients take_gradients(const problem *p)
{
    gradients g = {{{0}}};
    for (int i = 0; i < LEAVES; i++) {
        fv_tensor *t = fv_grad(p->ctx, p->leaf[i]);
        if (t)
            CHECK_OK(p->ctx, fv_tensor_read(p->ctx, t, g.x[i],
                                            (size_t)fv_tensor_count(t) * sizeof(double)));
        fv_zero_grad(p->ctx, p->leaf[i]);
    }
    return g;
}

/* d/d(leaves) of sum_s a_s ln p(y|s) + lambda_e H(a), by ordinary ops, and a. */
static gradients exact(const problem *p, double probability[KEYS])
{
    fv_ctx *ctx = p->ctx;
    fv_scope_begin(ctx);
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = FV_ATTENTION_HARD_ARGMAX; /* only its probabilities are used */
    how.want_weights = true;
    fv_attention_result r;
    fv_attention_run(ctx, &(fv_attention_input){.q = p->leaf[0], .k = p->leaf[1], .v = p->leaf[2]},
                     &how, &r);
    fv_tensor *a = fv_reshape(ctx, r.weights, 1, (int64_t[]){KEYS});
    CHECK_OK(ctx, fv_tensor_read(ctx, a, probability, KEYS * sizeof(double)));
    fv_tensor *f = fv_sum(ctx, fv_mul(ctx, a, log_likelihood(p, p->leaf[2])), 0, NULL, false);
    fv_tensor *h = fv_scale(ctx, fv_sum(ctx, r.entropy, 0, NULL, false), LAMBDA_ENTROPY);
    CHECK_OK(ctx, fv_backward(ctx, fv_neg(ctx, fv_add(ctx, f, h))));
    fv_scope_end(ctx);
    return take_gradients(p);
}

/* One draw at this step: the choice, ln p(y|s), and the estimator's gradient. */
static int64_t estimate(const problem *p, uint64_t step, fv_baseline *baseline, double lambda,
                        gradients *g, double *log_p)
{
    fv_ctx *ctx = p->ctx;
    fv_ctx_set_step(ctx, step, 0);
    fv_scope_begin(ctx);
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = FV_ATTENTION_HARD_SAMPLE;
    fv_attention_result r;
    fv_attention_run(ctx, &(fv_attention_input){.q = p->leaf[0], .k = p->leaf[1], .v = p->leaf[2]},
                     &how, &r);
    fv_tensor *ll = log_likelihood(p, r.context);
    double s = -1;
    CHECK_OK(ctx, fv_tensor_item(ctx, ll, log_p));
    CHECK_OK(ctx, fv_tensor_item(ctx, r.choice, &s));
    fv_tensor *loss =
        fv_reinforce(ctx, baseline, ll, fv_reshape(ctx, r.log_prob, 1, (int64_t[]){1}),
                     fv_reshape(ctx, r.entropy, 1, (int64_t[]){1}), lambda, LAMBDA_ENTROPY);
    CHECK_EQ(fv_tensor_rank(loss), 0);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    fv_scope_end(ctx);
    *g = take_gradients(p);
    return (int64_t)s;
}

typedef struct enumeration {
    double probability[KEYS], log_p[KEYS];
    gradients exact, of[KEYS]; /* of the expectation; the estimate for each choice */
} enumeration;

/* Draws until every key was chosen once: given the choice, the estimate is no longer random. */
static enumeration enumerate(const problem *p, double b, double lambda)
{
    enumeration e;
    e.exact = exact(p, e.probability);
    bool have[KEYS] = {false};
    int left = KEYS;
    for (uint64_t step = 0; left > 0 && step < 4000; step++) {
        gradients g;
        double log_p;
        fv_baseline fixed = {.decay = 1, .value = b};
        const int64_t s = estimate(p, step, &fixed, lambda, &g, &log_p);
        if (have[s]) continue;
        have[s] = true;
        left--;
        e.of[s] = g;
        e.log_p[s] = log_p;
    }
    CHECK_EQ(left, 0);
    return e;
}

/* The largest error of sum_s a_s g_s, and the variance of the estimate. */
static double bias_of(const enumeration *e, double *variance)
{
    double worst = 0, spread = 0;
    for (int i = 0; i < LEAVES; i++)
        for (int j = 0; j < MOST; j++) {
            double mean = 0;
            for (int s = 0; s < KEYS; s++)
                mean += e->probability[s] * e->of[s].x[i][j];
            for (int s = 0; s < KEYS; s++)
                spread += e->probability[s] * pow(e->of[s].x[i][j] - mean, 2);
            worst = test_worse(worst, fabs(mean - e->exact.x[i][j]));
        }
    if (variance) *variance = spread;
    return worst;
}

static void the_estimate_is_right_on_average(void)
{
    problem p = problem_new();
    static const double baselines[] = {0, -1.3, 5};
    for (int b = 0; b < 3; b++) {
        enumeration e = enumerate(&p, baselines[b], 1.0);
        CHECK(bias_of(&e, NULL) < 1e-12);
    }
    enumeration without = enumerate(&p, 0, 0.0); /* no score-function term: biased */
    CHECK(bias_of(&without, NULL) > 1e-3);
    fv_ctx_destroy(&p.ctx);
}

/* On average any baseline will do; for each choice it must be just the one that was given. With g
 * the estimate without score-function term, that of b is g - lambda (log p(y|s) - b) d log p(s). */
static void the_baseline_is_subtracted(void)
{
    static const double b = -1.3, lambda = 0.5;
    problem p = problem_new();
    const enumeration none = enumerate(&p, 0, 0.0), plain = enumerate(&p, 0, 1.0),
                      based = enumerate(&p, b, lambda);
    double worst = 0, other_sign = 0;
    for (int s = 0; s < KEYS; s++)
        for (int at = 0; at < LEAVES * MOST; at++) {
            const int i = at / MOST, j = at % MOST;
            const double g = none.of[s].x[i][j], log_p = none.log_p[s];
            const double slope = (g - plain.of[s].x[i][j]) / log_p;
            const double ours = based.of[s].x[i][j];
            worst = test_worse(worst, fabs(ours - (g - lambda * (log_p - b) * slope)));
            other_sign = test_worse(other_sign, fabs(ours - (g - lambda * (log_p + b) * slope)));
        }
    CHECK(worst < 1e-12);
    CHECK(other_sign > 1e-3);
    fv_ctx_destroy(&p.ctx);
}

static void a_baseline_lowers_the_variance(void)
{
    problem p = problem_new();
    enumeration plain = enumerate(&p, 0, 1.0);
    double mean = 0, with = 0, without = 0, absurd = 0;
    for (int s = 0; s < KEYS; s++)
        mean += plain.probability[s] * plain.log_p[s];
    enumeration based = enumerate(&p, mean, 1.0), wrong = enumerate(&p, mean + 5, 1.0);
    bias_of(&plain, &without);
    bias_of(&based, &with);
    bias_of(&wrong, &absurd);
    CHECK(with < without);
    CHECK(absurd > with);
    fv_ctx_destroy(&p.ctx);
}

static void the_baseline_moves(void)
{
    problem p = problem_new();
    fv_baseline b = {.decay = 0.9};
    gradients g;
    double log_p = 0, expected = 0;
    for (uint64_t step = 0; step < 5; step++) {
        estimate(&p, step, &b, 1.0, &g, &log_p);
        expected = 0.9 * expected + 0.1 * log_p;
        CHECK_NEAR(b.value, expected, 1e-14);
        CHECK_EQ(b.updates, step + 1);
    }
    fv_ctx_destroy(&p.ctx);
}

/* ---- the choice --------------------------------------------------------------------- */

static void choices_follow_the_probabilities(void)
{
    enum { DRAWS = 20000 };
    problem p = problem_new();
    fv_ctx *ctx = p.ctx;
    double probability[KEYS];
    exact(&p, probability);
    const int64_t many[4] = {DRAWS, 1, 1, WIDTH}, keys[4] = {DRAWS, 1, KEYS, WIDTH};
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = FV_ATTENTION_HARD_SAMPLE;
    fv_attention_input in = {.q = fv_broadcast(ctx, p.leaf[0], 4, many),
                             .k = fv_broadcast(ctx, p.leaf[1], 4, keys),
                             .v = fv_broadcast(ctx, p.leaf[2], 4, keys)};
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    int64_t *s = tensor_indices(ctx, r.choice);
    int count[KEYS] = {0};
    for (int i = 0; i < DRAWS; i++)
        count[s[i]]++;
    free(s);
    for (int j = 0; j < KEYS; j++) {
        const double a = probability[j], sigma = sqrt(a * (1 - a) / DRAWS);
        CHECK_NEAR((double)count[j] / DRAWS, a, 5 * sigma);
    }
    fv_ctx_destroy(&p.ctx);
}

/* The context is the chosen value, bit for bit, with grouped heads too; argmax takes the largest.
 */
static void the_context_is_the_value(void)
{
    enum { B = 2, H = 4, G = 2, NQ = 3, NK = 5, DV = 3 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_attention_input in = {.q = tensor_random(ctx, 1, 4, B, H, NQ, 2),
                             .k = tensor_random(ctx, 2, 4, B, G, NK, 2),
                             .v = tensor_random(ctx, 3, 4, B, G, NK, DV)};
    float *v = tensor_floats(ctx, in.v);
    for (int hard = FV_ATTENTION_HARD_SAMPLE; hard <= FV_ATTENTION_HARD_ARGMAX; hard++) {
        fv_attention how;
        fv_attention_init(&how, sizeof how);
        how.normaliser = (fv_attention_normaliser)hard;
        how.want_weights = true;
        fv_attention_result r;
        fv_attention_run(ctx, &in, &how, &r);
        float *c = tensor_floats(ctx, r.context), *a = tensor_floats(ctx, r.weights);
        float *log_prob = tensor_floats(ctx, r.log_prob), *entropy = tensor_floats(ctx, r.entropy);
        int64_t *s = tensor_indices(ctx, r.choice);
        for (int n = 0; n < B * H * NQ; n++) {
            const int b = n / (H * NQ), g = n / NQ % H / (H / G);
            const float *value = v + ((b * G + g) * NK + s[n]) * DV;
            double h = 0;
            CHECK(memcmp(c + n * DV, value, sizeof(float) * DV) == 0);
            for (int j = 0; j < NK; j++) {
                const float w = a[n * NK + j];
                if (hard == FV_ATTENTION_HARD_ARGMAX) CHECK(w <= a[n * NK + s[n]]);
                h -= (double)w * log((double)w);
            }
            CHECK_NEAR(entropy[n], h, 1e-5);
            CHECK_NEAR(log_prob[n], log((double)a[n * NK + s[n]]), 1e-5);
        }
        free(c);
        free(a);
        free(log_prob);
        free(entropy);
        free(s);
    }
    free(v);
    fv_ctx_destroy(&ctx);
}

/* Keyed by seed, step, site and row: a batch in halves draws what the whole draws. */
static void choices_are_keyed(void)
{
    enum { B = 6, NK = 9 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    fv_attention_input in = {.q = tensor_random(ctx, 1, 4, B, 2, 3, 2),
                             .k = tensor_random(ctx, 2, 4, B, 2, NK, 2),
                             .v = tensor_random(ctx, 3, 4, B, 2, NK, 2)};
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = FV_ATTENTION_HARD_SAMPLE;
    fv_attention_result whole, again, later, half[2];
    fv_ctx_set_step(ctx, 7, 0);
    fv_attention_run(ctx, &in, &how, &whole);
    fv_ctx_set_step(ctx, 7, 0);
    fv_attention_run(ctx, &in, &how, &again);
    fv_ctx_set_step(ctx, 8, 0);
    fv_attention_run(ctx, &in, &how, &later);
    fv_tensor *joined[2];
    for (int i = 0; i < 2; i++) {
        const int64_t from = i * B / 2, to = from + B / 2;
        fv_ctx_set_step(ctx, 7, (uint64_t)from);
        fv_attention_input part = {.q = fv_slice(ctx, in.q, 0, from, to, 1),
                                   .k = fv_slice(ctx, in.k, 0, from, to, 1),
                                   .v = fv_slice(ctx, in.v, 0, from, to, 1)};
        fv_attention_run(ctx, &part, &how, &half[i]);
        joined[i] = half[i].choice;
    }
    CHECK(tensor_same(ctx, whole.choice, again.choice));
    CHECK(tensor_same(ctx, whole.choice, fv_concat(ctx, 2, joined, 0)));
    CHECK(!tensor_same(ctx, whole.choice, later.choice));
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(the_estimate_is_right_on_average);
    RUN(the_baseline_is_subtracted);
    RUN(a_baseline_lowers_the_variance);
    RUN(the_baseline_moves);
    RUN(choices_follow_the_probabilities);
    RUN(the_context_is_the_value);
    RUN(choices_are_keyed);
    return TEST_END();
}

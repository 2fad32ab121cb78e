/*
 * Claims about attention, as tests. Each claim has a twin: the same check under a condition
 * that takes the claim's ground away, where it must fail. A check that passes both ways shows
 * nothing. Numbers in brackets are those of the list of claims this project set out to show.
 * Claims about cost are in test_claims_cost.c.
 */
#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { B = 2, N = 7, WIDTH = 8, HEADS = 2 };
static const double SAME = 1e-5, OTHER = 1e-3;

/* The check must hold with the claim's condition and fail without it. */
#define HOLDS(distance)     CHECK((distance) < SAME)
#define MUST_FAIL(distance) CHECK((distance) > OTHER)

typedef struct stage {
    fv_ctx *ctx;
    fv_params *params;
    fv_mha heads;
} stage;

static stage stage_new(const fv_mha_config *cfg)
{
    stage s = {.ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU)};
    CHECK_OK(s.ctx, fv_params_create(s.ctx, &s.params));
    if (cfg) CHECK_OK(s.ctx, fv_mha_create(s.params, "layer", cfg, &s.heads));
    fv_no_grad_begin(s.ctx);
    return s;
}

static void stage_free(stage *s)
{
    CHECK_OK(s->ctx, fv_ctx_error(s->ctx));
    fv_params_destroy(&s->params);
    fv_ctx_destroy(&s->ctx);
}

static fv_mha_config plain_heads(void)
{
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, WIDTH, HEADS);
    cfg.attention.want_weights = cfg.attention.want_scores = true;
    return cfg;
}

static const int64_t order[N] = {3, 0, 6, 1, 5, 2, 4};

static fv_tensor *shuffled(fv_ctx *ctx, fv_tensor *x, int axis)
{
    return fv_index_select(ctx, x, indices_of(ctx, order, N), axis);
}

/* ---- order (82, 83, 84, 92) ---------------------------------------------------------- */

/* Of scores and weights rows and columns both move. */
static fv_tensor *moved_both_ways(fv_ctx *ctx, fv_tensor *map)
{
    return shuffled(ctx, shuffled(ctx, map, 2), 3);
}

/* |f(s(X)) - s(f(X))|, and the same for scores and weights, the larger of both. */
static double equivariance(const fv_mha_config *cfg, bool positions, double *of_maps)
{
    stage s = stage_new(cfg);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 1, 3, B, N, WIDTH), *y[2], *a[2], *e[2];
    for (int moved = 0; moved < 2; moved++) {
        fv_tensor *in = moved ? shuffled(ctx, x, 1) : x;
        if (positions) {
            fv_tensor *p = fv_sinusoid(ctx, FV_F32, 0, N, WIDTH, 100, FV_SINUSOID_INTERLEAVED);
            in = fv_positions_apply(ctx, in, p, FV_POSITIONS_ADD);
        }
        fv_attention_result r;
        y[moved] = fv_mha_run(ctx, &s.heads, &(fv_mha_input){.x = in}, &r);
        a[moved] = r.weights;
        e[moved] = r.scores;
    }
    const double off = tensor_distance(ctx, y[1], shuffled(ctx, y[0], 1));
    *of_maps = fmax(tensor_distance(ctx, a[1], moved_both_ways(ctx, a[0])),
                    tensor_distance(ctx, e[1], moved_both_ways(ctx, e[0])));
    stage_free(&s);
    return off;
}

/* (82) Without positions, self-attention commutes with any reordering; so do scores and weights. */
static void self_attention_is_equivariant(void)
{
    fv_mha_config cfg = plain_heads();
    double of_maps;
    HOLDS(equivariance(&cfg, false, &of_maps));
    HOLDS(of_maps);
    MUST_FAIL(equivariance(&cfg, true, &of_maps)); /* positions added */
    MUST_FAIL(of_maps);
    cfg.rotary.width = 4;
    MUST_FAIL(equivariance(&cfg, false, &of_maps)); /* rotary positions */
    cfg = plain_heads();
    cfg.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    MUST_FAIL(equivariance(&cfg, false, &of_maps)); /* a mask knows the order */
}

/* (83) One query's answer does not depend on the order of (key, value) pairs. */
static void a_query_ignores_the_order_of_pairs(void)
{
    stage s = stage_new(NULL);
    fv_ctx *ctx = s.ctx;
    fv_tensor *q = tensor_random(ctx, 1, 2, 1, WIDTH), *k = tensor_random(ctx, 2, 2, N, WIDTH);
    fv_tensor *v = tensor_random(ctx, 3, 2, N, 3);
    fv_tensor *y = fv_attention_lookup(ctx, q, k, v, 1, NULL);
    fv_tensor *both =
        fv_attention_lookup(ctx, q, shuffled(ctx, k, 0), shuffled(ctx, v, 0), 1, NULL);
    HOLDS(tensor_distance(ctx, y, both));
    fv_tensor *keys_alone = fv_attention_lookup(ctx, q, shuffled(ctx, k, 0), v, 1, NULL);
    MUST_FAIL(tensor_distance(ctx, y, keys_alone)); /* pairs torn apart */
    stage_free(&s);
}

/* (84) A mean over positions makes an equivariant layer invariant. */
static void mean_pooling_makes_it_invariant(void)
{
    fv_mha_config cfg = plain_heads();
    stage s = stage_new(&cfg);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 1, 3, B, N, WIDTH), *y[2], *mean[2], *last[2], *placed[2];
    fv_tensor *p = fv_sinusoid(ctx, FV_F32, 0, N, WIDTH, 100, FV_SINUSOID_INTERLEAVED);
    for (int moved = 0; moved < 2; moved++) {
        fv_tensor *in = moved ? shuffled(ctx, x, 1) : x;
        y[moved] = fv_mha_run(ctx, &s.heads, &(fv_mha_input){.x = in}, NULL);
        mean[moved] = fv_mean(ctx, y[moved], 1, (int[]){1}, false);
        last[moved] = fv_slice(ctx, y[moved], 1, N - 1, N, 1);
        in = fv_positions_apply(ctx, in, p, FV_POSITIONS_ADD);
        placed[moved] = fv_mean(ctx, fv_mha_run(ctx, &s.heads, &(fv_mha_input){.x = in}, NULL), 1,
                                (int[]){1}, false);
    }
    HOLDS(tensor_distance(ctx, mean[0], mean[1]));
    MUST_FAIL(tensor_distance(ctx, y[0], y[1]));
    MUST_FAIL(tensor_distance(ctx, last[0], last[1]));     /* the last unit instead of the mean */
    MUST_FAIL(tensor_distance(ctx, placed[0], placed[1])); /* positions on */
    stage_free(&s);
}

/* (92) "mary gave roses to susan", and the other way round: to `gave` it is the same sentence,
 * however many heads look at it; only positions distinguish giver and receiver. */
static double mary_and_susan(int64_t heads, bool positions)
{
    enum { MARY, GAVE, ROSES, TO, SUSAN, WORDS };
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, WIDTH, heads);
    stage s = stage_new(&cfg);
    fv_ctx *ctx = s.ctx;
    static const int64_t sentence[2][WORDS] = {{MARY, GAVE, ROSES, TO, SUSAN},
                                               {SUSAN, GAVE, ROSES, TO, MARY}};
    fv_tensor *table = tensor_random(ctx, 4, 2, WORDS, WIDTH), *gave[2];
    for (int i = 0; i < 2; i++) {
        fv_tensor *x = fv_embedding(ctx, table, indices_of(ctx, sentence[i], WORDS), -1);
        if (positions)
            x = fv_positions_apply(
                ctx, x, fv_sinusoid(ctx, FV_F32, 0, WORDS, WIDTH, 100, FV_SINUSOID_INTERLEAVED),
                FV_POSITIONS_ADD);
        fv_mha_input in = {.x = fv_unsqueeze(ctx, x, 0)};
        gave[i] = fv_slice(ctx, fv_mha_run(ctx, &s.heads, &in, NULL), 1, GAVE, GAVE + 1, 1);
    }
    const double off = tensor_distance(ctx, gave[0], gave[1]);
    stage_free(&s);
    return off;
}

static void who_gave_roses(void)
{
    for (int64_t heads = 1; heads <= 8; heads *= 2) {
        HOLDS(mary_and_susan(heads, false));
        MUST_FAIL(mary_and_susan(heads, true));
    }
}

/* ---- scores (85, 88, 89) -------------------------------------------------------------- */

static int peaks_on_diagonal(fv_ctx *ctx, fv_tensor *x)
{
    fv_tensor *weights = NULL;
    fv_attention_basic(ctx, x, &weights);
    int64_t *peak = tensor_indices(ctx, fv_argmax(ctx, weights, -1, false));
    int n = 0;
    for (int i = 0; i < N; i++)
        n += peak[i] == i;
    free(peak);
    return n;
}

/* (85) Among vectors of equal length each is its own best match. One long vector is the best match
 * of all. */
static void basic_attention_peaks_on_its_diagonal(void)
{
    stage s = stage_new(NULL);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = fv_scale(ctx, fv_unit(ctx, tensor_random(ctx, 5, 2, N, WIDTH)), 2);
    CHECK_EQ(peaks_on_diagonal(ctx, x), N);
    float longer[N];
    for (int i = 0; i < N; i++)
        longer[i] = i == 2 ? 10 : 1;
    CHECK(peaks_on_diagonal(ctx, fv_mul(ctx, x, tensor_of(ctx, longer, 2, N, 1))) < N);
    stage_free(&s);
}

/* Variance of q . k times a factor, over many random pairs. */
static double score_variance(fv_ctx *ctx, int d, double factor)
{
    enum { PAIRS = 8192 };
    fv_tensor *q = tensor_random(ctx, 6, 2, PAIRS, d), *k = tensor_random(ctx, 7, 2, PAIRS, d);
    fv_tensor *s = fv_scale(ctx, fv_sum(ctx, fv_mul(ctx, q, k), 1, (int[]){-1}, false), factor);
    double square = 0, mean = 0;
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_mean(ctx, fv_square(ctx, s), 0, NULL, false), &square));
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_mean(ctx, s, 0, NULL, false), &mean));
    return square - mean * mean;
}

/* Mean over rows of sum_j a_j (1 - a_j): the size of softmax's own derivative. 0 when it is stuck
 * on one key, near 1 when it is even. */
static double softness(fv_ctx *ctx, int d, fv_attention_score score)
{
    enum { KEYS = 64 };
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    how.want_weights = true;
    fv_attention_input in = {.q = tensor_random(ctx, 8, 4, 1, 1, KEYS, d),
                             .k = tensor_random(ctx, 9, 4, 1, 1, KEYS, d),
                             .v = tensor_random(ctx, 10, 4, 1, 1, KEYS, 1)};
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    fv_tensor *squares = fv_sum(ctx, fv_square(ctx, r.weights), 1, (int[]){-1}, false);
    double mean = 0;
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_mean(ctx, squares, 0, NULL, false), &mean));
    return 1 - mean;
}

/* What reaches the scores of a loss that is linear in the context: half of the rows get more. */
static double median_gradient(fv_ctx *ctx, int d, fv_attention_score score)
{
    enum { KEYS = 64 };
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    const int64_t shape[2] = {KEYS, KEYS};
    fv_no_grad_end(ctx);
    fv_tensor *bias = fv_leaf(ctx, fv_zeros(ctx, FV_F32, 2, shape)); /* its gradient is theirs */
    fv_attention_input in = {.q = tensor_random(ctx, 8, 4, 1, 1, KEYS, d),
                             .k = tensor_random(ctx, 9, 4, 1, 1, KEYS, d),
                             .v = tensor_random(ctx, 10, 4, 1, 1, KEYS, 1),
                             .bias = bias};
    fv_tensor *context = fv_attention_run(ctx, &in, &how, NULL);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, context, 0, NULL, false)));
    fv_tensor *rows = fv_norm(ctx, fv_grad(ctx, bias), 1, (int[]){-1}, false);
    fv_no_grad_begin(ctx);
    float *sizes = tensor_floats(ctx, rows);
    int below = 0;
    float median = 0;
    for (int i = 0; i < KEYS && below != KEYS / 2; i++) {
        below = 0;
        median = sizes[i];
        for (int j = 0; j < KEYS; j++)
            below += sizes[j] < median;
    }
    free(sizes);
    return (double)median;
}

/* (88) Var(q . k) = d. Unscaled, a softmax over wide vectors saturates and its gradient is gone. */
static void scores_grow_with_width(void)
{
    stage s = stage_new(NULL);
    for (int d = 16; d <= 256; d *= 4) {
        CHECK_NEAR(score_variance(s.ctx, d, 1), d, 0.1 * d);
        CHECK_NEAR(score_variance(s.ctx, d, 1 / sqrt(d)), 1, 0.1);
        CHECK(score_variance(s.ctx, d, 1.0 / d) < 0.2); /* the wrong scale flattens instead */
    }
    CHECK(softness(s.ctx, 512, FV_ATTENTION_DOT) < 0.2);
    CHECK(softness(s.ctx, 512, FV_ATTENTION_SCALED) > 0.9);
    CHECK(softness(s.ctx, 1, FV_ATTENTION_DOT) > 0.8); /* narrow vectors need no scale */
    CHECK(median_gradient(s.ctx, 512, FV_ATTENTION_DOT) < 0.01);
    CHECK(median_gradient(s.ctx, 512, FV_ATTENTION_SCALED) > 0.1);
    CHECK(median_gradient(s.ctx, 1, FV_ATTENTION_DOT) > 0.1);
    stage_free(&s);
}

static double score_of(fv_ctx *ctx, fv_attention_score score, fv_tensor *x, fv_tensor *y)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    how.want_scores = true;
    const int64_t shape[4] = {1, 1, 1, fv_tensor_count(x)};
    fv_attention_input in = {.q = fv_reshape(ctx, x, 4, shape),
                             .k = fv_reshape(ctx, y, 4, shape),
                             .v = fv_reshape(ctx, y, 4, shape)};
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    double value = NAN;
    CHECK_OK(ctx, fv_tensor_item(ctx, r.scores, &value));
    return value;
}

static double correlation(fv_ctx *ctx, fv_tensor *x, fv_tensor *y)
{
    const int64_t n = fv_tensor_count(x);
    float *a = tensor_floats(ctx, x), *b = tensor_floats(ctx, y);
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ma += (double)a[i] / (double)n;
        mb += (double)b[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        ab += ((double)a[i] - ma) * ((double)b[i] - mb);
        aa += pow((double)a[i] - ma, 2);
        bb += pow((double)b[i] - mb, 2);
    }
    free(a);
    free(b);
    return ab / sqrt(aa * bb);
}

/* (89) The dot product respects sign and size; the cosine forgets size, and of centred vectors it
 * is their correlation. */
static void dot_and_cosine(void)
{
    stage s = stage_new(NULL);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = fv_affine(ctx, tensor_random(ctx, 11, 1, 20), 1, 1.5),
              *y = tensor_random(ctx, 12, 1, 20);
    const double dot = score_of(ctx, FV_ATTENTION_DOT, x, y);
    CHECK_NEAR(score_of(ctx, FV_ATTENTION_DOT, fv_neg(ctx, x), y), -dot, SAME);
    CHECK_NEAR(score_of(ctx, FV_ATTENTION_DOT, fv_scale(ctx, x, 3), y), 3 * dot, 1e-4);
    const double cosine = score_of(ctx, FV_ATTENTION_COSINE, x, y);
    CHECK_NEAR(score_of(ctx, FV_ATTENTION_COSINE, fv_scale(ctx, x, 3), y), cosine, SAME);
    CHECK_NEAR(score_of(ctx, FV_ATTENTION_COSINE, fv_neg(ctx, x), y), -cosine, SAME);
    fv_tensor *centred_x = fv_sub(ctx, x, fv_mean(ctx, x, 0, NULL, false));
    fv_tensor *centred_y = fv_sub(ctx, y, fv_mean(ctx, y, 0, NULL, false));
    const double r = correlation(ctx, x, y);
    HOLDS(fabs(score_of(ctx, FV_ATTENTION_COSINE, centred_x, centred_y) - r));
    MUST_FAIL(fabs(cosine - r)); /* not centred */
    stage_free(&s);
}

/* ---- heads (90) and the six steps (23) ------------------------------------------------- */

static int64_t parameters(int64_t width, int64_t heads, bool wide)
{
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, width, heads);
    if (wide) cfg.d_k = width;
    cfg.bias = cfg.bias_out = false;
    stage s = stage_new(&cfg);
    const int64_t n = fv_params_elements(s.params);
    stage_free(&s);
    return n;
}

/* (90) Narrow heads cost as many parameters as one; wide ones as many times more as they are. */
static void narrow_heads_are_free(void)
{
    for (int64_t heads = 1; heads <= 8; heads *= 2) {
        CHECK_EQ(parameters(16, heads, false), 4 * 16 * 16);
        CHECK_EQ(parameters(16, heads, true), heads * 4 * 16 * 16);
    }
}

/* (23) Self-attention word by word, in six steps (queries, keys, values; scores; divide by 8;
 * softmax; weigh the values; add up), is the matrix form. 512 to 64, as in the picture. */
static void six_steps(void)
{
    enum { WORDS = 3, IN = 512, OUT = 64 };
    stage s = stage_new(NULL);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 13, 2, WORDS, IN), *w[3], *p[3];
    for (int i = 0; i < 3; i++) {
        w[i] = fv_scale(ctx, tensor_random(ctx, 14 + (uint64_t)i, 2, OUT, IN), 0.06);
        p[i] = fv_linear(ctx, x, w[i], NULL);
    }
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    const int64_t shape[4] = {1, 1, WORDS, OUT};
    fv_attention_input in = {.q = fv_reshape(ctx, p[0], 4, shape),
                             .k = fv_reshape(ctx, p[1], 4, shape),
                             .v = fv_reshape(ctx, p[2], 4, shape)};
    fv_tensor *matrix =
        fv_reshape(ctx, fv_attention_run(ctx, &in, &how, NULL), 2, (int64_t[]){WORDS, OUT});
    for (int divisor = 8; divisor >= 1; divisor -= 7) { /* the twin forgets to divide */
        fv_tensor *rows[WORDS];
        for (int i = 0; i < WORDS; i++) {
            fv_tensor *score[WORDS], *sum = fv_zeros(ctx, FV_F32, 1, (int64_t[]){OUT});
            fv_tensor *q = fv_linear(ctx, fv_slice(ctx, x, 0, i, i + 1, 1), w[0], NULL);
            for (int j = 0; j < WORDS; j++) {
                fv_tensor *k = fv_linear(ctx, fv_slice(ctx, x, 0, j, j + 1, 1), w[1], NULL);
                score[j] =
                    fv_scale(ctx, fv_sum(ctx, fv_mul(ctx, q, k), 0, NULL, false), 1.0 / divisor);
            }
            fv_tensor *a = fv_softmax(ctx, fv_stack(ctx, WORDS, score, 0), 0);
            for (int j = 0; j < WORDS; j++) {
                fv_tensor *v = fv_linear(ctx, fv_slice(ctx, x, 0, j, j + 1, 1), w[2], NULL);
                fv_tensor *part = fv_mul(ctx, v, fv_slice(ctx, a, 0, j, j + 1, 1));
                sum = fv_add(ctx, sum, fv_squeeze(ctx, part, 0));
            }
            rows[i] = sum;
        }
        const double off = tensor_distance(ctx, matrix, fv_stack(ctx, WORDS, rows, 0));
        if (divisor == 8)
            HOLDS(off);
        else
            MUST_FAIL(off);
    }
    stage_free(&s);
}

/* ---- who mixes (97, 98, 102) ------------------------------------------------------------ */

/* How far outputs other than row 3 move when row 3 of the input does. */
static double mixing(fv_ctx *ctx, fv_tensor *(*layer)(fv_ctx *, void *, fv_tensor *), void *user)
{
    fv_tensor *x = tensor_random(ctx, 20, 3, 1, N, WIDTH), *y[2];
    for (int changed = 0; changed < 2; changed++) {
        const int64_t before[3] = {0, 3, 0}, after[3] = {0, N - 4, 0};
        fv_tensor *bump = fv_full(ctx, FV_F32, 3, (int64_t[]){1, 1, WIDTH}, changed);
        y[changed] = layer(ctx, user, fv_add(ctx, x, fv_pad(ctx, bump, before, after, 0)));
    }
    const double own =
        tensor_distance(ctx, fv_slice(ctx, y[0], 1, 3, 4, 1), fv_slice(ctx, y[1], 1, 3, 4, 1));
    CHECK(own > OTHER);
    return fmax(
        tensor_distance(ctx, fv_slice(ctx, y[0], 1, 0, 3, 1), fv_slice(ctx, y[1], 1, 0, 3, 1)),
        tensor_distance(ctx, fv_slice(ctx, y[0], 1, 4, N, 1), fv_slice(ctx, y[1], 1, 4, N, 1)));
}

static fv_tensor *norm_alone(fv_ctx *ctx, void *user, fv_tensor *x)
{
    return fv_norm_layer_run(ctx, &((fv_block *)user)->ff_norm, fv_mul(ctx, x, x));
}
static fv_tensor *feed_forward_alone(fv_ctx *ctx, void *user, fv_tensor *x)
{
    return fv_feed_forward_run(ctx, &((fv_block *)user)->ff, x, NULL, false);
}
static fv_tensor *attention_alone(fv_ctx *ctx, void *user, fv_tensor *x)
{
    return fv_mha_run(ctx, &((fv_block *)user)->self, &(fv_mha_input){.x = x}, NULL);
}

/* (97) In a block, only attention lets vectors see each other. To the bit. */
static void only_attention_mixes(void)
{
    stage s = stage_new(NULL);
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, WIDTH, HEADS);
    fv_block block;
    CHECK_OK(s.ctx, fv_block_create(s.params, "", &cfg, &block));
    CHECK(mixing(s.ctx, norm_alone, &block) == 0);
    CHECK(mixing(s.ctx, feed_forward_alone, &block) == 0);
    MUST_FAIL(mixing(s.ctx, attention_alone, &block));
    stage_free(&s);
}

/* Largest difference between position t computed among t + 1 inputs and among all. */
static double prefix_difference(fv_causal causal)
{
    fv_mha_config cfg = plain_heads();
    cfg.attention.rule.causal = causal;
    stage s = stage_new(&cfg);
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 21, 3, 1, N, WIDTH);
    fv_tensor *whole = fv_mha_run(ctx, &s.heads, &(fv_mha_input){.x = x}, NULL);
    double worst = 0;
    for (int t = 0; t < N; t++) {
        fv_mha_input in = {.x = fv_slice(ctx, x, 1, 0, t + 1, 1)};
        fv_tensor *prefix = fv_mha_run(ctx, &s.heads, &in, NULL);
        worst =
            test_worse(worst, tensor_distance(ctx, prefix, fv_slice(ctx, whole, 1, 0, t + 1, 1)));
    }
    stage_free(&s);
    return worst;
}

/* (98) Under a causal mask all steps of a known sequence can be computed at once, as in training,
 * and give what step-by-step decoding gives. Without the mask later words leak into earlier ones.
 * (How many steps depend on each other is counted in test_claims_cost.c.) */
static void encoding_is_parallel(void)
{
    HOLDS(prefix_difference(FV_CAUSAL_TOP_LEFT));
    MUST_FAIL(prefix_difference(FV_CAUSAL_NONE));
}

/* (102) With gamma = 0 a grid layer changes no bit, and yet gamma has a gradient. */
static void gamma_zero_is_the_plain_network(void)
{
    stage s = stage_new(NULL);
    fv_ctx *ctx = s.ctx;
    fv_nonlocal grid;
    CHECK_OK(ctx, fv_nonlocal_create(s.params, "g", 8, 0, 0, 0, &grid));
    fv_tensor *x = tensor_random(ctx, 22, 4, 2, 8, 3, 4);
    CHECK(tensor_same(ctx, x, fv_nonlocal_run(ctx, &grid, x, false, NULL)));
    fv_no_grad_end(ctx);
    fv_tensor *y = fv_nonlocal_run(ctx, &grid, x, false, NULL);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, y), 0, NULL, false)));
    double slope = 0, inner = NAN;
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_grad(ctx, grid.gamma), &slope));
    fv_tensor *g = fv_norm(ctx, fv_grad(ctx, grid.query), 0, NULL, false);
    CHECK_OK(ctx, fv_tensor_item(ctx, g, &inner));
    CHECK(fabs(slope) > OTHER && inner == 0);
    CHECK_OK(ctx, fv_tensor_write(ctx, grid.gamma, (float[]){0.3f}, sizeof(float)));
    MUST_FAIL(tensor_distance(ctx, x, fv_nonlocal_run(ctx, &grid, x, false, NULL)));
    stage_free(&s);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(self_attention_is_equivariant);
    RUN(a_query_ignores_the_order_of_pairs);
    RUN(mean_pooling_makes_it_invariant);
    RUN(who_gave_roses);
    RUN(basic_attention_peaks_on_its_diagonal);
    RUN(scores_grow_with_width);
    RUN(dot_and_cosine);
    RUN(narrow_heads_are_free);
    RUN(six_steps);
    RUN(only_attention_mixes);
    RUN(encoding_is_parallel);
    RUN(gamma_zero_is_the_plain_network);
    return TEST_END();
}

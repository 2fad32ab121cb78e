/*
 * fv_attention_run at its edges: NaN behind a mask and in visible keys, zero vectors, rows that see
 * nothing, any width, 16-bit numbers; the path it takes and says it took; what it refuses.
 */
#include "attention/attention.h"
#include "fovea/autograd.h"
#include "support/tensors.h"
#include "support/world.h"

/* Numbers that are not finite in a result or in a gradient. */
static int non_finite(world *w, fv_tensor *t)
{
    double *x = t ? world_read(w, t) : NULL;
    int bad = 0;
    for (int64_t e = 0; x && e < fv_tensor_count(t); e++)
        bad += !isfinite(x[e]);
    free(x);
    return bad;
}

/* A loss of all results, walked back; how many numbers on the way are not finite. */
static int run_and_count(world *w, const fv_attention *how, fv_attention_input *in)
{
    fv_ctx *ctx = w->ctx;
    fv_tensor *leaf[4] = {fv_leaf(ctx, in->q), fv_leaf(ctx, in->k), fv_leaf(ctx, in->v),
                          in->w ? fv_leaf(ctx, in->w) : NULL};
    fv_attention_result r;
    fv_attention_run(ctx, in, how, &r);
    fv_tensor *loss = fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false);
    loss = fv_add(ctx, loss, fv_sum(ctx, fv_square(ctx, r.weights), 0, NULL, false));
    fv_tensor *there = fv_gt(ctx, r.scores, fv_scalar(ctx, FV_F64, -INFINITY));
    fv_tensor *scores = fv_where(ctx, there, r.scores, fv_scalar(ctx, FV_F64, 0));
    loss = fv_retain(ctx, fv_add(ctx, loss, fv_sum(ctx, scores, 0, NULL, false)));
    CHECK_OK(ctx, fv_backward(ctx, loss));
    int bad = non_finite(w, loss);
    for (int l = 0; l < 4; l++)
        if (leaf[l]) bad += non_finite(w, fv_grad(ctx, leaf[l]));
    return bad;
}

static void hide_and_run(fv_attention_score score, fv_attention_normaliser normaliser,
                         double soft_cap, double poison)
{
    world *w = world_new();
    w->key_lengths[1] = NK - 2; /* the last two keys of the second sequence are padding */
    for (int g = 0; g < G; g++)
        for (int j = NK - 2; j < NK; j++)
            w->k[1][g][j][g] = w->v[1][g][j][0] = poison;
    fv_attention how = world_described(score);
    how.normaliser = normaliser;
    how.half_width = 1.5;
    how.rule.soft_cap = soft_cap;
    how.want_scores = how.want_weights = true;
    fv_attention_input in = world_input(w, score);
    if (score == FV_ATTENTION_ADDITIVE) in.w_k = NULL; /* a projection would mix them in */
    in.w_p = REALS(w, w_p, D, D);
    in.v_p = REALS(w, v_p, D);
    in.key_lengths = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->key_lengths);
    const int bad = run_and_count(w, &how, &in);
    if (bad)
        test_failed(__FILE__, __LINE__, "%s, normaliser %d, soft cap %g: %g shows %d times",
                    fv_attention_score_name(score), (int)normaliser, soft_cap, poison, bad);
    world_free(w);
}

/* NaN and infinity behind a mask: neither results nor gradients may notice. */
static void hidden_values_do_not_show(void)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    for (int s = 0; s < FV_ATTENTION_CUSTOM; s++)
        for (int n = 0; n < FV_ATTENTION_NORMALISER_COUNT; n++)
            for (int p = 0; p < 6; p++)
                hide_and_run((fv_attention_score)s, (fv_attention_normaliser)n, p < 3 ? 0 : 1.5,
                             poison[p % 3]);
}

/* A bias of -inf hides as a mask does, in the kernel and in the map of scores. */
static void bias_of_minus_infinity_hides(void)
{
    world *w = world_new();
    for (int b = 0; b < B; b++)
        for (int g = 0; g < G; g++)
            w->k[b][g][2][0] = w->v[b][g][2][0] = NAN;
    for (int i = 0; i < NQ; i++)
        w->bias[i][2] = -INFINITY;
    fv_attention how = world_described(FV_ATTENTION_SCALED);
    how.want_weights = how.want_scores = true;
    fv_attention_input in = world_basic(w);
    in.bias = REALS(w, bias, NQ, NK);
    CHECK(run_and_count(w, &how, &in) == 0);
    world_free(w);
}

static void visible_nan_shows(void)
{
    world *w = world_new();
    w->k[0][0][2][1] = NAN;
    fv_attention how = world_described(FV_ATTENTION_SCALED);
    how.want_weights = how.want_scores = true;
    fv_attention_input in = world_basic(w);
    fv_attention_result r;
    fv_attention_run(w->ctx, &in, &how, &r);
    double *context = world_read(w, r.context), *scores = world_read(w, r.scores);
    CHECK(isnan(context[0]) && isnan(scores[2]) && !isnan(scores[1]));
    CHECK(!isnan(context[(B * H * NQ - 1) * DV])); /* another sequence */
    free(context);
    free(scores);
    world_free(w);
}

/* A zero vector has no direction: its cosine with anything is 0, and no gradient comes of it. */
static void zero_vectors_have_no_direction(void)
{
    world *w = world_new();
    fv_ctx *ctx = w->ctx;
    memset(w->k, 0, sizeof w->k);
    memset(w->q[0][0][0], 0, sizeof w->q[0][0][0]);
    fv_attention how = world_described(FV_ATTENTION_COSINE);
    how.want_scores = true;
    fv_attention_input in = world_basic(w);
    fv_leaf(ctx, in.q);
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    double *s = world_read(w, r.scores);
    for (int n = 0; n < B * H * NQ * NK; n++)
        CHECK(s[n] == 0);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false)));
    double *g = world_read(w, fv_grad(ctx, in.q));
    for (int c = 0; c < D; c++)
        CHECK(g[c] == 0);
    free(s);
    free(g);
    world_free(w);
}

static void rows_without_keys(void)
{
    for (int normaliser = 0; normaliser < FV_ATTENTION_NORMALISER_COUNT; normaliser++) {
        world *w = world_new();
        fv_ctx *ctx = w->ctx;
        fv_attention how = world_described(FV_ATTENTION_SCALED);
        how.normaliser = (fv_attention_normaliser)normaliser;
        how.half_width = 100;
        how.rule.causal = FV_CAUSAL_TOP_LEFT;
        how.rule.q_offset = -2; /* queries 0 and 1 stand before every key */
        how.want_weights = true;
        fv_attention_input in = world_basic(w);
        in.centre = fv_scalar(ctx, FV_F64, 1.0);
        fv_leaf(ctx, in.q);
        fv_attention_result r;
        fv_attention_run(ctx, &in, &how, &r);
        double *c = world_read(w, r.context), *a = world_read(w, r.weights);
        for (int e = 0; e < 2 * DV; e++)
            CHECK(c[e] == 0);
        for (int e = 0; e < 2 * NK; e++)
            CHECK(a[e] == 0);
        CHECK(c[2 * DV] != 0);
        if (r.lse) {
            double *lse = world_read(w, r.lse);
            CHECK(lse[0] == -INFINITY && isfinite(lse[2]));
            free(lse);
        }
        fv_tensor *loss = fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false);
        loss = fv_add(ctx, loss, fv_sum(ctx, r.weights, 0, NULL, false));
        if (r.entropy) loss = fv_add(ctx, loss, fv_sum(ctx, r.entropy, 0, NULL, false));
        if (r.log_prob) loss = fv_add(ctx, loss, fv_sum(ctx, r.log_prob, 0, NULL, false));
        CHECK_OK(ctx, fv_backward(ctx, loss));
        double *g = world_read(w, fv_grad(ctx, in.q));
        for (int e = 0; e < 2 * D; e++)
            CHECK(g[e] == 0);
        free(c);
        free(a);
        free(g);
        world_free(w);
    }
}

/* No keys at all, with nothing to carry a gradient: an empty map and zeros. */
static void no_keys_at_all(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *none = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 2, 0, 3});
    fv_attention how = world_described(FV_ATTENTION_SCALED);
    how.want_weights = true;
    fv_attention_input in = {.q = tensor_random(ctx, 1, 4, 1, 2, 2, 3), .k = none, .v = none};
    fv_attention_result r;
    fv_attention_run(ctx, &in, &how, &r);
    CHECK_VALUES(ctx, r.context, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CHECK_EQ(fv_tensor_count(r.weights), 0);
    CHECK_EQ(fv_tensor_size(r.weights, 2), 2);
    CHECK_OK(ctx, fv_ctx_error(ctx));
    fv_ctx_destroy(&ctx);
}

/* ---- the path ---------------------------------------------------------------------- */

typedef struct notes {
    int lines;
    char last[256];
} notes;

static void note(void *user, fv_log_level level, const char *text)
{
    notes *n = user;
    if (level != FV_LOG_DEBUG) return;
    n->lines++;
    snprintf(n->last, sizeof n->last, "%s", text);
}

static void the_path_is_reported(void)
{
    static const fv_attention_path expected[FV_ATTENTION_SCORE_COUNT] = {
        [FV_ATTENTION_LOCATION] = FV_ATTENTION_SCORED, [FV_ATTENTION_CUSTOM] = FV_ATTENTION_SCORED};
    world *w = world_new();
    notes logged = {.lines = 0};
    w->ctx->log = note;
    w->ctx->log_user = &logged;
    w->ctx->log_level = FV_LOG_DEBUG;
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s++) {
        fv_attention how = world_described((fv_attention_score)s);
        fv_attention_input in = world_input(w, how.score);
        fv_attention_result r;
        logged.lines = 0;
        fv_attention_run(w->ctx, &in, &how, &r);
        CHECK_EQ(r.path, expected[s]);
        CHECK_EQ(logged.lines, 1);
        CHECK(strstr(logged.last, fv_attention_score_name((fv_attention_score)s)) != NULL);
        CHECK(strstr(logged.last, fv_attention_path_name(expected[s])) != NULL);
        how.normaliser = FV_ATTENTION_HARD_ARGMAX;
        fv_attention_run(w->ctx, &in, &how, &r);
        CHECK_EQ(r.path, FV_ATTENTION_MAP);
        CHECK(strstr(logged.last, "hard argmax") && strstr(logged.last, ": map"));
    }
    world_free(w);
}

/* Vectors and values wider than the kernel takes; with dropout, all parts drop the same keys. */
static void any_width(void)
{
    enum { WIDE = 600, WIDER = 1100 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    const int64_t ones[4] = {1, 2, 5, WIDER};
    fv_attention_input in = {.q = tensor_random(ctx, 1, 4, 1, 2, 3, WIDE),
                             .k = tensor_random(ctx, 2, 4, 1, 2, 5, WIDE),
                             .v = tensor_random(ctx, 3, 4, 1, 2, 5, WIDER),
                             .w = fv_scale(ctx, tensor_random(ctx, 4, 1, WIDE), 0.1)};
    for (int s = FV_ATTENTION_SCALED; s <= FV_ATTENTION_ADDITIVE; s += FV_ATTENTION_ADDITIVE) {
        fv_attention how = world_described((fv_attention_score)s);
        how.want_weights = true;
        fv_attention_result r;
        fv_attention_run(ctx, &in, &how, &r);
        CHECK(tensor_distance(ctx, r.context, fv_matmul(ctx, r.weights, in.v)) < 1e-5);
        how.want_weights = false;
        how.rule.dropout = 0.5;
        fv_attention_input counting = in;
        counting.v = fv_full(ctx, FV_F32, 4, ones, 1.0);
        fv_attention_run(ctx, &counting, &how, &r);
        CHECK_EQ(r.path, FV_ATTENTION_SCORED);
        fv_tensor *first = fv_slice(ctx, r.context, 3, 0, 1, 1);
        CHECK(tensor_distance(ctx, r.context,
                              fv_broadcast(ctx, first, 4, (int64_t[]){1, 2, 3, WIDER})) == 0);
        CHECK(tensor_distance(ctx, first, fv_full(ctx, FV_F32, 4, (int64_t[]){1, 2, 3, 1}, 1.0)) >
              0.1);
    }
    fv_ctx_destroy(&ctx);
}

/* 16-bit numbers go where nothing but the kernel reads them; elsewhere bf16 is cast to f32, and f16
 * refused. */
static void half_precision(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *x = tensor_random(ctx, 1, 4, 1, 2, 5, 8), *half = fv_cast(ctx, x, FV_BF16);
    fv_attention how = world_described(FV_ATTENTION_SCALED);
    how.rule.causal = FV_CAUSAL_TOP_LEFT;
    fv_attention_input in = {.q = half, .k = half, .v = half};
    fv_tensor *y = fv_attention_run(ctx, &in, &how, NULL);
    CHECK_EQ(fv_tensor_dtype(y), FV_BF16);
    in.q = in.k = in.v = x;
    fv_tensor *exact = fv_attention_run(ctx, &in, &how, NULL);
    CHECK(tensor_distance(ctx, fv_cast(ctx, y, FV_F32), exact) < 0.05);
    how.want_weights = true;
    fv_attention_result with, without;
    fv_tensor *rounded = fv_cast(ctx, half, FV_F32);
    in.q = in.k = in.v = rounded;
    fv_attention_run(ctx, &in, &how, &without);
    in.q = in.k = in.v = half;
    fv_attention_run(ctx, &in, &how, &with);
    CHECK(tensor_same(ctx, with.context, without.context));
    CHECK(tensor_same(ctx, with.weights, without.weights));
    in.q = in.k = in.v = fv_cast(ctx, x, FV_F16);
    CHECK(!fv_tensor_valid(fv_attention_run(ctx, &in, &how, NULL)));
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "only dot products");
    static const fv_attention_normaliser others[] = {FV_ATTENTION_LOCAL_P, FV_ATTENTION_HARD_SAMPLE,
                                                     FV_ATTENTION_HARD_ARGMAX};
    for (int i = 0; i < 3; i++) {
        how.want_weights = false;
        how.normaliser = others[i];
        how.half_width = 2;
        in.centre = fv_zeros(ctx, FV_F32, 3, (int64_t[]){1, 2, 5});
        CHECK(!fv_tensor_valid(fv_attention_run(ctx, &in, &how, NULL)));
        CHECK_ERROR(ctx, FV_ERR_DTYPE, "only dot products");
    }
    fv_ctx_destroy(&ctx);
}

static void refusals(void)
{
    world *w = world_new();
    fv_ctx *ctx = w->ctx;
    fv_attention_input in = world_basic(w);
    fv_attention how = world_described(FV_ATTENTION_SCALED);
#define REFUSE(change, status, text)                                                               \
    do {                                                                                           \
        how = world_described(FV_ATTENTION_SCALED);                                                \
        in = world_basic(w);                                                                       \
        change;                                                                                    \
        CHECK(!fv_tensor_valid(fv_attention_run(ctx, &in, &how, NULL)));                           \
        CHECK_ERROR(ctx, status, text);                                                            \
    } while (0)
    REFUSE(how.temperature = 0, FV_ERR_ARGUMENT, "temperature");
    REFUSE(how.temperature = NAN, FV_ERR_ARGUMENT, "temperature");
    REFUSE(how.rule.scale = INFINITY, FV_ERR_ARGUMENT, "scale");
    REFUSE(how.score = FV_ATTENTION_SCORE_COUNT, FV_ERR_ARGUMENT, "does not exist");
    REFUSE(how.score = FV_ATTENTION_GENERAL, FV_ERR_ARGUMENT, "the matrix of the general");
    REFUSE(how.score = FV_ATTENTION_ADDITIVE, FV_ERR_ARGUMENT, "the vector of the additive");
    REFUSE(how.score = FV_ATTENTION_LOCATION, FV_ERR_ARGUMENT, "location");
    REFUSE(how.score = FV_ATTENTION_CUSTOM; how.score_fn = NULL, FV_ERR_ARGUMENT, "score_fn");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_M, FV_ERR_ARGUMENT, "half_width");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_P; how.half_width = 2, FV_ERR_ARGUMENT, "w_p");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_P; how.half_width = 2;
           in.w_p = REALS(w, w_p, D, D), FV_ERR_ARGUMENT, "w_p and v_p");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_P; how.half_width = 2;
           in.v_p = REALS(w, v_p, D), FV_ERR_ARGUMENT, "w_p and v_p");
    fv_tensor *blocks = fv_full(ctx, FV_U8, 2, (int64_t[]){NQ, NK}, 1);
    REFUSE(in.blocks = blocks; how.rule.block_q = 1, FV_ERR_ARGUMENT, "block_q and block_k");
    REFUSE(in.blocks = blocks; how.rule.block_k = 1, FV_ERR_ARGUMENT, "block_q and block_k");
    REFUSE(in.blocks = blocks; how.rule.block_q = how.rule.block_k = 1, FV_ERR_ARGUMENT,
                               "out of range"); /* given, but too small for the kernel */
    REFUSE(how.normaliser = FV_ATTENTION_HARD_SAMPLE;
           how.rule.dropout = 0.1, FV_ERR_ARGUMENT, "dropout");
    REFUSE(how.struct_size = 3, FV_ERR_ARGUMENT, "initialised");
    REFUSE(in.q = NULL, FV_ERR_ARGUMENT, "q and v");
    REFUSE(in.k = NULL, FV_ERR_ARGUMENT, "needs k");
    REFUSE(in.q = fv_squeeze(ctx, fv_slice(ctx, in.q, 0, 0, 1, 1), 0), FV_ERR_SHAPE, "ranks 3");
    REFUSE(in.k = fv_slice(ctx, in.k, 2, 0, 2, 1), FV_ERR_SHAPE, "differ in batch, heads or keys");
    REFUSE(in.q = fv_slice(ctx, in.q, 1, 0, 3, 1), FV_ERR_SHAPE, "heads do not divide");
    REFUSE(in.temperature = REALS(w, bias, NQ, NK), FV_ERR_SHAPE, "temperature");
    REFUSE(how.score = FV_ATTENTION_LOCATION;
           in.w = fv_slice(ctx, REALS(w, location, H, N_MAX, D), 1, 0, 3, 1), FV_ERR_SHAPE,
           "6 keys");
    REFUSE(how.score = FV_ATTENTION_GENERAL; in.w = REALS(w, v_p, D), FV_ERR_SHAPE, "rank 1");
#undef REFUSE
    world_free(w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(hidden_values_do_not_show);
    RUN(bias_of_minus_infinity_hides);
    RUN(visible_nan_shows);
    RUN(zero_vectors_have_no_direction);
    RUN(rows_without_keys);
    RUN(no_keys_at_all);
    RUN(the_path_is_reported);
    RUN(any_width);
    RUN(half_precision);
    RUN(refusals);
    return TEST_END();
}

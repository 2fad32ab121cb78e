/*
 * fv_attention_run against its definition, written down a second time as plain loops over doubles:
 * every score, every rule of sight, every normaliser. Then the edges (rows that see nothing, NaN
 * behind a mask, zero vectors), the path it takes and says it took, and what it refuses.
 * Gradients, threads and devices are in test_compounds.c.
 */
#include "fovea/attend.h"
#include "fovea/autograd.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { B = 2, H = 4, G = 2, NQ = 5, NK = 6, D = 3, DV = 2, N_MAX = 9 };

/* The problem's numbers; f64 throughout. */
typedef struct world {
    fv_ctx *ctx;
    double q[B][H][NQ][D], k[B][G][NK][D], v[B][G][NK][DV];
    double general[H][D][D], location[H][N_MAX][D], additive[H][D], w_q[D][D], w_k[D][D];
    double beta[H], heat[H], bias[NQ][NK], slopes[H], w_p[D][D], v_p[D];
    uint8_t visible[B][1][NQ][NK];
    int64_t n_keys[B];
} world;

static world *world_new(void)
{
    world *w = calloc(1, sizeof *w);
    w->ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    double *all = &w->q[0][0][0][0];
    const size_t n = (offsetof(world, visible) - offsetof(world, q)) / sizeof(double);
    fv_tensor *random = fv_rand_normal(w->ctx, FV_F64, 1, (int64_t[]){(int64_t)n}, 0, 1);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, random, all, n * sizeof(double)));
    for (int h = 0; h < H; h++) {
        w->heat[h] = 0.5 + fabs(w->heat[h]);
        w->slopes[h] = -fabs(w->slopes[h]);
    }
    for (int i = 0; i < B * NQ * NK; i++)
        (&w->visible[0][0][0][0])[i] = (uint8_t)(i * 7 % 5 != 0);
    w->n_keys[0] = NK;
    w->n_keys[1] = 4;
    return w;
}

static void world_free(world *w)
{
    CHECK_OK(w->ctx, fv_ctx_error(w->ctx));
    fv_ctx_destroy(&w->ctx);
    free(w);
}

static fv_tensor *reals(world *w, const void *data, int rank, const int64_t *shape)
{
    return fv_from_host(w->ctx, FV_F64, rank, shape, data);
}
#define REALS(w, field, ...)                                                                       \
    reals(w, &(w)->field, FV_RANK_OF(__VA_ARGS__), (int64_t[]){__VA_ARGS__})

static fv_attention_input basic_input(world *w)
{
    return (fv_attention_input){.q = REALS(w, q, B, H, NQ, D),
                                .k = REALS(w, k, B, G, NK, D),
                                .v = REALS(w, v, B, G, NK, DV)};
}

static fv_attention described(fv_attention_score score)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    return how;
}

static fv_attention_input input_for(world *w, fv_attention_score score)
{
    fv_attention_input in = basic_input(w);
    switch (score) {
    case FV_ATTENTION_GENERAL:
        in.w = REALS(w, general, H, D, D);
        break;
    case FV_ATTENTION_ADDITIVE:
        in.w = REALS(w, additive, H, D);
        in.w_q = REALS(w, w_q, D, D);
        in.w_k = REALS(w, w_k, D, D);
        break;
    case FV_ATTENTION_COSINE:
        in.beta = REALS(w, beta, H, 1, 1);
        break;
    case FV_ATTENTION_LOCATION:
        in.w = REALS(w, location, H, N_MAX, D);
        break;
    default:
        break;
    }
    return in;
}

/* ---- the definition once more ------------------------------------------------------- */

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int c = 0; c < D; c++)
        sum += x[c] * y[c];
    return sum;
}

static int marker;

static fv_tensor *manhattan(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k)
{
    CHECK(user == &marker);
    k = fv_concat(ctx, 2, (fv_tensor *[]){k, k}, 2); /* [b, g, 2 nk, d]: heads 2g and 2g + 1 */
    k = fv_reshape(ctx, k, 4, (int64_t[]){B, H, NK, D});
    fv_tensor *d = fv_sub(ctx, fv_unsqueeze(ctx, q, -2), fv_unsqueeze(ctx, k, -3));
    return fv_neg(ctx, fv_sum(ctx, fv_abs(ctx, d), 1, (int[]){-1}, false));
}

static double raw_score(const world *w, fv_attention_score score, int b, int h, int i, int j)
{
    const double *q = w->q[b][h][i], *k = w->k[b][h / (H / G)][j];
    double sum = 0;
    switch (score) {
    case FV_ATTENTION_SCALED:
        return dot(q, k) / sqrt(D);
    case FV_ATTENTION_DOT:
        return dot(q, k);
    case FV_ATTENTION_GENERAL:
        for (int c = 0; c < D; c++)
            sum += q[c] * dot(w->general[h][c], k);
        return sum;
    case FV_ATTENTION_ADDITIVE:
        for (int c = 0; c < D; c++)
            sum += w->additive[h][c] * tanh(dot(w->w_q[c], q) + dot(w->w_k[c], k));
        return sum;
    case FV_ATTENTION_COSINE:
        return w->beta[h] * dot(q, k) / sqrt(dot(q, q) * dot(k, k));
    case FV_ATTENTION_LOCATION:
        return dot(w->location[h][j], q);
    default:
        for (int c = 0; c < D; c++)
            sum -= fabs(q[c] - k[c]);
        return sum;
    }
}

static bool seen(const world *w, const fv_attention *how, const fv_attention_input *in, int b,
                 int i, int j)
{
    const int64_t position =
        i + how->q_offset + (how->causal == FV_CAUSAL_BOTTOM_RIGHT ? NK - NQ : 0);
    if (in->n_keys && j >= w->n_keys[b]) return false;
    if (in->visible && !w->visible[b][0][i][j]) return false;
    if (j < how->prefix) return true;
    if (how->causal != FV_CAUSAL_NONE && j > position) return false;
    if (how->left >= 0 && j < position - how->left) return false;
    return how->right < 0 || j <= position + how->right;
}

typedef struct row {
    double score[NK], weight[NK], context[DV], lse;
} row;

static row expected_row(const world *w, const fv_attention *how, const fv_attention_input *in,
                        int b, int h, int i)
{
    row r = {.lse = -INFINITY};
    const int64_t position =
        i + how->q_offset + (how->causal == FV_CAUSAL_BOTTOM_RIGHT ? NK - NQ : 0);
    double sum = 0;
    for (int j = 0; j < NK; j++) {
        double s = raw_score(w, how->score, b, h, i, j) * how->strength / how->temperature;
        if (in->temperature) s /= w->heat[h];
        if (how->soft_cap > 0) s = how->soft_cap * tanh(s / how->soft_cap);
        if (in->slopes) s += w->slopes[h] * (double)(j - position);
        if (in->bias) s += w->bias[i][j];
        r.score[j] = seen(w, how, in, b, i, j) ? s : -INFINITY;
        sum += exp(r.score[j]);
    }
    if (sum > 0) r.lse = log(sum);
    for (int j = 0; j < NK; j++) {
        r.weight[j] = sum > 0 ? exp(r.score[j]) / sum : 0;
        for (int c = 0; c < DV; c++)
            r.context[c] += r.weight[j] * w->v[b][h / (H / G)][j][c];
    }
    return r;
}

static double *read_reals(world *w, fv_tensor *t)
{
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof(double);
    double *x = calloc(1, bytes + 8);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, t, x, bytes));
    return x;
}

static bool near(double a, double b) { return a == b || fabs(a - b) <= 1e-12 * (1 + fabs(b)); }

/* Runs with and without maps and compares everything with the loops. */
static void check_soft(world *w, fv_attention how, const fv_attention_input *in, const char *what)
{
    fv_attention_result r, plain;
    fv_attention_run(w->ctx, &how, in, &plain);
    how.want_scores = how.want_weights = true;
    fv_attention_run(w->ctx, &how, in, &r);
    CHECK_OK(w->ctx, fv_ctx_error(w->ctx));
    CHECK(plain.scores == NULL && plain.weights == NULL && plain.path != FV_ATTENTION_MAP);
    CHECK_EQ(r.path, FV_ATTENTION_MAP);
    CHECK(tensor_same(w->ctx, plain.context, r.context)); /* maps change no bit of it */
    double *scores = read_reals(w, r.scores), *weights = read_reals(w, r.weights);
    double *context = read_reals(w, r.context), *lse = read_reals(w, r.lse);
    int wrong = 0;
    for (int n = 0; n < B * H * NQ; n++) {
        const row e = expected_row(w, &how, in, n / (H * NQ), n / NQ % H, n % NQ);
        for (int j = 0; j < NK; j++)
            wrong +=
                !near(scores[n * NK + j], e.score[j]) || !near(weights[n * NK + j], e.weight[j]);
        for (int c = 0; c < DV; c++)
            wrong += !near(context[n * DV + c], e.context[c]);
        wrong += !near(lse[n], e.lse);
    }
    if (wrong) test_failed(__FILE__, __LINE__, "%s: %d numbers differ", what, wrong);
    free(scores);
    free(weights);
    free(context);
    free(lse);
}

static const char *const score_names[FV_ATTENTION_SCORE_COUNT] = {
    "scaled", "dot", "general", "additive", "cosine", "location", "caller's"};

static void every_score(void)
{
    world *w = world_new();
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s++) {
        fv_attention how = described((fv_attention_score)s);
        how.score_fn = manhattan;
        how.score_user = &marker;
        fv_attention_input in = input_for(w, how.score);
        check_soft(w, how, &in, score_names[s]);
        how.temperature = 0.3;
        how.soft_cap = 1.25;
        how.strength = s == FV_ATTENTION_COSINE ? 1.5 : 1;
        in.temperature = REALS(w, heat, H);
        check_soft(w, how, &in, "with temperatures and cap");
    }
    world_free(w);
}

static void every_mask(void)
{
    world *w = world_new();
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s += FV_ATTENTION_LOCATION) /* streamed, scored */
        for (int rules = 0; rules < 8; rules++) {
            fv_attention how = described((fv_attention_score)s);
            fv_attention_input in = input_for(w, how.score);
            how.causal = (fv_causal)(rules % 3);
            how.q_offset = rules == 7 ? -2 : 0;
            if (rules & 1) {
                how.left = 1;
                how.right = 2;
            }
            if (rules & 2) {
                in.slopes = REALS(w, slopes, H);
                in.bias = REALS(w, bias, NQ, NK);
                how.prefix = 1;
            }
            if (rules & 4) {
                in.n_keys = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->n_keys);
                in.visible = fv_from_host(w->ctx, FV_U8, 4, (int64_t[]){B, 1, NQ, NK}, w->visible);
            }
            check_soft(w, how, &in, "masked");
        }
    world_free(w);
}

/* ---- local ------------------------------------------------------------------------ */

static void local_m_is_a_window(void)
{
    world *w = world_new();
    fv_attention local = described(FV_ATTENTION_SCALED), window = local;
    fv_attention_input in = basic_input(w);
    local.normaliser = FV_ATTENTION_LOCAL_M;
    local.half_width = 1.9;
    window.left = window.right = 1;
    fv_attention_result r;
    fv_tensor *a = fv_attention_run(w->ctx, &local, &in, &r);
    CHECK(tensor_same(w->ctx, a, fv_attention_run(w->ctx, &window, &in, NULL)));
    CHECK_EQ(r.path, FV_ATTENTION_STREAMED);
    check_soft(w, window, &in, "window");
    world_free(w);
}

/* The Gaussian comes after the softmax and is not normalised again. */
static void check_local_p(world *w, const fv_attention_input *in, const fv_attention_result *r,
                          double reach)
{
    double *context = read_reals(w, r->context), *weights = read_reals(w, r->weights);
    double *centre = read_reals(w, r->centre);
    int wrong = 0, outside = 0;
    for (int n = 0; n < B * H * NQ; n++) {
        const int b = n / (H * NQ), h = n / NQ % H, i = n % NQ;
        double t = 0, sum = 0, a[NK], c[DV] = {0};
        for (int m = 0; m < D; m++)
            t += w->v_p[m] * tanh(dot(w->w_p[m], w->q[b][h][i]));
        const double p = (double)(in->n_keys ? w->n_keys[b] : NK) / (1 + exp(-t));
        wrong += !near(centre[n], p);
        for (int j = 0; j < NK; j++) {
            const bool in_window = fabs(j - p) <= reach && (!in->n_keys || j < w->n_keys[b]);
            a[j] = in_window ? exp(raw_score(w, FV_ATTENTION_DOT, b, h, i, j)) : 0;
            sum += a[j];
            outside += !in_window;
        }
        for (int j = 0; j < NK; j++) {
            a[j] = sum > 0 ? a[j] / sum * exp(-2 * (j - p) * (j - p) / (reach * reach)) : 0;
            wrong += !near(weights[n * NK + j], a[j]);
            for (int d = 0; d < DV; d++)
                c[d] += a[j] * w->v[b][h / (H / G)][j][d];
        }
        for (int d = 0; d < DV; d++)
            wrong += !near(context[n * DV + d], c[d]);
    }
    CHECK_EQ(wrong, 0);
    CHECK(outside > B * H * NQ); /* the window cuts something off */
    free(context);
    free(weights);
    free(centre);
}

static void local_p(void)
{
    world *w = world_new();
    fv_attention how = described(FV_ATTENTION_DOT);
    how.normaliser = FV_ATTENTION_LOCAL_P;
    how.want_weights = true;
    fv_attention_input in = basic_input(w);
    in.w_p = REALS(w, w_p, D, D);
    in.v_p = REALS(w, v_p, D);
    for (int lengths = 0; lengths < 2; lengths++) {
        how.half_width = lengths ? 0.4 : 1.5; /* with the small one, some rows see no key at all */
        if (lengths) in.n_keys = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->n_keys);
        fv_attention_result r;
        fv_attention_run(w->ctx, &how, &in, &r);
        check_local_p(w, &in, &r, how.half_width);
    }
    world_free(w);
}

/* ---- edges ------------------------------------------------------------------------ */

/* Numbers that are not finite in a result or in a gradient. */
static int non_finite(world *w, fv_tensor *t)
{
    double *x = t ? read_reals(w, t) : NULL;
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
    fv_tensor *leaf[3] = {fv_leaf(ctx, in->q), fv_leaf(ctx, in->k), fv_leaf(ctx, in->v)};
    fv_attention_result r;
    fv_attention_run(ctx, how, in, &r);
    fv_tensor *loss = fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false);
    loss = fv_add(ctx, loss, fv_sum(ctx, fv_square(ctx, r.weights), 0, NULL, false));
    fv_tensor *there = fv_gt(ctx, r.scores, fv_scalar(ctx, FV_F64, -INFINITY));
    fv_tensor *scores = fv_where(ctx, there, r.scores, fv_scalar(ctx, FV_F64, 0));
    loss = fv_retain(ctx, fv_add(ctx, loss, fv_sum(ctx, scores, 0, NULL, false)));
    CHECK_OK(ctx, fv_backward(ctx, loss));
    int bad = non_finite(w, loss);
    for (int l = 0; l < 3; l++)
        bad += non_finite(w, fv_grad(ctx, leaf[l]));
    return bad;
}

static void hide_and_run(fv_attention_score score, fv_attention_normaliser normaliser,
                         double poison)
{
    world *w = world_new();
    w->n_keys[1] = NK - 2; /* the last two keys of the second sequence are padding */
    for (int g = 0; g < G; g++)
        for (int j = NK - 2; j < NK; j++)
            w->k[1][g][j][g] = w->v[1][g][j][0] = poison;
    fv_attention how = described(score);
    how.normaliser = normaliser;
    how.half_width = 1.5;
    how.want_scores = how.want_weights = true;
    fv_attention_input in = input_for(w, score);
    if (score == FV_ATTENTION_ADDITIVE) in.w_k = NULL; /* a projection would mix them in */
    in.w_p = REALS(w, w_p, D, D);
    in.v_p = REALS(w, v_p, D);
    in.n_keys = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->n_keys);
    const int bad = run_and_count(w, &how, &in);
    if (bad)
        test_failed(__FILE__, __LINE__, "%s, normaliser %d: %g shows %d times", score_names[score],
                    (int)normaliser, poison, bad);
    world_free(w);
}

/* NaN and infinity behind a mask: neither results nor gradients may notice. */
static void hidden_values_do_not_show(void)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    for (int s = 0; s < FV_ATTENTION_CALLER; s++)
        for (int n = 0; n < FV_ATTENTION_NORMALISER_COUNT; n++)
            for (int p = 0; p < 3; p++)
                hide_and_run((fv_attention_score)s, (fv_attention_normaliser)n, poison[p]);
}

static void visible_nan_shows(void)
{
    world *w = world_new();
    w->k[0][0][2][1] = NAN;
    fv_attention how = described(FV_ATTENTION_SCALED);
    how.want_weights = how.want_scores = true;
    fv_attention_input in = basic_input(w);
    fv_attention_result r;
    fv_attention_run(w->ctx, &how, &in, &r);
    double *context = read_reals(w, r.context), *scores = read_reals(w, r.scores);
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
    fv_attention how = described(FV_ATTENTION_COSINE);
    how.want_scores = true;
    fv_attention_input in = basic_input(w);
    fv_leaf(ctx, in.q);
    fv_attention_result r;
    fv_attention_run(ctx, &how, &in, &r);
    double *s = read_reals(w, r.scores);
    for (int n = 0; n < B * H * NQ * NK; n++)
        CHECK(s[n] == 0);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false)));
    double *g = read_reals(w, fv_grad(ctx, in.q));
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
        fv_attention how = described(FV_ATTENTION_SCALED);
        how.normaliser = (fv_attention_normaliser)normaliser;
        how.half_width = 100;
        how.causal = FV_CAUSAL_TOP_LEFT;
        how.q_offset = -2; /* queries 0 and 1 stand before every key */
        how.want_weights = true;
        fv_attention_input in = basic_input(w);
        in.centre = fv_scalar(ctx, FV_F64, 1.0);
        fv_leaf(ctx, in.q);
        fv_attention_result r;
        fv_attention_run(ctx, &how, &in, &r);
        double *c = read_reals(w, r.context), *a = read_reals(w, r.weights);
        for (int e = 0; e < 2 * DV; e++)
            CHECK(c[e] == 0);
        for (int e = 0; e < 2 * NK; e++)
            CHECK(a[e] == 0);
        CHECK(c[2 * DV] != 0);
        if (r.lse) {
            double *lse = read_reals(w, r.lse);
            CHECK(lse[0] == -INFINITY && isfinite(lse[2]));
            free(lse);
        }
        fv_tensor *loss = fv_sum(ctx, fv_square(ctx, r.context), 0, NULL, false);
        loss = fv_add(ctx, loss, fv_sum(ctx, r.weights, 0, NULL, false));
        if (r.entropy) loss = fv_add(ctx, loss, fv_sum(ctx, r.entropy, 0, NULL, false));
        if (r.log_prob) loss = fv_add(ctx, loss, fv_sum(ctx, r.log_prob, 0, NULL, false));
        CHECK_OK(ctx, fv_backward(ctx, loss));
        double *g = read_reals(w, fv_grad(ctx, in.q));
        for (int e = 0; e < 2 * D; e++)
            CHECK(g[e] == 0);
        free(c);
        free(a);
        free(g);
        world_free(w);
    }
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

static void the_path_is_told(void)
{
    static const fv_attention_path expected[FV_ATTENTION_SCORE_COUNT] = {
        [FV_ATTENTION_LOCATION] = FV_ATTENTION_SCORED, [FV_ATTENTION_CALLER] = FV_ATTENTION_SCORED};
    world *w = world_new();
    notes heard = {.lines = 0};
    w->ctx->log = note;
    w->ctx->log_user = &heard;
    w->ctx->log_level = FV_LOG_DEBUG;
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s++) {
        fv_attention how = described((fv_attention_score)s);
        how.score_fn = manhattan;
        how.score_user = &marker;
        fv_attention_input in = input_for(w, how.score);
        fv_attention_result r;
        heard.lines = 0;
        fv_attention_run(w->ctx, &how, &in, &r);
        CHECK_EQ(r.path, expected[s]);
        CHECK_EQ(heard.lines, 1);
        CHECK(strstr(heard.last, score_names[s]) != NULL);
        CHECK(strstr(heard.last, fv_attention_path_name(expected[s])) != NULL);
        how.normaliser = FV_ATTENTION_HARD_ARGMAX;
        fv_attention_run(w->ctx, &how, &in, &r);
        CHECK_EQ(r.path, FV_ATTENTION_MAP);
        CHECK(strstr(heard.last, "hard argmax") && strstr(heard.last, ": map"));
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
                             .w = tensor_random(ctx, 4, 1, WIDE)};
    for (int s = FV_ATTENTION_SCALED; s <= FV_ATTENTION_ADDITIVE; s += FV_ATTENTION_ADDITIVE) {
        fv_attention how = described((fv_attention_score)s);
        how.want_weights = true;
        fv_attention_result r;
        fv_attention_run(ctx, &how, &in, &r);
        CHECK(tensor_distance(ctx, r.context, fv_matmul(ctx, r.weights, in.v)) < 1e-5);
        how.want_weights = false;
        how.dropout = 0.5;
        fv_attention_input counting = in;
        counting.v = fv_full(ctx, FV_F32, 4, ones, 1.0);
        fv_attention_run(ctx, &how, &counting, &r);
        CHECK_EQ(r.path, FV_ATTENTION_SCORED);
        fv_tensor *first = fv_slice(ctx, r.context, 3, 0, 1, 1);
        CHECK(tensor_distance(ctx, r.context,
                              fv_broadcast(ctx, first, 4, (int64_t[]){1, 2, 3, WIDER})) == 0);
        CHECK(tensor_distance(ctx, first, fv_full(ctx, FV_F32, 4, (int64_t[]){1, 2, 3, 1}, 1.0)) >
              0.1);
    }
    fv_ctx_destroy(&ctx);
}

/* 16-bit numbers go where nothing but the kernel reads them. */
static void half_precision(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *x = tensor_random(ctx, 1, 4, 1, 2, 5, 8), *half = fv_cast(ctx, x, FV_BF16);
    fv_attention how = described(FV_ATTENTION_SCALED);
    how.causal = FV_CAUSAL_TOP_LEFT;
    fv_attention_input in = {.q = half, .k = half, .v = half};
    fv_tensor *y = fv_attention_run(ctx, &how, &in, NULL);
    CHECK_EQ(fv_tensor_dtype(y), FV_BF16);
    in.q = in.k = in.v = x;
    fv_tensor *exact = fv_attention_run(ctx, &how, &in, NULL);
    CHECK(tensor_distance(ctx, fv_cast(ctx, y, FV_F32), exact) < 0.05);
    in.q = in.k = in.v = half;
    how.want_weights = true;
    CHECK(!fv_tensor_valid(fv_attention_run(ctx, &how, &in, NULL)));
    CHECK_ERROR(ctx, FV_ERR_DTYPE, "16 bits");
    fv_ctx_destroy(&ctx);
}

static void refusals(void)
{
    world *w = world_new();
    fv_ctx *ctx = w->ctx;
    fv_attention_input in = basic_input(w);
    fv_attention how = described(FV_ATTENTION_SCALED);
#define REFUSE(change, status, text)                                                               \
    do {                                                                                           \
        how = described(FV_ATTENTION_SCALED);                                                      \
        in = basic_input(w);                                                                       \
        change;                                                                                    \
        CHECK(!fv_tensor_valid(fv_attention_run(ctx, &how, &in, NULL)));                           \
        CHECK_ERROR(ctx, status, text);                                                            \
    } while (0)
    REFUSE(how.temperature = 0, FV_ERR_ARGUMENT, "temperature");
    REFUSE(how.temperature = NAN, FV_ERR_ARGUMENT, "temperature");
    REFUSE(how.strength = 0, FV_ERR_ARGUMENT, "strength");
    REFUSE(how.score = FV_ATTENTION_SCORE_COUNT, FV_ERR_ARGUMENT, "no score");
    REFUSE(how.score = FV_ATTENTION_GENERAL, FV_ERR_ARGUMENT, "general");
    REFUSE(how.score = FV_ATTENTION_ADDITIVE, FV_ERR_ARGUMENT, "additive");
    REFUSE(how.score = FV_ATTENTION_LOCATION, FV_ERR_ARGUMENT, "location");
    REFUSE(how.score = FV_ATTENTION_CALLER, FV_ERR_ARGUMENT, "score_fn");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_M, FV_ERR_ARGUMENT, "half_width");
    REFUSE(how.normaliser = FV_ATTENTION_LOCAL_P; how.half_width = 2, FV_ERR_ARGUMENT, "w_p");
    REFUSE(how.normaliser = FV_ATTENTION_HARD_SAMPLE;
           how.dropout = 0.1, FV_ERR_ARGUMENT, "dropout");
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

int main(int argc, char **argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_score);
    RUN(every_mask);
    RUN(local_m_is_a_window);
    RUN(local_p);
    RUN(hidden_values_do_not_show);
    RUN(visible_nan_shows);
    RUN(zero_vectors_have_no_direction);
    RUN(rows_without_keys);
    RUN(the_path_is_told);
    RUN(any_width);
    RUN(half_precision);
    RUN(refusals);
    return TEST_END();
}

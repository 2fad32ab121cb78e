/*
 * fv_attention_run against its definition, written down a second time as plain loops over doubles:
 * every score, every mask, every normaliser. Edges are in test_attend_edges.c; gradients,
 * threads and devices in test_compounds.c.
 */
#include "support/tensors.h"
#include "support/world.h"

/* ---- the definition once more ------------------------------------------------------- */

static double scale_of(const fv_attention *how)
{
    if (how->rule.scale != 0) return how->rule.scale;
    return how->score == FV_ATTENTION_SCALED ? 1 / sqrt(D) : 1;
}

static bool seen(const world *w, const fv_attention *how, const fv_attention_input *in, int b,
                 int i, int j)
{
    const int64_t position =
        i + how->rule.q_offset + (how->rule.causal == FV_CAUSAL_BOTTOM_RIGHT ? NK - NQ : 0);
    if (in->key_lengths && j >= w->key_lengths[b]) return false;
    if (in->visible && !w->visible[b][0][i][j]) return false;
    if (j < how->rule.prefix) return true;
    if (how->rule.causal != FV_CAUSAL_NONE && j > position) return false;
    if (how->rule.left >= 0 && j < position - how->rule.left) return false;
    return how->rule.right < 0 || j <= position + how->rule.right;
}

typedef struct row {
    double score[NK], weight[NK], context[DV], lse;
} row;

static row expected_row(const world *w, const fv_attention *how, const fv_attention_input *in,
                        int b, int h, int i)
{
    row r = {.lse = -INFINITY};
    const int64_t position =
        i + how->rule.q_offset + (how->rule.causal == FV_CAUSAL_BOTTOM_RIGHT ? NK - NQ : 0);
    double sum = 0;
    for (int j = 0; j < NK; j++) {
        double s = world_score(w, how->score, b, h, i, j) * scale_of(how) / how->temperature;
        if (in->temperature) s /= w->heat[h];
        if (how->rule.soft_cap > 0) s = how->rule.soft_cap * tanh(s / how->rule.soft_cap);
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

static bool near(double a, double b) { return a == b || fabs(a - b) <= 1e-12 * (1 + fabs(b)); }

/* Weights beside the kernel, where nothing can carry a gradient: on its path, the same numbers. */
static void check_beside(world *w, fv_attention how, const fv_attention_input *in,
                         const fv_attention_result *plain, const double *expected)
{
    how.want_scores = false;
    how.want_weights = true;
    fv_attention_result r;
    fv_attention_run(w->ctx, in, &how, &r);
    CHECK_EQ(r.path, plain->path);
    CHECK(tensor_same(w->ctx, plain->context, r.context));
    double *weights = world_read(w, r.weights);
    for (int n = 0; n < B * H * NQ * NK; n++)
        CHECK(near(weights[n], expected[n]) && (weights[n] == 0) == (expected[n] == 0));
    free(weights);
}

/* Runs with and without maps and compares everything with the loops. */
static void check_soft(world *w, fv_attention how, const fv_attention_input *in, const char *what)
{
    fv_attention_result r, plain;
    fv_attention_run(w->ctx, in, &how, &plain);
    how.want_scores = how.want_weights = true;
    fv_attention_run(w->ctx, in, &how, &r);
    CHECK_OK(w->ctx, fv_ctx_error(w->ctx));
    CHECK(plain.scores == NULL && plain.weights == NULL && plain.path != FV_ATTENTION_MAP);
    CHECK_EQ(r.path, FV_ATTENTION_MAP);
    CHECK(tensor_same(w->ctx, plain.context, r.context)); /* maps change no bit of it */
    double *scores = world_read(w, r.scores), *weights = world_read(w, r.weights);
    double *context = world_read(w, r.context), *lse = world_read(w, r.lse);
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
    check_beside(w, how, in, &plain, weights);
    free(scores);
    free(weights);
    free(context);
    free(lse);
}

static void every_score(void)
{
    world *w = world_new();
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s++) {
        fv_attention how = world_described((fv_attention_score)s);
        fv_attention_input in = world_input(w, how.score);
        check_soft(w, how, &in, fv_attention_score_name(how.score));
        how.temperature = 0.3;
        how.rule.soft_cap = 1.25;
        how.rule.scale = 1.5;
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
            fv_attention how = world_described((fv_attention_score)s);
            fv_attention_input in = world_input(w, how.score);
            how.rule.causal = (fv_causal)(rules % 3);
            how.rule.q_offset = rules == 7 ? -2 : 0;
            if (rules & 1) {
                how.rule.left = 1;
                how.rule.right = 2;
            }
            if (rules & 2) {
                in.slopes = REALS(w, slopes, H);
                in.bias = REALS(w, bias, NQ, NK);
                how.rule.prefix = 1;
            }
            if (rules & 4) {
                in.key_lengths = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->key_lengths);
                in.visible = fv_from_host(w->ctx, FV_U8, 4, (int64_t[]){B, 1, NQ, NK}, w->visible);
            }
            check_soft(w, how, &in, "masked");
        }
    world_free(w);
}

/* Blocks of 3 queries and 16 keys are a pattern of their cells: streamed, scored and as maps. */
static void blocks_are_a_pattern(void)
{
    enum { N_Q = 7, N_K = 40, BLOCKS_Q = 3, BLOCKS_K = 3 };
    static const uint8_t list[2][BLOCKS_Q][BLOCKS_K] = {{{1, 0, 1}, {0, 0, 0}, {0, 1, 1}},
                                                        {{0, 1, 0}, {1, 1, 1}, {1, 0, 0}}};
    uint8_t cells[2 * N_Q * N_K];
    for (int i = 0; i < 2 * N_Q * N_K; i++)
        cells[i] = list[i / (N_Q * N_K)][i / N_K % N_Q / 3][i % N_K / 16];
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *pattern = fv_from_host(ctx, FV_U8, 3, (int64_t[]){2, N_Q, N_K}, cells);
    for (int s = FV_ATTENTION_SCALED; s <= FV_ATTENTION_LOCATION; s += FV_ATTENTION_LOCATION) {
        fv_attention how = world_described((fv_attention_score)s);
        fv_attention_input in = {.q = tensor_random(ctx, 1, 4, 2, 2, N_Q, 4),
                                 .k = tensor_random(ctx, 2, 4, 2, 2, N_K, 4),
                                 .v = tensor_random(ctx, 3, 4, 2, 2, N_K, 4),
                                 .w = tensor_random(ctx, 4, 2, N_K, 4)};
        how.want_weights = true;
        fv_attention_result by_cells, by_blocks;
        in.visible = pattern;
        fv_attention_run(ctx, &in, &how, &by_cells);
        in.visible = NULL;
        in.blocks = fv_from_host(ctx, FV_U8, 3, (int64_t[]){2, BLOCKS_Q, BLOCKS_K}, list);
        how.rule.block_q = 3;
        how.rule.block_k = 16;
        fv_attention_run(ctx, &in, &how, &by_blocks);
        CHECK(tensor_distance(ctx, by_cells.context, by_blocks.context) < 1e-6);
        CHECK(tensor_distance(ctx, by_cells.weights, by_blocks.weights) < 1e-6);
        how.want_scores = true; /* the map path: cells and blocks make the same numbers */
        fv_attention_run(ctx, &in, &how, &by_blocks);
        in.blocks = NULL;
        in.visible = pattern;
        how.rule.block_q = how.rule.block_k = 0;
        fv_attention_run(ctx, &in, &how, &by_cells);
        CHECK(tensor_same(ctx, by_cells.weights, by_blocks.weights));
        in.visible = NULL;
        in.blocks = fv_from_host(ctx, FV_U8, 3, (int64_t[]){2, BLOCKS_Q, BLOCKS_K}, list);
        how.rule.block_q = 3;
        how.rule.block_k = 16;
        in.blocks = fv_slice(ctx, in.blocks, 1, 0, 1, 1); /* one row of blocks for all queries */
        fv_attention_run(ctx, &in, &how, &by_blocks);
        CHECK(tensor_distance(ctx, by_cells.context, by_blocks.context) > 1e-3);
        CHECK(tensor_distance(ctx, by_blocks.context, fv_matmul(ctx, by_blocks.weights, in.v)) <
              1e-5);
        how.rule.block_q = 0;
        CHECK(!fv_tensor_valid(fv_attention_run(ctx, &in, &how, NULL)));
        CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "block_q");
    }
    fv_ctx_destroy(&ctx);
}

/* ---- local ------------------------------------------------------------------------ */

static void local_m_is_a_window(void)
{
    world *w = world_new();
    fv_attention local = world_described(FV_ATTENTION_SCALED), window = local;
    fv_attention_input in = world_basic(w);
    local.normaliser = FV_ATTENTION_LOCAL_M;
    local.half_width = 1.9;
    window.rule.left = window.rule.right = 1;
    fv_attention_result r;
    fv_tensor *a = fv_attention_run(w->ctx, &in, &local, &r);
    CHECK(tensor_same(w->ctx, a, fv_attention_run(w->ctx, &in, &window, NULL)));
    CHECK_EQ(r.path, FV_ATTENTION_STREAMED);
    check_soft(w, window, &in, "window");
    world_free(w);
}

/* The Gaussian comes after the softmax and is not normalised again. */
static void check_local_p(world *w, const fv_attention_input *in, const fv_attention_result *r,
                          double reach)
{
    double *context = world_read(w, r->context), *weights = world_read(w, r->weights);
    double *centre = world_read(w, r->centre);
    int wrong = 0, outside = 0;
    for (int n = 0; n < B * H * NQ; n++) {
        const int b = n / (H * NQ), h = n / NQ % H, i = n % NQ;
        double t = 0, sum = 0, a[NK], c[DV] = {0};
        for (int m = 0; m < D; m++)
            t += w->v_p[m] * tanh(world_dot(w->w_p[m], w->q[b][h][i]));
        const double p = (double)(in->key_lengths ? w->key_lengths[b] : NK) / (1 + exp(-t));
        wrong += !near(centre[n], p);
        for (int j = 0; j < NK; j++) {
            const bool in_window = fabs(j - p) <= reach &&
                                   (!in->key_lengths || j < w->key_lengths[b]) &&
                                   (!in->visible || w->visible[b][0][i][j]);
            a[j] = in_window ? exp(world_score(w, FV_ATTENTION_DOT, b, h, i, j)) : 0;
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
    fv_attention how = world_described(FV_ATTENTION_DOT);
    how.normaliser = FV_ATTENTION_LOCAL_P;
    how.want_weights = true;
    fv_attention_input in = world_basic(w);
    in.w_p = REALS(w, w_p, D, D);
    in.v_p = REALS(w, v_p, D);
    fv_tensor *lengths = fv_from_host(w->ctx, FV_I64, 1, (int64_t[]){B}, w->key_lengths);
    fv_tensor *pattern = fv_from_host(w->ctx, FV_U8, 4, (int64_t[]){B, 1, NQ, NK}, w->visible);
    for (int mask = 0; mask < 4; mask++) {
        how.half_width = mask & 1 ? 0.4 : 1.5; /* with the small one, some rows see no key at all */
        in.key_lengths = mask & 1 ? lengths : NULL;
        in.visible = mask & 2 ? pattern : NULL;
        fv_attention_result r;
        fv_attention_run(w->ctx, &in, &how, &r);
        check_local_p(w, &in, &r, how.half_width);
    }
    world_free(w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_score);
    RUN(every_mask);
    RUN(blocks_are_a_pattern);
    RUN(local_m_is_a_window);
    RUN(local_p);
    return TEST_END();
}

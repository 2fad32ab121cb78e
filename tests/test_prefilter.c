/*
 * The argmax of a product with a candidate pre-filter: always that of the product itself, ties
 * included, and greedy search with it.
 */
#include "kernels/prefilter.h"

#include <float.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "models/parts/decoder_rnn.h"
#include "models/parts/encoder_rnn.h"
#include "models/seq2seq.h"
#include "ops/product.h"
#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *ctx;

static bool has_prefilter(void)
{
    return ctx->device->ops->supports(ctx->device, FV_KERNEL_PREFILTER_ARGMAX, FV_F32);
}

/* Compares with the plain argmax; returns how many rows had too many candidates. */
static int64_t compare(int64_t m, int64_t n, int64_t k, const float *x, const float *w,
                       const float *bias)
{
    fv_scope_begin(ctx);
    fv_tensor *tx = fv_from_host(ctx, FV_F32, 2, (int64_t[]){m, k}, x);
    fv_tensor *tw = fv_from_host(ctx, FV_F32, 2, (int64_t[]){n, k}, w);
    fv_tensor *tb = bias ? fv_from_host(ctx, FV_F32, 1, &n, bias) : NULL;
    fv_tensor *prefilter = fv_linear_prefilter(ctx, tw, tb);
    CHECK(prefilter != NULL);
    int64_t *found = tensor_indices(ctx, fv_linear_argmax(ctx, tx, tw, tb, prefilter));
    int64_t *right = tensor_indices(ctx, fv_argmax(ctx, fv_linear(ctx, tx, tw, tb), -1, false));
    int64_t open = 0, wrong = 0;
    for (int64_t i = 0; i < m; i++) {
        open += found[i] == -1;
        wrong += found[i] != -1 && found[i] != right[i];
    }
    CHECK_EQ(wrong, 0);
    free(found);
    free(right);
    fv_scope_end(ctx);
    return open;
}

/* The bound of an output is its norm, rounded up, whatever the size of the weights. */
static void bounds_follow_the_weights(void)
{
    enum { N = 70, K = 5 };
    float w[N * K];
    for (int i = 0; i < N * K; i++)
        w[i] = ldexpf((float)(i % 7 - 3), i / K % 40 - 20);
    fv_tensor *prefilter =
        fv_linear_prefilter(ctx, fv_from_host(ctx, FV_F32, 2, (int64_t[]){N, K}, w), NULL);
    CHECK(prefilter != NULL);
    if (!prefilter) return;
    const fv_prefilter view = fv_prefilter_view_of_bytes(fv_tensor_data(prefilter), N, K);
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int c = 0; c < K; c++)
            sum += (double)w[i * K + c] * (double)w[i * K + c];
        CHECK((double)view.norm[i] >= sqrt(sum) && (double)view.norm[i] <= 1.001 * sqrt(sum));
    }
}

/* Numbers in [-1, 1) of a small generator, cubed where they shall differ much in size. */
static float draw(uint32_t *state, bool uneven)
{
    *state = *state * 1664525u + 1013904223u;
    const float u = (float)(*state >> 8) * 0x1p-23f - 1.0f;
    return uneven ? u * u * u : u;
}

static void sizes_of_all_kinds(void)
{
    enum { MOST = 130 * 260 + 1500 * 260 };
    static const int64_t rows[] = {1, 5, 6, 7, 24, 25, 130}, cols[] = {1, 15, 64, 65, 1500},
                         depth[] = {1, 3, 4, 5, 64, 257};
    float *x = malloc(MOST * sizeof *x), *w = malloc(MOST * sizeof *w), bias[1500];
    uint32_t state = 1;
    int64_t open = 0, all = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 5; j++)
            for (int l = 0; l < 6; l++) {
                const int64_t m = rows[i], n = cols[j], k = depth[l];
                for (int64_t e = 0; e < m * k; e++)
                    x[e] = draw(&state, i % 2);
                for (int64_t e = 0; e < n * k; e++)
                    w[e] = draw(&state, j % 2) * 0.3f;
                for (int64_t e = 0; e < n; e++)
                    bias[e] = draw(&state, false) * 0.1f;
                open += compare(m, n, k, x, w, (i + j + l) % 3 ? bias : NULL);
                all += m;
            }
    CHECK(open * 20 < all); /* of use: few are left to the long way (k = 1 leaves most) */
    free(x);
    free(w);
}

/* Columns that differ in the last bit, or not at all: the first largest wins. */
static void near_and_equal_columns(void)
{
    enum { M = 9, N = 200, K = 33 };
    static float x[M * K], w[N * K], bias[N];
    uint32_t state = 7;
    for (int e = 0; e < M * K; e++)
        x[e] = draw(&state, false);
    for (int e = 0; e < N * K; e++)
        w[e] = draw(&state, false);
    for (int j = 0; j < N; j++)
        bias[j] = 0;
    for (int row = 0; row < M; row++)
        for (int twin = 0; twin < 8; twin++) /* along the row, so that these are its largest */
            for (int c = 0; c < K; c++)
                w[(20 * row + 3 + twin) * K + c] = x[row * K + c];
    for (int row = 0; row < M; row++) {
        w[(20 * row + 6) * K] = nextafterf(w[(20 * row + 6) * K], 9);
        bias[20 * row + 8] = 0x1p-22f;
    }
    CHECK_EQ(compare(M, N, K, x, w, bias), 0);
    for (int j = 1; j < N; j++)
        memcpy(w + j * K, w, K * sizeof *w);
    CHECK_EQ(compare(M, N, K, x, w, NULL), M); /* all alike: nothing can be ruled out */
}

static void numbers_that_are_none(void)
{
    enum { M = 6, N = 90, K = 20 };
    static float x[M * K], w[N * K], bias[N];
    uint32_t state = 3;
    for (int kind = 0; kind < 7; kind++) {
        for (int e = 0; e < M * K; e++)
            x[e] = draw(&state, false);
        for (int e = 0; e < N * K; e++)
            w[e] = draw(&state, false);
        for (int j = 0; j < N; j++)
            bias[j] = draw(&state, false);
        if (kind == 0) x[2 * K + 5] = NAN;
        if (kind == 1) x[3 * K] = INFINITY;
        if (kind == 2) w[17 * K + 1] = NAN;
        if (kind == 3) w[80 * K + 2] = -INFINITY;
        if (kind == 4) bias[4] = NAN;
        if (kind == 5) bias[5] = -INFINITY, bias[6] = INFINITY;
        if (kind == 6) memset(x, 0, sizeof x);
        CHECK(compare(M, N, K, x, w, bias) <= (kind < 2 ? 1 : 0));
    }
    for (int e = 0; e < M * K; e++)
        x[e] *= 1e30f;
    for (int e = 0; e < N * K; e++)
        w[e] *= FLT_MAX / 2;
    compare(M, N, K, x, w, bias);
}

/* No bound is a number, every product is -inf: what fills up the panel of columns must not win. */
static void fewer_columns_than_a_panel(void)
{
    enum { N = 10, K = 8 };
    float x[K] = {INFINITY}, w[N * K];
    for (int e = 0; e < N * K; e++)
        w[e] = -1;
    (void)compare(1, N, K, x, w, NULL);
    x[0] = NAN;
    (void)compare(1, N, K, x, w, NULL);
}

/* ---- in a search ---------------------------------------------------------------------- */

enum { SOURCES = 40, TOKENS = 300, LONGEST = 9 };

static int64_t source[SOURCES][LONGEST];

/* The tokens of all outputs, one after the other, with their counts; the sum of log_probs. */
static int64_t *search(fv_seq2seq *model, bool no_scores, double *log_probs)
{
    const int64_t *sources[SOURCES];
    int64_t lengths[SOURCES], most[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        sources[i] = source[i];
        lengths[i] = 1 + i % LONGEST;
        most[i] = 12;
    }
    const fv_batch batch = fv_batch_of_pairs(
        &(fv_sequences){.count = SOURCES, .tokens = sources, .length = lengths}, NULL);
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.no_scores = no_scores;
    fv_stepper stepper;
    fv_outputs *outputs = NULL;
    CHECK_OK(ctx, fv_seq2seq_stepper(model, &batch, &stepper));
    CHECK_OK(ctx, fv_search(ctx, &stepper, SOURCES, most, &how, &outputs));
    int64_t *all = calloc(SOURCES * 13, sizeof *all);
    *log_probs = 0;
    for (int i = 0; i < SOURCES && outputs; i++) {
        const fv_output *o = fv_outputs_get(outputs, i, 0);
        all[i * 13] = o->count;
        memcpy(all + i * 13 + 1, o->tokens, (size_t)o->count * sizeof *all);
        *log_probs += o->log_prob;
    }
    fv_outputs_free(&outputs);
    return all;
}

/* The tables of the parts. */
static const fv_tensor *gates_of(const fv_seq2seq *model)
{
    return ((const fv_rnn_decoder *)model->decoder)->gates;
}

static const fv_tensor *prefilter_of(const fv_seq2seq *model)
{
    return ((const fv_rnn_decoder *)model->decoder)->prefilter;
}

static const fv_tensor *source_gates_of(const fv_seq2seq *model)
{
    return ((const fv_rnn_encoder *)model->encoder)->gate_tables[0];
}

/* A decoder without cells has no gates to look up. */
static bool has_cells(const fv_seq2seq *model)
{
    return model->cfg.decoder != FV_DECODER_ATTENTION;
}

static void same_tokens(fv_seq2seq *model)
{
    double with, without;
    int64_t *right = search(model, false, &with);
    for (int time = 0; time < 4; time++) { /* before and after things are kept ready */
        int64_t *found = search(model, true, &without);
        CHECK(memcmp(found, right, SOURCES * 13 * sizeof *found) == 0);
        free(found);
    }
    CHECK(isfinite(with) && isnan(without));
    CHECK((gates_of(model) != NULL) == has_cells(model) && source_gates_of(model));
    CHECK((prefilter_of(model) != NULL) == (has_prefilter() && has_cells(model)));
    int64_t *again = search(model, false, &without); /* from looked-up gates: the same bits */
    CHECK(memcmp(again, right, SOURCES * 13 * sizeof *again) == 0 && with == without);
    free(again);
    free(right);
}

/* Where products are rounded, nothing that was kept is right. */
static void same_tokens_when_rounded(fv_seq2seq *model)
{
    double with, without;
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_BF16));
    int64_t *right = search(model, false, &with), *found = search(model, true, &without);
    CHECK(memcmp(found, right, SOURCES * 13 * sizeof *found) == 0);
    CHECK(!gates_of(model) && !source_gates_of(model) && !prefilter_of(model));
    free(found);
    free(right);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_F32));
}

static void greedy_search_finds_the_same(void)
{
    for (int decoder = FV_DECODER_FIXED; fv_decoder_part_at(decoder); decoder++) {
        fv_params *params = NULL;
        fv_seq2seq *model = NULL;
        fv_seq2seq_config cfg;
        fv_seq2seq_config_init(&cfg, sizeof cfg);
        cfg.source_tokens = cfg.target_tokens = TOKENS;
        cfg.embedding = cfg.encoder_hidden = cfg.attention_width = cfg.readout_width = 24;
        cfg.hidden = 40;
        cfg.decoder = (fv_decoder_kind)decoder;
        uint32_t state = 5;
        for (int i = 0; i < SOURCES; i++)
            for (int t = 0; t < LONGEST; t++)
                source[i][t] = (int64_t)((draw(&state, false) + 1) * 0.5f * TOKENS);
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        CHECK_OK(ctx, fv_seq2seq_create(params, &cfg, &model));
        same_tokens(model);
        /* Other weights: what was kept is made anew. */
        fv_optim *optim = NULL;
        fv_optim_config sgd;
        fv_optim_config_init(&sgd, sizeof sgd, FV_OPTIM_SGD);
        CHECK_OK(ctx, fv_optim_create(params, &sgd, &optim));
        fv_scope_begin(ctx);
        fv_tensor *loss =
            fv_sum(ctx, fv_square(ctx, fv_params_find(params, "output.weight")), 0, NULL, false);
        loss =
            fv_add(ctx, loss,
                   fv_sum(ctx, fv_params_find(params, "decoder.embedding.weight"), 0, NULL, false));
        CHECK_OK(ctx, fv_backward(ctx, loss));
        CHECK_OK(ctx, fv_optim_step(optim, 0.3, NULL));
        fv_scope_end(ctx);
        fv_optim_destroy(&optim);
        same_tokens(model);
        same_tokens_when_rounded(model);
        fv_seq2seq_destroy(&model);
        fv_params_destroy(&params);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    if (has_prefilter()) {
        RUN(bounds_follow_the_weights);
        RUN(sizes_of_all_kinds);
        RUN(near_and_equal_columns);
        RUN(numbers_that_are_none);
        RUN(fewer_columns_than_a_panel);
    } else {
        printf("skipped: this CPU does not multiply bytes (AVX512_VNNI)\n");
    }
    RUN(greedy_search_finds_the_same);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}

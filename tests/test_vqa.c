/*
 * Model kind vqa: every form's attention and logits against a plain computation from the
 * parameters.
 */
#include <math.h>

#include "support/tensors.h"
#include "support/vqa.h"

/* ---- a plain computation -------------------------------------------------------------------- */

typedef struct plain {
    fv_ctx *ctx;
    fv_params *params;
    double cells[ROWS][CELLS][WIDTH], q[ROWS][WIDTH], words[ROWS][MOST_WORDS][WORD];
} plain;

static const float *param(const plain *p, const char *name, int64_t count)
{
    static float values[8][4096];
    static int next;
    float *out = values[next++ % 8];
    const fv_tensor *t = fv_params_find(p->params, name);
    CHECK(t && fv_tensor_count(t) == count);
    if (!t || fv_tensor_count(t) != count) return out;
    CHECK_OK(p->ctx, fv_tensor_read(p->ctx, t, out, (size_t)count * sizeof *out));
    return out;
}

/* y = W x + b with the parameters "name.weight" and, unless it is absent, "name.bias". */
static void dense(const plain *p, const char *name, const double *x, int in, double *y, int out)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    const float *w = param(p, full, (int64_t)in * out);
    snprintf(full, sizeof full, "%s.bias", name);
    const float *b = fv_params_find(p->params, full) ? param(p, full, out) : NULL;
    for (int i = 0; i < out; i++) {
        y[i] = b ? (double)b[i] : 0;
        for (int k = 0; k < in; k++)
            y[i] += (double)w[i * in + k] * x[k];
    }
}

static void rectify(double *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = fmax(0, x[i]);
}

static void softmax(double *x, int n)
{
    double most = x[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = fmax(most, x[i]);
    for (int i = 0; i < n; i++)
        sum += x[i] = exp(x[i] - most);
    for (int i = 0; i < n; i++)
        x[i] /= sum;
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* PyTorch's LSTM: gates i, f, g, o. */
static void read_question(plain *p, int row)
{
    double h[WIDTH] = {0}, c[WIDTH] = {0};
    for (int64_t t = 0; t < vqa_lengths[row]; t++) {
        const float *table =
            param(p, "question.words.weight",
                  fv_tensor_count(fv_params_find(p->params, "question.words.weight")));
        double gate[4 * WIDTH];
        for (int k = 0; k < WORD; k++)
            p->words[row][t][k] = (double)table[vqa_tokens[row][t] * WORD + k];
        const float *wi = param(p, "question.rnn.weight_ih_l0", 4 * WIDTH * WORD),
                    *wh = param(p, "question.rnn.weight_hh_l0", 4 * WIDTH * WIDTH),
                    *bi = param(p, "question.rnn.bias_ih_l0", 4 * WIDTH),
                    *bh = param(p, "question.rnn.bias_hh_l0", 4 * WIDTH);
        for (int i = 0; i < 4 * WIDTH; i++) {
            gate[i] = (double)bi[i] + (double)bh[i];
            for (int k = 0; k < WORD; k++)
                gate[i] += (double)wi[i * WORD + k] * p->words[row][t][k];
            for (int k = 0; k < WIDTH; k++)
                gate[i] += (double)wh[i * WIDTH + k] * h[k];
        }
        for (int k = 0; k < WIDTH; k++) {
            c[k] = logistic(gate[WIDTH + k]) * c[k] + logistic(gate[k]) * tanh(gate[2 * WIDTH + k]);
            h[k] = logistic(gate[3 * WIDTH + k]) * tanh(c[k]);
        }
    }
    memcpy(p->q[row], h, sizeof h);
}

/* The cells themselves are the model's own: convolutions have their own tests. */
static void begin_plain(plain *p, fv_ctx *ctx, fv_model *model, const fv_batch *batch)
{
    *p = (plain){.ctx = ctx, .params = fv_model_params(model)};
    fv_tensor *cells = fv_vqa_grid_run(ctx, fv_model_self(model), batch, false);
    CHECK_EQ(fv_tensor_count(cells), ROWS * CELLS * WIDTH);
    float *values = tensor_floats(ctx, cells);
    for (int i = 0; i < ROWS * CELLS * WIDTH; i++)
        p->cells[i / (CELLS * WIDTH)][i / WIDTH % CELLS][i % WIDTH] = (double)values[i];
    free(values);
    for (int row = 0; row < ROWS; row++)
        read_question(p, row);
}

static void read_cells(const plain *p, int row, const double *weights, double out[WIDTH])
{
    for (int k = 0; k < WIDTH; k++) {
        out[k] = 0;
        for (int i = 0; i < CELLS; i++)
            out[k] += weights[i] * p->cells[row][i][k];
    }
}

/* C_2 relu(C_1 [q ; features]) */
static void classify(const plain *p, int row, const double *features, int n, double out[ANSWERS])
{
    double all[WIDTH + CELLS * WIDTH], h[HIDDEN];
    memcpy(all, p->q[row], sizeof p->q[row]);
    memcpy(all + WIDTH, features, (size_t)n * sizeof *features);
    dense(p, "hidden", all, WIDTH + n, h, HIDDEN);
    rectify(h, HIDDEN);
    dense(p, "classes", h, HIDDEN, out, ANSWERS);
}

/* ---- what the model captures ---------------------------------------------------------------- */

typedef struct captured {
    int count;
    struct {
        char name[48];
        int64_t heads, queries, keys;
        float *weights;
    } site[8];
} captured;

static fv_status keep(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    captured *c = user;
    CHECK(c->count < 8);
    snprintf(c->site[c->count].name, 48, "%s", site->name);
    c->site[c->count].heads = site->captured.heads;
    c->site[c->count].queries = site->captured.n_q;
    c->site[c->count].keys = site->captured.n_k;
    c->site[c->count++].weights = tensor_floats(ctx, site->captured.weights);
    return FV_OK;
}

static captured capture(fv_ctx *ctx, fv_model *model, const fv_batch *batch)
{
    captured c = {0};
    const fv_capture how = {.options = {.weights = true}, .on_weights = keep, .user = &c};
    fv_site sites[8];
    CHECK_OK(ctx, fv_model_capture_attention(model, batch, &(fv_pass){.capture = &how}));
    const fv_model_kind *kind = fv_model_kind_of(model);
    CHECK_EQ(kind->attention_sites(fv_model_self(model), sites, 8), c.count);
    CHECK_EQ(kind->attention_sites(fv_model_self(model), NULL, 0), c.count);
    run_check_sites(model, c.count);
    for (int i = 0; i < c.count; i++) {
        CHECK_STR(sites[i].name, c.site[i].name);
        CHECK(sites[i].rows == GRID && sites[i].cols == GRID && sites[i].heads == c.site[i].heads);
        CHECK(sites[i].keys == FV_AXIS_CELLS && sites[i].before + CELLS == c.site[i].keys);
    }
    return c;
}

static void free_captured(captured *c)
{
    for (int i = 0; i < c->count; i++)
        free(c->site[i].weights);
}

static void compare(const float *found, const double *expected, int n, int line)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)found[i] - expected[i]) < 2e-5))
            test_failed(__FILE__, line, "entry %d is %g, expected %g", i, (double)found[i],
                        expected[i]);
}

static void compare_logits(fv_ctx *ctx, fv_model *model, const fv_batch *batch,
                           double expected[ROWS][ANSWERS])
{
    float *logits = tensor_floats(ctx, fv_model_classify(model, batch, NULL));
    for (int row = 0; row < ROWS; row++)
        compare(logits + (ptrdiff_t)row * ANSWERS, expected[row], ANSWERS, __LINE__);
    free(logits);
}

/* ---- the forms ------------------------------------------------------------------------------ */

static void words_guide_the_first_hop(void)
{
    const run_setting *const all[] = {vqa_one_hop, vqa_words};
    for (int hops = 1; hops <= 2; hops++) {
        static plain p;
        double logits[ROWS][ANSWERS];
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model = vqa_model(ctx, all[hops - 1]);
        const fv_batch batch = vqa_batch(vqa_shared);
        begin_plain(&p, ctx, model, &batch);
        captured c = capture(ctx, model, &batch);
        CHECK_EQ(c.count, 1 + hops);
        CHECK_STR(c.site[0].name, "hop.0.words");
        CHECK_STR(c.site[1].name, "hop.0");
        CHECK_EQ(c.site[0].queries, MOST_WORDS);
        CHECK_EQ(c.site[1].queries, 1);
        for (int row = 0; row < ROWS; row++) {
            double e[CELLS], by_word[MOST_WORDS][CELLS] = {{0}}, o[2 * WIDTH], next[2 * WIDTH];
            for (int t = 0; t < vqa_lengths[row]; t++) {
                double s[WIDTH];
                dense(&p, "hop.0.words", p.words[row][t], WORD, s, WIDTH);
                for (int i = 0; i < CELLS; i++) {
                    double dot = 0;
                    for (int k = 0; k < WIDTH; k++)
                        dot += p.cells[row][i][k] * s[k];
                    by_word[t][i] = dot;
                    e[i] = t == 0 ? dot : fmax(e[i], dot);
                }
                softmax(by_word[t], CELLS);
            }
            softmax(e, CELLS);
            compare(c.site[0].weights + (ptrdiff_t)row * MOST_WORDS * CELLS, by_word[0],
                    MOST_WORDS * CELLS, __LINE__); /* 0 past the end */
            compare(c.site[1].weights + (ptrdiff_t)row * CELLS, e, CELLS, __LINE__);
            read_cells(&p, row, e, o);
            if (hops == 2) {
                double input[2 * WIDTH], query[WIDTH];
                memcpy(input, p.q[row], sizeof p.q[row]);
                memcpy(input + WIDTH, o, WIDTH * sizeof *o);
                dense(&p, "hop.1.next", input, 2 * WIDTH, next, WIDTH);
                rectify(next, WIDTH);
                dense(&p, "hop.1.query", next, WIDTH, query, WIDTH);
                for (int i = 0; i < CELLS; i++) {
                    e[i] = 0;
                    for (int k = 0; k < WIDTH; k++)
                        e[i] += p.cells[row][i][k] * query[k];
                }
                softmax(e, CELLS);
                compare(c.site[2].weights + (ptrdiff_t)row * CELLS, e, CELLS, __LINE__);
                read_cells(&p, row, e, o + WIDTH);
            }
            classify(&p, row, o, hops * WIDTH, logits[row]);
        }
        compare_logits(ctx, model, &batch, logits);
        free_captured(&c);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

static void two_maps_are_concatenated(void)
{
    static plain p;
    double logits[ROWS][ANSWERS];
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = vqa_model(ctx, vqa_maps);
    const fv_batch batch = vqa_batch(vqa_shared);
    begin_plain(&p, ctx, model, &batch);
    captured c = capture(ctx, model, &batch);
    CHECK_EQ(c.count, 2);
    CHECK_STR(c.site[1].name, "map.1");
    for (int row = 0; row < ROWS; row++) {
        double about[WIDTH], e[2][CELLS], o[2 * WIDTH];
        dense(&p, "map.question", p.q[row], WIDTH, about, WIDTH);
        for (int i = 0; i < CELLS; i++) {
            double h[WIDTH], both[2];
            dense(&p, "map.cells", p.cells[row][i], WIDTH, h, WIDTH);
            for (int k = 0; k < WIDTH; k++)
                h[k] += about[k];
            rectify(h, WIDTH);
            dense(&p, "map.scores", h, WIDTH, both, 2);
            e[0][i] = both[0];
            e[1][i] = both[1];
        }
        for (int g = 0; g < 2; g++) {
            softmax(e[g], CELLS);
            compare(c.site[g].weights + (ptrdiff_t)row * CELLS, e[g], CELLS, __LINE__);
            read_cells(&p, row, e[g], o + (ptrdiff_t)g * WIDTH);
        }
        classify(&p, row, o, 2 * WIDTH, logits[row]);
    }
    compare_logits(ctx, model, &batch, logits);
    free_captured(&c);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void pooling_reads_all_cells(void)
{
    static plain p;
    double logits[ROWS][ANSWERS];
    fv_site none;
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = vqa_model(ctx, vqa_pool);
    const fv_batch batch = vqa_batch(vqa_shared);
    begin_plain(&p, ctx, model, &batch);
    CHECK_EQ(fv_model_kind_of(model)->attention_sites(fv_model_self(model), &none, 1), 0);
    for (int row = 0; row < ROWS; row++)
        classify(&p, row, p.cells[row][0], CELLS * WIDTH, logits[row]);
    compare_logits(ctx, model, &batch, logits);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void normalise(const plain *p, const char *name, const double *x, double *y)
{
    char full[64];
    double mean = 0, variance = 0;
    snprintf(full, sizeof full, "%s.weight", name);
    const float *w = param(p, full, WIDTH);
    snprintf(full, sizeof full, "%s.bias", name);
    const float *b = param(p, full, WIDTH);
    for (int k = 0; k < WIDTH; k++)
        mean += x[k] / WIDTH;
    for (int k = 0; k < WIDTH; k++)
        variance += (x[k] - mean) * (x[k] - mean) / WIDTH;
    for (int k = 0; k < WIDTH; k++)
        y[k] = (x[k] - mean) / sqrt(variance + 1e-5) * (double)w[k] + (double)b[k];
}

/* The first block's weights: the question is position 0, and every cell knows it too. */
static void cells_and_question_attend_to_each_other(void)
{
    enum { N = CELLS + 1, D = WIDTH / HEADS };
    static plain p;
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = vqa_model(ctx, vqa_self);
    const fv_batch batch = vqa_batch(vqa_shared);
    begin_plain(&p, ctx, model, &batch);
    captured c = capture(ctx, model, &batch);
    CHECK_EQ(c.count, 2);
    CHECK_STR(c.site[0].name, "encoder.0.self");
    CHECK(c.site[0].heads == HEADS && c.site[0].queries == N && c.site[0].keys == N);
    for (int row = 0; row < ROWS; row++) {
        double q[N][WIDTH], k[N][WIDTH], about[WIDTH];
        dense(&p, "self.about", p.q[row], WIDTH, about, WIDTH);
        for (int i = 0; i < N; i++) {
            double x[WIDTH], y[WIDTH];
            if (i == 0)
                dense(&p, "self.question", p.q[row], WIDTH, x, WIDTH);
            else
                dense(&p, "self.cells", p.cells[row][i - 1], WIDTH, x, WIDTH);
            for (int a = 0; i > 0 && a < WIDTH; a++)
                x[a] += about[a];
            normalise(&p, "encoder.0.self_norm", x, y);
            dense(&p, "encoder.0.self.q_proj", y, WIDTH, q[i], WIDTH);
            dense(&p, "encoder.0.self.k_proj", y, WIDTH, k[i], WIDTH);
        }
        for (int head = 0; head < HEADS; head++)
            for (int i = 0; i < N; i++) {
                double e[N];
                for (int j = 0; j < N; j++) {
                    e[j] = 0;
                    for (int a = 0; a < D; a++)
                        e[j] += q[i][head * D + a] * k[j][head * D + a] / sqrt(D);
                }
                softmax(e, N);
                compare(c.site[0].weights + (((ptrdiff_t)row * HEADS + head) * N + i) * N, e, N,
                        __LINE__);
            }
    }
    free_captured(&c);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(words_guide_the_first_hop);
    RUN(two_maps_are_concatenated);
    RUN(pooling_reads_all_cells);
    RUN(cells_and_question_attend_to_each_other);
    return TEST_END();
}

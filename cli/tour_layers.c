/* The tour: attention as other layers, layer norm, and temperature as calibration. */
#include <math.h>
#include <stdlib.h>

#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "tour.h"

/* ---- attention as other layers ---------------------------------------------------------- */

/* Heads that weigh by `bias` [heads, n_q, n_k] alone, side by side: [n_q, heads * d]. */
static fv_tensor *by_bias(tour *t, fv_tensor *v, const float *bias, int64_t heads, int64_t n_q,
                          int64_t n_k)
{
    const fv_attend_extra extra = {
        .bias = fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){1, heads, n_q, n_k}, bias)};
    fv_tensor *z = fv_attend(t->ctx, NULL, NULL, v, NULL, &extra, NULL);
    z = fv_contiguous(t->ctx, fv_transpose(t->ctx, z, 1, 2));
    return fv_reshape(t->ctx, z, 2, (int64_t[]){n_q, heads * fv_tensor_size(v, 3)});
}

static double difference(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static fv_status fully_connected(tour *t, double *most)
{
    enum { N = 4, D = 3, OUT = 5 };
    float x[N * D], w[OUT * N * D], bias[N * N], y[OUT], plain[OUT];
    tour_normals(101, x, (int64_t)N * D);
    tour_normals(102, w, (int64_t)OUT * N * D);
    for (int h = 0; h < N; h++) /* one query; head h sees key h */
        for (int j = 0; j < N; j++)
            bias[h * N + j] = j == h ? 0 : -INFINITY;
    fv_tensor *z = by_bias(t, tour_head(t, N, D, x), bias, N, 1, N);
    const fv_status status =
        tour_read(t, fv_linear(t->ctx, z, tour_matrix(t, OUT, N * D, w), NULL), y);
    for (int i = 0; i < OUT; i++) {
        double sum = 0;
        for (int j = 0; j < N * D; j++)
            sum += (double)w[i * N * D + j] * (double)x[j];
        plain[i] = (float)sum;
    }
    if (status == FV_OK) *most = difference(y, plain, OUT);
    return status;
}

static fv_status convolution(tour *t, double *most)
{
    enum { SIDE = 5, N = SIDE * SIDE, TAPS = 9 };
    static float bias[TAPS * N * N];
    float x[N], kernel[TAPS], y[N], plain[N];
    tour_normals(103, x, N);
    tour_normals(104, kernel, TAPS);
    for (int i = 0; i < N; i++)
        plain[i] = 0;
    for (int h = 0; h < TAPS; h++)
        for (int i = 0; i < N; i++) {
            const int row = i / SIDE + h / 3 - 1, col = i % SIDE + h % 3 - 1;
            const bool inside = row >= 0 && row < SIDE && col >= 0 && col < SIDE;
            for (int j = 0; j < N; j++)
                bias[(h * N + i) * N + j] = inside && j == row * SIDE + col ? 0 : -INFINITY;
            if (inside) plain[i] += kernel[h] * x[row * SIDE + col];
        }
    fv_tensor *z = by_bias(t, tour_head(t, N, 1, x), bias, TAPS, N, N);
    const fv_status status =
        tour_read(t, fv_linear(t->ctx, z, tour_matrix(t, 1, TAPS, kernel), NULL), y);
    if (status == FV_OK) *most = difference(y, plain, N);
    return status;
}

fv_status tour_layers(tour *t)
{
    double most[2];
    fv_status status = fully_connected(t, &most[0]);
    if (status == FV_OK) status = convolution(t, &most[1]);
    if (status != FV_OK) return status;
    tour_line(t, "fully connected, 4 vectors of 3 to 5 numbers:  4 heads, differs by %.0e",
              most[0]);
    tour_line(t, "convolution, 3 x 3 over 5 x 5 pixels:          9 heads, differs by %.0e",
              most[1]);
    return FV_OK;
}

/* ---- layer norm --------------------------------------------------------------------------- */

fv_status tour_norm(tour *t)
{
    static const int widths[] = {4, 64, 512};
    tour_line(t, "length of a vector after layer norm: ours, and with the lecture's sigma");
    for (int i = 0; i < 3; i++) {
        enum { MOST = 512 };
        float x[MOST], y[MOST];
        double length = 0, mean = 0, square = 0, printed = 0;
        const int n = widths[i];
        tour_normals(105 + (uint64_t)i, x, n);
        const fv_status status =
            tour_read(t, fv_layer_norm(t->ctx, tour_matrix(t, 1, n, x), NULL, NULL, 1e-5), y);
        if (status != FV_OK) return status;
        for (int c = 0; c < n; c++)
            mean += (double)x[c] / n;
        for (int c = 0; c < n; c++) {
            length += (double)y[c] * (double)y[c];
            square += pow((double)x[c] - mean, 2);
        }
        for (int c = 0; c < n; c++)
            printed += pow((double)x[c] - mean, 2) / square;
        tour_line(t, "D = %3d   %7.3f (root of D: %6.3f)   %6.3f", n, sqrt(length), sqrt(n),
                  sqrt(printed));
    }
    return FV_OK;
}

/* ---- calibration -------------------------------------------------------------------------- */

enum { FEW = 60, MANY = 2000, INPUT = 2, HIDDEN = 64, BINS = 5, TRAIN_STEPS = 300 };

/* Two overlapping clouds: class 1 is shifted by 1.5 along the first axis. */
static void draw_points(uint64_t seed, int n, float *x, int64_t *label)
{
    float which[MANY];
    tour_normals(seed, x, (int64_t)n * INPUT);
    tour_normals(seed + 1, which, n);
    for (int i = 0; i < n; i++) {
        label[i] = which[i] > 0;
        if (label[i]) x[(ptrdiff_t)i * INPUT] += 1.5f;
    }
}

typedef struct learner {
    fv_params *params;
    fv_tensor *up, *up_bias, *down;
} learner;

static fv_status make_learner(fv_ctx *ctx, learner *l)
{
    float up[HIDDEN * INPUT], down[2 * HIDDEN], zero[HIDDEN] = {0};
    tour_normals(203, up, (int64_t)HIDDEN * INPUT);
    tour_normals(204, down, 2L * HIDDEN);
    for (int i = 0; i < 2 * HIDDEN; i++)
        down[i] /= 8;
    const fv_status status = fv_params_create(ctx, &l->params);
    if (status != FV_OK) return status;
    l->up = fv_params_add(l->params, "up",
                          fv_from_host(ctx, FV_F32, 2, (int64_t[]){HIDDEN, INPUT}, up));
    l->up_bias = fv_params_add(l->params, "up_bias",
                               fv_from_host(ctx, FV_F32, 1, (int64_t[]){HIDDEN}, zero));
    l->down = fv_params_add(l->params, "down",
                            fv_from_host(ctx, FV_F32, 2, (int64_t[]){2, HIDDEN}, down));
    return FV_OK;
}

static fv_tensor *scores_of(tour *t, const learner *l, int n, const float *x)
{
    fv_tensor *in = tour_matrix(t, n, INPUT, x);
    fv_tensor *h = fv_tanh(t->ctx, fv_linear(t->ctx, in, l->up, l->up_bias));
    return fv_linear(t->ctx, h, l->down, NULL);
}

static fv_status learn(tour *t, const learner *l)
{
    float x[FEW * INPUT];
    int64_t label[FEW];
    fv_optim_config cfg;
    fv_optim *optim = NULL;
    draw_points(201, FEW, x, label);
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAMW);
    cfg.weight_decay = 0;
    fv_status status = fv_optim_create(l->params, &cfg, &optim);
    for (uint64_t step = 0; step < TRAIN_STEPS && status == FV_OK; step++) {
        fv_scope_begin(t->ctx);
        fv_tensor *target = fv_from_host(t->ctx, FV_I64, 1, (int64_t[]){FEW}, label);
        fv_tensor *loss =
            fv_cross_entropy(t->ctx, scores_of(t, l, FEW, x), target, -1, 0, FV_REDUCTION_MEAN);
        status = fv_backward(t->ctx, loss);
        if (status == FV_OK) status = fv_optim_step(optim, 0.05, NULL);
        fv_params_zero_grad(l->params);
        fv_scope_end(t->ctx);
    }
    fv_optim_destroy(&optim);
    return status;
}

/* The confidence of the answer to each point, and whether it is right. */
typedef struct answers {
    float score[2 * MANY];
    int64_t label[MANY];
} answers;

static fv_status ask(tour *t, const learner *l, uint64_t seed, answers *out)
{
    static float x[MANY * INPUT];
    draw_points(seed, MANY, x, out->label);
    return tour_read(t, scores_of(t, l, MANY, x), out->score);
}

/* p(class 1) at a temperature. */
static double chance(const answers *a, int i, double temperature)
{
    const double gap = (double)a->score[2 * i + 1] - (double)a->score[2 * i];
    return 1 / (1 + exp(-gap / temperature));
}

static double loss_at(const answers *a, double temperature)
{
    double sum = 0;
    for (int i = 0; i < MANY; i++) {
        const double p = chance(a, i, temperature);
        sum -= log(fmax(a->label[i] ? p : 1 - p, 1e-12)) / MANY;
    }
    return sum;
}

/* The temperature of the least loss, by golden sections over its logarithm. */
static double fit(const answers *a)
{
    const double golden = 0.6180339887498949;
    double low = log(0.1), high = log(100);
    while (high - low > 1e-3) {
        const double one = high - golden * (high - low), two = low + golden * (high - low);
        if (loss_at(a, exp(one)) < loss_at(a, exp(two)))
            high = two;
        else
            low = one;
    }
    return exp((low + high) / 2);
}

typedef struct bins {
    double count[BINS], sure[BINS], right[BINS]; /* means of confidence and of being right */
    double error;                                /* mean distance of the two, weighted */
} bins;

static void reliability(const answers *a, double temperature, bins *out)
{
    *out = (bins){.error = 0};
    for (int i = 0; i < MANY; i++) {
        const double p = chance(a, i, temperature), sure = fmax(p, 1 - p);
        int b = (int)((sure - 0.5) * 2 * BINS);
        if (b >= BINS) b = BINS - 1;
        out->count[b]++;
        out->sure[b] += sure;
        out->right[b] += (p > 0.5) == (a->label[i] == 1);
    }
    for (int b = 0; b < BINS; b++) {
        if (out->count[b] == 0) continue;
        out->error += fabs(out->sure[b] - out->right[b]) / MANY;
        out->sure[b] /= out->count[b];
        out->right[b] /= out->count[b];
    }
}

static fv_status show_reliability(tour *t, const answers *a, double temperature)
{
    bins bin[2];
    for (int k = 0; k < 2; k++)
        reliability(a, k ? temperature : 1, &bin[k]);
    tour_line(t, "temperature fitted on %d points: %.2f; %d other points:", MANY, temperature,
              MANY);
    tour_line(t, "%12s %26s %26s", "", "T = 1: points, sure, right", "fitted: points, sure, right");
    for (int b = 0; b < BINS; b++)
        tour_line(t, "%.1f to %.1f   %13.0f %5.2f %6.2f %14.0f %5.2f %6.2f", 0.5 + 0.1 * b,
                  0.6 + 0.1 * b, bin[0].count[b], bin[0].sure[b], bin[0].right[b], bin[1].count[b],
                  bin[1].sure[b], bin[1].right[b]);
    tour_line(t, "calibration error: %.3f at T = 1, %.3f at the fitted one", bin[0].error,
              bin[1].error);
    static const double ends[] = {0.5, 1};
    const fv_look_series series[] = {
        {.name = "calibrated", .x = ends, .y = ends, .count = 2, .dashed = true},
        {.name = "T = 1", .x = bin[0].sure, .y = bin[0].right, .count = BINS},
        {.name = "fitted T", .x = bin[1].sure, .y = bin[1].right, .count = BINS}};
    return tour_plot(t,
                     &(fv_look_plot){.title = "how sure, and how often right",
                                     .x = {.title = "confidence", .low = 0.5, .high = 1},
                                     .y = {.title = "share that is right", .low = 0.4, .high = 1},
                                     .series = series,
                                     .series_count = 3});
}

fv_status tour_calibration(tour *t)
{
    learner l = {0};
    answers *a = calloc(2, sizeof *a); /* to fit on, and to test with */
    fv_status status =
        a ? make_learner(t->ctx, &l) : fv_ctx_fail(t->ctx, FV_ERR_MEMORY, "out of memory");
    if (status == FV_OK) status = learn(t, &l);
    for (int i = 0; i < 2 && status == FV_OK; i++)
        status = ask(t, &l, 301 + 2 * (uint64_t)i, &a[i]);
    if (status == FV_OK) status = show_reliability(t, &a[1], fit(&a[0]));
    fv_params_destroy(&l.params);
    free(a);
    return status;
}

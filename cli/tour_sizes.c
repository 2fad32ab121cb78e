/* The tour: sizes, costs and gradients. */
#include <math.h>

#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/recurrent.h"
#include "fovea/transformer.h"
#include "tour.h"

/* ---- heads ------------------------------------------------------------------------------ */

fv_status tour_heads(tour *t)
{
    enum { KINDS = 4, D = 512, H = 8 };
    static const char *const names[KINDS] = {"one head", "narrow", "wide", "free sizes"};
    fv_status status = FV_OK;
    tour_line(t, "width %d, %d heads        d_k    d_v   result   parameters", D, H);
    for (int i = 0; i < KINDS && status == FV_OK; i++) {
        fv_mha_config cfg;
        fv_mha heads;
        fv_params *params = NULL;
        fv_mha_config_init(&cfg, sizeof cfg, D, i ? H : 1);
        cfg.bias = cfg.bias_out = false;
        if (i == 2) cfg.d_k = cfg.d_v = D;
        if (i == 3) {
            cfg.d_k = 32;
            cfg.d_v = 96;
            cfg.width_out = 256;
        }
        status = fv_params_create(t->ctx, &params);
        if (status == FV_OK) status = fv_mha_create(params, "heads", &cfg, &heads);
        if (status == FV_OK)
            tour_line(t, "%-20s %7lld %6lld %8lld %12lld", names[i], (long long)heads.cfg.d_k,
                      (long long)heads.cfg.d_v, (long long)heads.cfg.width_out,
                      (long long)fv_params_elements(params));
        fv_params_destroy(&params);
    }
    return status;
}

/* ---- cost ------------------------------------------------------------------------------- */

fv_status tour_cost(tour *t)
{
    enum { LENGTHS = 6, D = 64, K = 3, KINDS = 3 };
    static const char *const names[KINDS] = {"convolution", "GRU", "attention"};
    double n[LENGTHS], products[KINDS][LENGTHS];
    tour_line(t, "multiply-adds of one layer in millions, width %d; dependent steps; path", D);
    tour_line(t, "%6s %22s %22s %22s", "n", names[0], names[1], names[2]);
    for (int i = 0; i < LENGTHS; i++) {
        n[i] = 16 << 2 * i;
        products[0][i] = K * n[i] * D * D / 1e6;
        products[1][i] = 6 * n[i] * D * D / 1e6;
        products[2][i] = (2 * n[i] * n[i] * D + 4 * n[i] * D * D) / 1e6;
        tour_line(t, "%6.0f %10.2f %3d %7.0f %9.2f %6.0f %5.0f %12.2f %3d %5d", n[i],
                  products[0][i], 1, ceil((n[i] - 1) / (K - 1)), products[1][i], n[i], n[i],
                  products[2][i], 4, 1);
    }
    fv_look_series series[KINDS];
    for (int k = 0; k < KINDS; k++)
        series[k] = (fv_look_series){.name = names[k], .x = n, .y = products[k], .count = LENGTHS};
    return tour_plot(t, &(fv_look_plot){.title = "multiply-adds of one layer (millions)",
                                        .x = {.title = "length", .scale = FV_AXIS_LOG2},
                                        .y = {.scale = FV_AXIS_LOG10},
                                        .series = series,
                                        .series_count = KINDS});
}

/* ---- the scaling table -------------------------------------------------------------------- */

/* What a V100 costs for an hour: eight of them for 31.21 dollars, the price behind the lecture's
 * 430,000. */
#define DOLLARS 3.9015

/* As the lecture prints them; what it leaves out is NULL or 0. */
static const struct scale {
    const char *name, *printed, *text, *machines, *paper;
    double days;
    int v100;
} scales[] = {
    {"transformer-base", "65M", NULL, "8 P100", "Vaswani et al. 2017", 0.5, 0},
    {"transformer-large", "213M", NULL, "8 P100", "Vaswani et al. 2017", 3.5, 0},
    {"bert-base", "110M", "13 GB", NULL, "Devlin et al. 2019", 0, 0},
    {"bert-large", "340M", "13 GB", NULL, "Devlin et al. 2019", 0, 0},
    {"xlnet-large", "~340M", "126 GB", "512 TPU v3", "Yang et al. 2019", 2.5, 0},
    {"roberta-large", "355M", "160 GB", "1024 V100", "Liu et al. 2019", 1, 1024},
    {"gpt2", "117M", "40 GB", NULL, "Radford et al. 2019", 0, 0},
    {"gpt2-medium", "345M", "40 GB", NULL, "Radford et al. 2019", 0, 0},
    {"gpt2-large", "762M", "40 GB", NULL, "Radford et al. 2019", 0, 0},
    {"gpt2-xl", "1.5B", "40 GB", NULL, "Radford et al. 2019", 0, 0},
    {"megatron-1.2b", "1.2B", "174 GB", "64 V100", "Shoeybi et al. 2019", 0, 64},
    {"megatron-2.5b", "2.5B", "174 GB", "128 V100", "Shoeybi et al. 2019", 0, 128},
    {"megatron-4.2b", "4.2B", "174 GB", "256 V100", "Shoeybi et al. 2019", 10, 256},
    {"megatron-8.3b", "8.3B", "174 GB", "512 V100", "Shoeybi et al. 2019", 9, 512},
};

enum { SCALES = sizeof scales / sizeof *scales };

static void show_training(tour *t)
{
    tour_line(t, "%-17s %8s %11s %5s %10s  %s", "", "text", "machines", "days", "dollars", "from");
    for (int i = 0; i < SCALES; i++) {
        const struct scale *s = &scales[i];
        char days[16] = "-", cost[16] = "-";
        if (s->days > 0) snprintf(days, sizeof days, "%.1f", s->days);
        if (s->days > 0 && s->v100 > 0)
            snprintf(cost, sizeof cost, "%.0f,000", s->days * 24 * s->v100 * DOLLARS / 1000);
        tour_line(t, "%-17s %8s %11s %5s %10s  %s", s->name, s->text ? s->text : "-",
                  s->machines ? s->machines : "-", days, cost, s->paper);
    }
    tour_line(t, "dollars: V100 hours at 3.90, the price behind the lecture's 430,000");
}

fv_status tour_scaling(tour *t)
{
    tour_line(t, "%-17s %6s %5s %5s %7s %8s", "", "layers", "width", "heads", "printed", "counted");
    for (int i = 0; i < SCALES; i++) {
        fv_architecture a = {.struct_size = sizeof a};
        fv_model_cost cost;
        char layers[24];
        if (!fv_architecture_find(scales[i].name, &a)) continue;
        const fv_status status = fv_transformer_cost(t->ctx, &a.config, 1024, &cost);
        if (status != FV_OK) return status;
        const bool both = a.config.encoder_layers && a.config.decoder_layers;
        snprintf(layers, sizeof layers, both ? "%lld+%lld" : "%lld",
                 (long long)(both ? a.config.encoder_layers
                                  : a.config.encoder_layers + a.config.decoder_layers),
                 (long long)a.config.decoder_layers);
        tour_line(t, "%-17s %6s %5lld %5lld %7s %7.1fM", scales[i].name, layers,
                  (long long)a.config.width, (long long)a.config.heads, scales[i].printed,
                  (double)cost.parameters / 1e6);
    }
    tour_line(t, "%s", "");
    show_training(t);
    return FV_OK;
}

/* ---- temperature ---------------------------------------------------------------------------- */

/* The largest weight of the softmax of one query over 16 keys of a width, and the size of its
 * gradient, |diag(a) - a a^T|; means over draws. */
static void saturation(int width, double scale, double *variance, double *largest, double *slope)
{
    enum { KEYS = 16, DRAWS = 50, MOST = 1024 };
    float q[MOST], k[MOST];
    double sums[3] = {0, 0, 0};
    for (int draw = 0; draw < DRAWS; draw++) {
        double score[KEYS], sum = 0, top = 0, square = 0;
        tour_normals(1000 + (uint64_t)draw, q, width);
        for (int j = 0; j < KEYS; j++) {
            tour_normals(5000 + (uint64_t)(draw * KEYS + j), k, width);
            score[j] = 0;
            for (int c = 0; c < width; c++)
                score[j] += (double)q[c] * (double)k[c];
            sums[0] += score[j] * score[j] / (KEYS * DRAWS);
            top = j ? fmax(top, score[j]) : score[j];
        }
        for (int j = 0; j < KEYS; j++)
            sum += score[j] = exp((score[j] - top) * scale);
        for (int j = 0; j < KEYS; j++)
            square += pow(score[j] / sum, 2);
        sums[1] += 1 / sum / DRAWS;
        sums[2] += (1 - square) / DRAWS; /* the trace: sum of a_j (1 - a_j) */
    }
    *variance = sums[0];
    *largest = sums[1];
    *slope = sums[2];
}

fv_status tour_temperature(tour *t)
{
    static const int widths[] = {4, 16, 64, 256, 1024};
    tour_line(t, "random q, k of variance 1; 16 keys; means of 50 draws");
    tour_line(t, "%6s %12s %28s %28s", "d", "Var(q . k)", "plain: largest a, slope",
              "/ sqrt(d): largest a, slope");
    for (int i = 0; i < 5; i++) {
        double variance, plain[2], scaled[2];
        saturation(widths[i], 1, &variance, &plain[0], &plain[1]);
        saturation(widths[i], 1 / sqrt(widths[i]), &variance, &scaled[0], &scaled[1]);
        tour_line(t, "%6d %12.1f %18.3f %9.3f %18.3f %9.3f", widths[i], variance, plain[0],
                  plain[1], scaled[0], scaled[1]);
    }
    return FV_OK;
}

/* ---- gradients by distance --------------------------------------------------------------------
 */

enum { STEPS = 128, WIDTH = 32, LAYERS = 6, DISTANCES = 8 };

static const float LARGE = 1e25f;

typedef struct net {
    fv_params *params;
    fv_rnn rnn[2]; /* plain, LSTM */
    fv_mha heads;
    fv_tensor *taps[LAYERS];
} net;

static fv_status make_net(tour *t, net *n)
{
    static float taps[LAYERS * WIDTH * WIDTH * 3];
    fv_mha_config heads;
    fv_mha_config_init(&heads, sizeof heads, WIDTH, 4);
    heads.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    fv_status status = fv_params_create(t->ctx, &n->params);
    for (int i = 0; i < 2 && status == FV_OK; i++) {
        fv_rnn_config cfg;
        fv_rnn_config_init(&cfg, sizeof cfg);
        cfg.cell = i ? FV_CELL_LSTM : FV_CELL_RNN;
        cfg.input = cfg.hidden = WIDTH;
        status = fv_rnn_create(n->params, i ? "lstm" : "rnn", &cfg, &n->rnn[i]);
    }
    if (status == FV_OK) status = fv_mha_create(n->params, "heads", &heads, &n->heads);
    tour_normals(61, taps, (int64_t)LAYERS * WIDTH * WIDTH * 3);
    for (int i = 0; i < LAYERS * WIDTH * WIDTH * 3; i++)
        taps[i] /= sqrtf(3.0f * WIDTH);
    for (int i = 0; i < LAYERS; i++)
        n->taps[i] = fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){WIDTH, WIDTH, 3},
                                  taps + (ptrdiff_t)i * WIDTH * WIDTH * 3);
    return status;
}

/* Kind 0 and 1: recurrent; 2: six convolutions; 3: attention. x [STEPS, WIDTH] -> the same. */
static fv_tensor *run_net(tour *t, const net *n, int kind, fv_tensor *x)
{
    fv_tensor *y = fv_reshape(t->ctx, x, 3, (int64_t[]){1, STEPS, WIDTH});
    if (kind < 2) {
        fv_packed_sequences packed;
        if (fv_pack_sequences(t->ctx, 1, (int64_t[]){STEPS}, &packed) != FV_OK) return y;
        y = fv_rnn_run(t->ctx, &n->rnn[kind], x, &packed, NULL, false, NULL);
        fv_packed_free(&packed);
        return y;
    }
    if (kind == 3) return fv_mha_run(t->ctx, &n->heads, &(fv_mha_input){.x = y}, NULL);
    y = fv_transpose(t->ctx, y, 1, 2);
    for (int i = 0; i < LAYERS; i++)
        y = fv_relu(t->ctx, fv_conv1d_causal(t->ctx, y, n->taps[i], NULL, 1));
    return fv_transpose(t->ctx, y, 1, 2);
}

/* |d (w . y_last) / d x_i| for every i, w random. */
static fv_status slopes(tour *t, const net *n, int kind, double out[STEPS])
{
    static float x[STEPS * WIDTH], g[STEPS * WIDTH], w[WIDTH];
    tour_normals(62, x, (int64_t)STEPS * WIDTH);
    tour_normals(63, w, WIDTH);
    for (int c = 0; c < WIDTH; c++) /* the gradient of a plain RNN falls below what f32 can hold */
        w[c] *= LARGE;
    fv_tensor *leaf = fv_leaf(t->ctx, tour_matrix(t, STEPS, WIDTH, x));
    fv_tensor *y = fv_reshape(t->ctx, fv_contiguous(t->ctx, run_net(t, n, kind, leaf)), 2,
                              (int64_t[]){STEPS, WIDTH});
    y = fv_mul(t->ctx, fv_slice(t->ctx, y, 0, STEPS - 1, STEPS, 1), tour_matrix(t, 1, WIDTH, w));
    fv_status status = fv_backward(t->ctx, fv_sum(t->ctx, y, 0, NULL, false));
    if (status == FV_OK) status = tour_read(t, fv_grad(t->ctx, leaf), g);
    for (int i = 0; i < STEPS && status == FV_OK; i++) {
        out[i] = 0;
        for (int c = 0; c < WIDTH; c++)
            out[i] += (double)g[i * WIDTH + c] * (double)g[i * WIDTH + c];
        out[i] = sqrt(out[i]) / (double)LARGE;
    }
    return status;
}

fv_status tour_gradients(tour *t)
{
    enum { KINDS = 4 };
    static const char *const names[KINDS] = {"RNN", "LSTM", "6 convolutions", "attention"};
    static double slope[KINDS][STEPS], distance[KINDS][STEPS], along[STEPS];
    fv_look_series series[KINDS];
    net n = {0};
    fv_status status = make_net(t, &n);
    for (int k = 0; k < KINDS && status == FV_OK; k++) {
        status = slopes(t, &n, k, slope[k]);
        for (int i = 0; i < STEPS; i++) {
            along[i] = i;
            distance[k][i] = slope[k][STEPS - 1 - i];
        }
        series[k] =
            (fv_look_series){.name = names[k], .x = along, .y = distance[k], .count = STEPS};
    }
    fv_params_destroy(&n.params);
    if (status != FV_OK) return status;
    int seen[KINDS] = {0};
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < STEPS; i++)
            seen[k] += slope[k][i] != 0;
    tour_line(t, "size of the gradient of the last output at an input this many steps before");
    tour_line(t, "%8s %16s %16s %16s %16s", "distance", names[0], names[1], names[2], names[3]);
    for (int i = 0; i < DISTANCES; i++) {
        const int d = i ? 1 << (i - 1) : 0;
        tour_line(t, "%8d %16.1e %16.1e %16.1e %16.1e", d, distance[0][d], distance[1][d],
                  distance[2][d], distance[3][d]);
    }
    tour_line(t, "%8s %16d %16d %16d %16d", "sees", seen[0], seen[1], seen[2], seen[3]);
    return tour_plot(t, &(fv_look_plot){.title = "size of the gradient by distance",
                                        .x = {.title = "steps between input and output"},
                                        .y = {.scale = FV_AXIS_LOG10},
                                        .series = series,
                                        .series_count = KINDS});
}

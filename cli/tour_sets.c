/* The tour: sets and sequences. */
#include <math.h>
#include <string.h>

#include "fovea/attention.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "output.h"
#include "tour.h"

enum { WIDTH = 16 };

/* Self-attention with random projections of a seed; x [n, WIDTH] -> y, weights (or NULL). */
static fv_status attend(tour *t, const float *x, int n, const fv_attention *how, float *y,
                        float *weights)
{
    float w[WIDTH * WIDTH];
    fv_tensor *part[3];
    for (int p = 0; p < 3; p++) {
        tour_normals(31 + (uint64_t)p, w, (int64_t)WIDTH * WIDTH);
        for (int i = 0; i < WIDTH * WIDTH; i++)
            w[i] /= sqrtf(WIDTH);
        part[p] =
            fv_linear(t->ctx, tour_matrix(t, n, WIDTH, x), tour_matrix(t, WIDTH, WIDTH, w), NULL);
        part[p] = fv_reshape(t->ctx, part[p], 4, (int64_t[]){1, 1, n, WIDTH});
    }
    fv_attention plain;
    fv_attention_init(&plain, sizeof plain);
    if (how) plain = *how;
    plain.want_weights = weights != NULL;
    fv_attention_result out;
    const fv_attention_input in = {.q = part[0], .k = part[1], .v = part[2]};
    fv_tensor *context = fv_attention_run(t->ctx, &in, &plain, &out);
    fv_status status = tour_read(t, context, y);
    if (status == FV_OK && weights) status = tour_read(t, out.weights, weights);
    return status;
}

static double difference(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* ---- Mary and Susan --------------------------------------------------------------------- */

enum { NAMES = 5, GAVE = 1 };

static void arrange(const float *vocabulary, const int *words, float *x)
{
    for (int i = 0; i < NAMES; i++)
        memcpy(x + (ptrdiff_t)i * WIDTH, vocabulary + (ptrdiff_t)words[i] * WIDTH,
               WIDTH * sizeof *x);
}

/* Adds the sine table. */
static fv_status add_positions(tour *t, float *x)
{
    fv_tensor *table = fv_sinusoid(t->ctx, FV_F32, 0, NAMES, WIDTH, 10000, FV_SINUSOID_INTERLEAVED);
    fv_tensor *y =
        fv_positions_apply(t->ctx, tour_matrix(t, NAMES, WIDTH, x), table, FV_POSITIONS_ADD);
    return tour_read(t, y, x);
}

fv_status tour_mary(tour *t)
{
    /* mary gave roses to susan: 0 1 2 3 4; then with the two names exchanged */
    static const int order[2][NAMES] = {{0, 1, 2, 3, 4}, {4, 1, 2, 3, 0}};
    static const char *const words[] = {"mary", "gave", "roses", "to", "susan"};
    float vocabulary[NAMES * WIDTH], x[2][NAMES * WIDTH], y[2][2][NAMES * WIDTH],
        weights[NAMES * NAMES];
    tour_normals(41, vocabulary, (int64_t)NAMES * WIDTH);
    for (int c = 0; c < WIDTH; c++) /* the two names are found in the same company */
        vocabulary[4 * WIDTH + c] = 0.9f * vocabulary[c] + 0.1f * vocabulary[4 * WIDTH + c];
    fv_status status = FV_OK;
    for (int positions = 0; positions < 2; positions++)
        for (int s = 0; s < 2 && status == FV_OK; s++) {
            arrange(vocabulary, order[s], x[s]);
            if (positions) status = add_positions(t, x[s]);
            if (status == FV_OK) status = attend(t, x[s], NAMES, NULL, y[positions][s], weights);
        }
    if (status != FV_OK) return status;
    tour_line(t, "y_gave of \"mary gave roses to susan\" and of \"susan gave roses to mary\":");
    for (int positions = 0; positions < 2; positions++) {
        const float *a = y[positions][0] + GAVE * WIDTH, *b = y[positions][1] + GAVE * WIDTH;
        tour_line(t, "%-18s %6.3f %6.3f ... and %6.3f %6.3f ...  differ by %.1e",
                  positions ? "with positions" : "without positions", (double)a[0], (double)a[1],
                  (double)b[0], (double)b[1], difference(a, b, WIDTH));
    }
    return tour_map(
        t,
        &(fv_look_map){
            .rows = NAMES,
            .cols = NAMES,
            .values = weights,
            .row_labels = (const char *[]){words[4], words[1], words[2], words[3], words[0]},
            .col_labels = (const char *[]){words[4], words[1], words[2], words[3], words[0]},
            .title = "susan gave roses to mary, with positions"},
        NULL);
}

/* ---- permutations ------------------------------------------------------------------------- */

/* The rows of f(x) and of f(s(x)), each with their mean below. */
static fv_status draw_orders(tour *t, int n, const int *s, const float *y, const float *ys)
{
    enum { MOST = 8 };
    float map[2 * (MOST + 1) * WIDTH] = {0};
    char labels[2 * (MOST + 1)][24];
    const char *rows[2 * (MOST + 1)];
    for (int k = 0; k < 2; k++) {
        const float *from = k ? ys : y;
        float *mean = map + (ptrdiff_t)(k * (n + 1) + n) * WIDTH;
        for (int i = 0; i <= n; i++) {
            char *label = labels[k * (n + 1) + i];
            const char *of = k ? "f(s(x))" : "f(x)";
            rows[k * (n + 1) + i] = label;
            if (i < n)
                cli_format(label, sizeof labels[0], "%s, x%d", of, (k ? s[i] : i) + 1);
            else
                cli_format(label, sizeof labels[0], "%s, mean", of);
            for (int c = 0; c < WIDTH && i < n; c++) {
                map[(k * (n + 1) + i) * WIDTH + c] = from[i * WIDTH + c];
                mean[c] += from[i * WIDTH + c] / (float)n;
            }
        }
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.colours = FV_COLOUR_MAP_DIVERGING;
    return tour_page_map(
        t,
        &(fv_look_map){.rows = 2L * (n + 1),
                       .cols = WIDTH,
                       .values = map,
                       .row_labels = rows,
                       .title = "the same outputs in another order, the same mean"},
        &options);
}

fv_status tour_permute(tour *t)
{
    enum { N = 5 };
    static const int s[N] = {3, 0, 4, 1, 2};
    float x[N * WIDTH], sx[N * WIDTH], y[N * WIDTH], ys[N * WIDTH], back[N * WIDTH];
    double mean = 0;
    tour_normals(42, x, (int64_t)N * WIDTH);
    for (int i = 0; i < N; i++)
        memcpy(sx + (ptrdiff_t)i * WIDTH, x + (ptrdiff_t)s[i] * WIDTH, WIDTH * sizeof *x);
    fv_status status = attend(t, x, N, NULL, y, NULL);
    if (status == FV_OK) status = attend(t, sx, N, NULL, ys, NULL);
    if (status != FV_OK) return status;
    for (int i = 0; i < N; i++)
        memcpy(back + (ptrdiff_t)i * WIDTH, y + (ptrdiff_t)s[i] * WIDTH, WIDTH * sizeof *y);
    for (int c = 0; c < WIDTH; c++) {
        double a = 0, b = 0;
        for (int i = 0; i < N; i++) {
            a += (double)y[i * WIDTH + c] / N;
            b += (double)ys[i * WIDTH + c] / N;
        }
        mean = fmax(mean, fabs(a - b));
    }
    tour_line(t, "inputs in the order 4 1 5 2 3");
    tour_line(t, "f(s(x)) - s(f(x)), largest entry:      %.1e   outputs follow the order",
              difference(ys, back, N * WIDTH));
    tour_line(t, "f(s(x)) - f(x), largest entry:         %.1e   they are not the same",
              difference(ys, y, N * WIDTH));
    tour_line(t, "mean over positions, largest change:   %.1e   a mean does not see the order",
              mean);
    return draw_orders(t, N, s, y, ys);
}

/* ---- positions ------------------------------------------------------------------------------ */

fv_status tour_positions(tour *t)
{
    enum { N = 16, D = 32 };
    static float same[N * N];
    fv_tensor *table = fv_sinusoid(t->ctx, FV_F32, 0, N, D, 10000, FV_SINUSOID_INTERLEAVED);
    fv_status status =
        tour_read(t, fv_matmul(t->ctx, table, fv_transpose(t->ctx, table, 0, 1)), same);
    if (status != FV_OK) return status;
    fv_tensor *x = tour_matrix(t, N, N, same);
    tour_line(t, "p . p' at distance 0, 1, 2, 4, 8: %.2f %.2f %.2f %.2f %.2f, wherever p is",
              (double)same[0], (double)same[1], (double)same[2], (double)same[4], (double)same[8]);
    tour_line(
        t, "added: %d columns stay %d; concatenated: %lld", N, N,
        (long long)fv_tensor_size(fv_positions_apply(t->ctx, x, table, FV_POSITIONS_CONCAT), 1));
    return tour_map(
        t,
        &(fv_look_map){
            .rows = N, .cols = N, .values = same, .title = "products of rows of the sine table"},
        NULL);
}

/* ---- masks ---------------------------------------------------------------------------------- */

fv_status tour_masks(tour *t)
{
    enum { N = 8, KEPT = 5 };
    static float x[N * WIDTH], y[N * WIDTH], later[N * WIDTH], causal[N * N], padded[N * N];
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.rule.causal = FV_CAUSAL_TOP_LEFT;
    tour_normals(43, x, (int64_t)N * WIDTH);
    fv_status status = attend(t, x, N, &how, y, causal);
    for (int i = KEPT * WIDTH; i < N * WIDTH; i++)
        x[i] += 1;
    if (status == FV_OK) status = attend(t, x, N, &how, later, causal);
    const int64_t length = KEPT;
    for (int i = 0; i < N * WIDTH; i++)
        x[i] *= 0.5f;
    fv_attention_result out;
    fv_attention_init(&how, sizeof how);
    how.want_weights = true;
    fv_tensor *m = tour_head(t, N, WIDTH, x);
    const fv_attention_input in = {.q = m,
                                   .k = m,
                                   .v = m,
                                   .key_lengths =
                                       fv_from_host(t->ctx, FV_I64, 1, (int64_t[]){1}, &length)};
    fv_attention_run(t->ctx, &in, &how, &out);
    if (status == FV_OK) status = tour_read(t, out.weights, padded);
    if (status != FV_OK) return status;
    tour_line(t,
              "words %d to %d changed: the outputs before them change by %.0f, the others by %.2f",
              KEPT + 1, N, difference(y, later, KEPT * WIDTH),
              difference(y + KEPT * WIDTH, later + KEPT * WIDTH, (N - KEPT) * WIDTH));
    const fv_look_map maps[] = {{.rows = N, .cols = N, .values = causal, .title = "causal mask"},
                                {.rows = N, .cols = N, .values = padded, .title = "padding mask"}};
    return tour_maps(t, "masks: queries down, keys across", "queries", 2, maps);
}

/* ---- what mixes -------------------------------------------------------------------------------
 */

fv_status tour_mixing(tour *t)
{
    enum { N = 4 };
    float x[2][N * WIDTH], y[3][2][N * WIDTH], w[WIDTH * WIDTH];
    static const char *const names[] = {"attention", "layer norm", "feed-forward"};
    tour_normals(44, x[0], (int64_t)N * WIDTH);
    tour_normals(45, w, (int64_t)WIDTH * WIDTH);
    memcpy(x[1], x[0], sizeof x[0]);
    for (int c = 0; c < WIDTH; c += 2)
        x[1][c] += 1; /* the first vector alone */
    for (int i = 0; i < 2; i++) {
        fv_tensor *m = tour_matrix(t, N, WIDTH, x[i]);
        fv_tensor *net = fv_linear(t->ctx, m, tour_matrix(t, WIDTH, WIDTH, w), NULL);
        fv_status status = attend(t, x[i], N, NULL, y[0][i], NULL);
        if (status == FV_OK)
            status = tour_read(t, fv_layer_norm(t->ctx, m, NULL, NULL, 1e-5), y[1][i]);
        if (status == FV_OK) status = tour_read(t, fv_relu(t->ctx, net), y[2][i]);
        if (status != FV_OK) return status;
    }
    tour_line(t, "the first of %d vectors changes; how much each output does", N);
    for (int k = 0; k < 3; k++)
        tour_line(t, "%-14s %8.4f %8.4f %8.4f %8.4f", names[k], difference(y[k][0], y[k][1], WIDTH),
                  difference(y[k][0] + WIDTH, y[k][1] + WIDTH, WIDTH),
                  difference(y[k][0] + 2 * WIDTH, y[k][1] + 2 * WIDTH, WIDTH),
                  difference(y[k][0] + 3 * WIDTH, y[k][1] + 3 * WIDTH, WIDTH));
    float share[3 * N];
    for (int k = 0; k < 3; k++) {
        double change[N], largest = 0;
        for (int i = 0; i < N; i++) {
            const ptrdiff_t at = (ptrdiff_t)i * WIDTH;
            change[i] = difference(y[k][0] + at, y[k][1] + at, WIDTH);
            largest = fmax(largest, change[i]);
        }
        for (int i = 0; i < N; i++)
            share[k * N + i] = (float)(change[i] / largest);
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    return tour_page_map(t,
                         &(fv_look_map){.rows = 3,
                                        .cols = N,
                                        .values = share,
                                        .row_labels = names,
                                        .col_labels = (const char *[]){"y1", "y2", "y3", "y4"},
                                        .title = "x1 changes: how much each y does (largest: 1)"},
                         &options);
}

/* The tour: weights and what they mix, with numbers. */
#include <math.h>

#include "fovea/attention.h"
#include "fovea/ops.h"
#include "tour.h"

/* ---- six steps, two words ------------------------------------------------------------ */

enum { WORDS = 2, WIDTH = 512, KEY = 64, HEADS = 8 };

/* y = W x for W [rows, cols]. */
static void product(const float *w, int rows, int cols, const float *x, float *y)
{
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < cols; j++)
            sum += (double)w[i * cols + j] * (double)x[j];
        y[i] = (float)sum;
    }
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

typedef struct layer {
    float x[WORDS * WIDTH], w[3][KEY * WIDTH], v[3][WORDS * KEY], z[WORDS * KEY];
} layer;

/* One word after the other, as a textbook does. */
static void by_vectors(tour *t, layer *l)
{
    static const char *const words[WORDS] = {"Thinking", "Machines"};
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < WORDS; i++)
            product(l->w[p], KEY, WIDTH, l->x + (ptrdiff_t)i * WIDTH, l->v[p] + i * KEY);
    for (int i = 0; i < WORDS; i++) {
        double score[WORDS], weight[WORDS], sum = 0;
        for (int j = 0; j < WORDS; j++)
            score[j] = dot(l->v[0] + i * KEY, l->v[1] + j * KEY, KEY);
        for (int j = 0; j < WORDS; j++)
            sum += weight[j] = exp(score[j] / 8);
        for (int j = 0; j < WORDS; j++)
            weight[j] /= sum;
        for (int c = 0; c < KEY; c++)
            l->z[i * KEY + c] =
                (float)(weight[0] * (double)l->v[2][c] + weight[1] * (double)l->v[2][KEY + c]);
        tour_line(t, "%-10s %7.2f %7.2f %7.2f %7.2f %7.3f %7.3f   %6.2f %6.2f ...", words[i],
                  score[0], score[1], score[0] / 8, score[1] / 8, weight[0], weight[1],
                  (double)l->z[i * KEY], (double)l->z[i * KEY + 1]);
    }
}

fv_status tour_six_steps(tour *t)
{
    static layer l;
    float again[WORDS * KEY];
    const double kept = 1 / (1 + exp((96 - 112) / 8.0));
    tour_normals(1, l.x, WORDS * WIDTH);
    for (int p = 0; p < 3; p++) {
        tour_normals(2 + (uint64_t)p, l.w[p], KEY * WIDTH);
        for (int i = 0; i < KEY * WIDTH; i++)
            l.w[p][i] *= 1.6f / sqrtf(WIDTH);
    }
    tour_line(t, "the well-known picture of these steps: scores 112 and 96");
    tour_line(t, "  / 8: 14 and 12   softmax: %.2f and %.2f", kept, 1 - kept);
    tour_line(t, "%s", "");
    tour_line(t, "here: two random embeddings of 512, queries, keys and values of 64");
    tour_line(t, "%-10s %15s %15s %15s   %s", "", "q . k_1, k_2", "/ 8", "softmax", "z");
    by_vectors(t, &l);
    fv_tensor *x = tour_matrix(t, WORDS, WIDTH, l.x), *part[3];
    for (int p = 0; p < 3; p++) {
        part[p] = fv_linear(t->ctx, x, tour_matrix(t, KEY, WIDTH, l.w[p]), NULL);
        part[p] = fv_reshape(t->ctx, part[p], 4, (int64_t[]){1, 1, WORDS, KEY});
    }
    const fv_status status =
        tour_read(t, fv_attend(t->ctx, part[0], part[1], part[2], NULL, NULL, NULL), again);
    double most = 0;
    for (int i = 0; status == FV_OK && i < WORDS * KEY; i++)
        most = fmax(most, fabs((double)again[i] - (double)l.z[i]));
    if (status == FV_OK)
        tour_line(t, "softmax(Q K^T / 8) V on matrices differs by at most %.0e", most);
    return status;
}

fv_status tour_eight_heads(tour *t)
{
    enum { N = 2, ALL = N * WIDTH };
    static float x[ALL], w[3 * WIDTH * WIDTH], w_o[WIDTH * WIDTH], y[ALL];
    tour_normals(5, x, ALL);
    tour_normals(6, w, 3 * WIDTH * WIDTH);
    tour_normals(7, w_o, WIDTH * WIDTH);
    fv_tensor *q[3];
    fv_tensor *qkv =
        fv_linear(t->ctx, tour_matrix(t, N, WIDTH, x), tour_matrix(t, 3 * WIDTH, WIDTH, w), NULL);
    fv_split(t->ctx, qkv, -1, 3, (int64_t[]){WIDTH, WIDTH, WIDTH}, q);
    tour_line(t, "X %d x %d, W_Q, W_K and W_V of each head %d x %d", N, WIDTH, WIDTH, KEY);
    for (int p = 0; p < 3; p++) {
        q[p] = fv_reshape(t->ctx, q[p], 4, (int64_t[]){1, N, HEADS, KEY});
        q[p] = fv_transpose(t->ctx, q[p], 1, 2);
    }
    fv_tensor *z = fv_attend(t->ctx, q[0], q[1], q[2], NULL, NULL, NULL);
    tour_line(t, "z_0 ... z_%d: %d x %d each, side by side %d x %d", HEADS - 1, N, KEY, N,
              HEADS * KEY);
    z = fv_reshape(t->ctx, fv_contiguous(t->ctx, fv_transpose(t->ctx, z, 1, 2)), 2,
                   (int64_t[]){N, HEADS * KEY});
    z = fv_linear(t->ctx, z, tour_matrix(t, WIDTH, WIDTH, w_o), NULL);
    tour_line(t, "times W_O, %d x %d: %lld x %lld, the shape of X", HEADS * KEY, WIDTH,
              (long long)fv_tensor_size(z, 0), (long long)fv_tensor_size(z, 1));
    return tour_read(t, z, y);
}

/* ---- what a mean loses ------------------------------------------------------------------- */

enum { MOST_HEADS = 8, DRAWS = 192 };

/* `words` values of one number in DRAWS columns; head h attends to its share of them equally. The
 * result of a word's head is the best guess of it: the mean square of what is missing, over that
 * of the values. */
static fv_status lost(tour *t, int words, int heads, double *share)
{
    float values[MOST_HEADS * DRAWS], bias[MOST_HEADS * MOST_HEADS], mean[MOST_HEADS * DRAWS];
    double missing = 0, all = 0;
    tour_normals(111, values, (int64_t)words * DRAWS);
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < words; j++)
            bias[h * words + j] = j * heads / words == h ? 0 : -INFINITY;
    const fv_attend_extra extra = {
        .bias = fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){1, heads, 1, words}, bias)};
    const fv_status status = tour_read(
        t, fv_attend(t->ctx, NULL, NULL, tour_head(t, words, DRAWS, values), NULL, &extra, NULL),
        mean);
    if (status != FV_OK) return status;
    for (int j = 0; j < words; j++)
        for (int c = 0; c < DRAWS; c++) {
            const double value = (double)values[j * DRAWS + c];
            missing += pow(value - (double)mean[j * heads / words * DRAWS + c], 2);
            all += value * value;
        }
    *share = missing / all;
    return FV_OK;
}

fv_status tour_resolution(tour *t)
{
    tour_line(t, "share of the values that is lost, by words that matter");
    tour_line(t, "%16s %8s %8s %8s %8s", "heads:", "1", "2", "4", "8");
    for (int words = 1; words <= MOST_HEADS; words *= 2) {
        double share[4] = {0};
        for (int k = 0; k < 4; k++) {
            const int heads = 1 << k < words ? 1 << k : words;
            const fv_status status = lost(t, words, heads, &share[k]);
            if (status != FV_OK) return status;
        }
        tour_line(t, "%d %-12s  %8.2f %8.2f %8.2f %8.2f", words, words > 1 ? "words" : "word",
                  share[0], share[1], share[2], share[3]);
    }
    return FV_OK;
}

/* ---- one query and its keys ------------------------------------------------------------ */

fv_status tour_alignment(tour *t)
{
    /* Queries of the decoder, keys and values of the encoder: two numbers each, to draw them. */
    static const float q[] = {1.2f, 0.2f, -0.1f, 1.1f}, k[] = {1.0f, 0.1f, 0.0f, 1.2f};
    static const char *const keys[] = {"the", "zone"}, *const queries[] = {"la", "zone"};
    float score[4], weight[4], context[4];
    fv_attention how;
    fv_attention_result out;
    fv_attention_init(&how, sizeof how);
    how.want_scores = how.want_weights = true;
    fv_tensor *key = tour_head(t, 2, 2, k);
    const fv_attention_input in = {.q = tour_head(t, 2, 2, q), .k = key, .v = key};
    fv_attention_run(t->ctx, &in, &how, &out);
    fv_status status = tour_read(t, out.scores, score);
    if (status == FV_OK) status = tour_read(t, out.weights, weight);
    if (status == FV_OK) status = tour_read(t, out.context, context);
    if (status != FV_OK) return status;
    tour_line(t, "%-6s %17s %17s %17s", "query", "scores", "weights", "context");
    for (int i = 0; i < 2; i++)
        tour_line(t, "%-6s %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f", queries[i], (double)score[2 * i],
                  (double)score[2 * i + 1], (double)weight[2 * i], (double)weight[2 * i + 1],
                  (double)context[2 * i], (double)context[2 * i + 1]);
    const fv_look_map map = {.rows = 2,
                             .cols = 2,
                             .values = weight,
                             .row_labels = queries,
                             .col_labels = keys,
                             .title = "weights"};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    options.high = 1;
    return tour_map(t, &map, &options);
}

/* ---- movies --------------------------------------------------------------------------- */

fv_status tour_movies(tour *t)
{
    enum { USERS = 2, MOVIES = 3, PROPERTIES = 3 };
    static const char *const users[] = {"Ada", "Ben"}, *const movies[] = {"Long Kiss", "Steel Rain",
                                                                          "Two Clowns"};
    /* romance, action, comedy; -1 is a strong dislike, or none of it in the movie */
    static const float taste[] = {0.9f, -0.8f, 0.4f, -0.6f, 0.9f, 0.1f};
    static const float movie[] = {0.9f, -0.7f, 0.2f, -0.5f, 0.9f, -0.3f, 0.1f, -0.4f, 0.9f};
    float fit[USERS * MOVIES], ideal[USERS * PROPERTIES], weight[USERS * MOVIES];
    fv_tensor *u = tour_matrix(t, USERS, PROPERTIES, taste),
              *m = tour_matrix(t, MOVIES, PROPERTIES, movie), *weights = NULL;
    fv_status status = tour_read(t, fv_matmul(t->ctx, u, fv_transpose(t->ctx, m, 0, 1)), fit);
    fv_tensor *y = fv_attention_lookup(t->ctx, u, m, m, 0.5, &weights);
    if (status == FV_OK) status = tour_read(t, y, ideal);
    if (status == FV_OK) status = tour_read(t, weights, weight);
    if (status != FV_OK) return status;
    tour_line(t, "user . movie   %12s %12s %12s", movies[0], movies[1], movies[2]);
    for (int i = 0; i < USERS; i++)
        tour_line(t, "%-14s %12.2f %12.2f %12.2f", users[i], (double)fit[3 * i],
                  (double)fit[3 * i + 1], (double)fit[3 * i + 2]);
    tour_line(t, "%s", "");
    tour_line(t, "%-53s ideal movie:", "");
    tour_line(t, "%-53s romance action comedy", "softmax(user . movie / 0.5)");
    for (int i = 0; i < USERS; i++)
        tour_line(t, "%-14s %12.3f %12.3f %12.3f %7.2f %6.2f %6.2f", users[i],
                  (double)weight[3 * i], (double)weight[3 * i + 1], (double)weight[3 * i + 2],
                  (double)ideal[3 * i], (double)ideal[3 * i + 1], (double)ideal[3 * i + 2]);
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.colours = FV_COLOUR_MAP_DIVERGING;
    options.numbers = true;
    return tour_page_map(t,
                         &(fv_look_map){.rows = USERS,
                                        .cols = MOVIES,
                                        .values = fit,
                                        .row_labels = users,
                                        .col_labels = movies,
                                        .title = "user . movie"},
                         &options);
}

/* ---- without parameters ----------------------------------------------------------------- */

fv_status tour_basic(tour *t)
{
    enum { N = 6, D = 16 };
    float x[N * D], weight[N * N];
    fv_tensor *weights = NULL;
    tour_normals(11, x, (int64_t)N * D);
    fv_tensor *unit = fv_scale(t->ctx, fv_unit(t->ctx, tour_matrix(t, N, D, x)), 1.6);
    fv_attention_basic(t->ctx, unit, &weights);
    const fv_status status = tour_read(t, weights, weight);
    if (status != FV_OK) return status;
    int own = 0;
    for (int i = 0; i < N; i++) {
        int best = 0;
        for (int j = 1; j < N; j++)
            if (weight[i * N + j] > weight[i * N + best]) best = j;
        own += best == i;
    }
    tour_line(t, "%d vectors of equal length: %d of %d rows have their largest weight on the", N,
              own, N);
    tour_line(t, "diagonal, without a single parameter");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    return tour_map(
        t,
        &(fv_look_map){
            .rows = N, .cols = N, .values = weight, .title = "W = softmax(X X^T), by row"},
        &options);
}

fv_status tour_dictionary(tour *t)
{
    enum { N = 4, D = 3 };
    static const char *const names[] = {"cat", "dog", "spider", "bird"};
    /* furry, wild, winged; values: number of legs */
    static const float keys[N * D] = {2, 0, 0, 2, -1, 0, -2, 2, 0, -1, 1, 3},
                                legs[N] = {4, 4, 8, 2}, query[D] = {2, 2, 0};
    static const double temperatures[] = {4, 1, 0.25};
    tour_line(t, "query: a lion. weights of   %7s %7s %7s %7s   legs", names[0], names[1], names[2],
              names[3]);
    for (int i = 0; i < 3; i++) {
        float weight[N], answer;
        fv_tensor *weights = NULL;
        fv_tensor *y =
            fv_attention_lookup(t->ctx, tour_matrix(t, 1, D, query), tour_matrix(t, N, D, keys),
                                tour_matrix(t, N, 1, legs), temperatures[i], &weights);
        fv_status status = tour_read(t, weights, weight);
        if (status == FV_OK) status = tour_read(t, y, &answer);
        if (status != FV_OK) return status;
        tour_line(t, "temperature %-13.4g   %7.3f %7.3f %7.3f %7.3f  %5.2f", temperatures[i],
                  (double)weight[0], (double)weight[1], (double)weight[2], (double)weight[3],
                  (double)answer);
    }
    return FV_OK;
}

fv_status tour_embedding(tour *t)
{
    enum { ROWS = 5, D = 3, N = 4 };
    static const int64_t word[N] = {3, 0, 3, 4};
    float table[ROWS * D], looked_up[N * D], multiplied[N * D];
    tour_normals(12, table, (int64_t)ROWS * D);
    fv_tensor *m = tour_matrix(t, ROWS, D, table),
              *index = fv_from_host(t->ctx, FV_I64, 1, (int64_t[]){N}, word);
    fv_status status = tour_read(t, fv_embedding(t->ctx, m, index, -1), looked_up);
    if (status == FV_OK)
        status =
            tour_read(t, fv_matmul(t->ctx, fv_one_hot(t->ctx, index, ROWS, FV_F32), m), multiplied);
    bool same = true;
    for (int i = 0; status == FV_OK && i < N * D; i++)
        same = same && looked_up[i] == multiplied[i];
    if (status == FV_OK)
        tour_line(t, "rows 3, 0, 3, 4 of a %d x %d table, and one-hot rows times it: %s", ROWS, D,
                  same ? "equal to the bit" : "DIFFERENT");
    return status;
}

/* ---- weights that follow the input ------------------------------------------------------ */

enum { N = 6, D = 8, TAPS = 3 };

/* How strongly output i of a causal convolution answers to input j: |y(x + e_j) - y(x)|. */
static fv_status measure_convolution(tour *t, const float *x, const float *taps, float *map)
{
    float changed[N * D], y[2][N * D];
    for (int j = -1; j < N; j++) {
        for (int i = 0; i < N * D; i++)
            changed[i] = x[i] + (i / D == j ? 1.0f : 0.0f);
        fv_tensor *in = fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, N, D}, changed);
        fv_tensor *w = fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){D, D, TAPS}, taps);
        fv_tensor *out = fv_conv1d_causal(t->ctx, fv_transpose(t->ctx, in, 1, 2), w, NULL, 1);
        out = fv_contiguous(t->ctx, fv_transpose(t->ctx, out, 1, 2));
        const fv_status status = tour_read(t, out, y[j >= 0]);
        if (status != FV_OK) return status;
        for (int i = 0; j >= 0 && i < N; i++) {
            double sum = 0;
            for (int c = i * D; c < (i + 1) * D; c++)
                sum += pow((double)y[1][c] - (double)y[0][c], 2);
            map[i * N + j] = (float)sqrt(sum);
        }
    }
    return FV_OK;
}

static double moved_in_a_row(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += fabs((double)a[i] - (double)b[i]) / N;
    return sum;
}

fv_status tour_two_inputs(tour *t)
{
    static const char *const titles[] = {"attention, input 1", "attention, input 2",
                                         "convolution, both"};
    float x[N * D], taps[D * D * TAPS], map[4][N * N];
    tour_normals(20, taps, (int64_t)D * D * TAPS);
    fv_status status = FV_OK;
    for (int input = 0; input < 2 && status == FV_OK; input++) {
        fv_tensor *weights = NULL;
        tour_normals(21 + (uint64_t)input, x, (int64_t)N * D);
        fv_tensor *m = tour_matrix(t, N, D, x);
        fv_attention_lookup(t->ctx, m, m, m, 3, &weights);
        status = tour_read(t, weights, map[input]);
        if (status == FV_OK) status = measure_convolution(t, x, taps, map[2 + input]);
    }
    if (status != FV_OK) return status;
    tour_line(t, "change of a row between the inputs: attention %.2f, convolution %.5f",
              moved_in_a_row(map[0], map[1]), moved_in_a_row(map[2], map[3]));
    float largest = 0;
    for (int i = 0; i < N * N; i++)
        largest = fmaxf(largest, map[2][i]);
    fv_look_map maps[3];
    for (int i = 0; i < 3; i++)
        maps[i] = (fv_look_map){.rows = N, .cols = N, .values = map[i], .title = titles[i]};
    for (int i = 0; i < N * N; i++) /* in the range of the weights beside it */
        map[2][i] /= largest;
    return tour_maps(t, "two inputs: outputs down, inputs across", "outputs", 3, maps);
}

/* The tour: the survey's scores, windows, memory and grid. */
#include <math.h>

#include "fovea/attention.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "tour.h"

/* ---- the table of scores -------------------------------------------------------------------- */

enum { KEYS = 4, WIDTH = 3, INNER = 4, SCORES = 7 };

static fv_tensor *drawn(tour *t, uint64_t seed, int64_t rows, int64_t cols)
{
    float numbers[16];
    tour_normals(seed, numbers, rows * cols);
    return tour_matrix(t, rows, cols, numbers);
}

/* A score of the caller's: how little s and h differ. One query, so the two line up. */
static fv_tensor *nearness(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k)
{
    (void)user;
    fv_tensor *apart = fv_abs(ctx, fv_sub(ctx, k, q));
    fv_tensor *near = fv_neg(ctx, fv_sum(ctx, apart, 1, (int[]){3}, false));
    return fv_reshape(ctx, near, 4, (int64_t[]){1, 1, 1, fv_tensor_size(k, 2)});
}

fv_status tour_scores(tour *t)
{
    static const struct {
        fv_attention_score kind;
        const char *formula, *paper;
    } rows[SCORES] = {
        {FV_ATTENTION_COSINE, "cos(s, h)", "Graves et al. 2014"},
        {FV_ATTENTION_ADDITIVE, "v . tanh(W [s; h])", "Bahdanau et al. 2015"},
        {FV_ATTENTION_LOCATION, "(W s)_i", "Luong et al. 2015"},
        {FV_ATTENTION_GENERAL, "s . W h", "Luong et al. 2015"},
        {FV_ATTENTION_DOT, "s . h", "Luong et al. 2015"},
        {FV_ATTENTION_SCALED, "s . h / sqrt(d)", "Vaswani et al. 2017"},
        {FV_ATTENTION_CUSTOM, "-sum |s - h|", "the caller"},
    };
    static const float s[WIDTH] = {1, -0.5f, 2};
    static const float h[KEYS * WIDTH] = {1, 0, 1, -1, 1, 0, 0.5f, -0.5f, 2, 0, 2, -1};
    static float map[SCORES * KEYS];
    const char *names[SCORES];
    tour_line(t, "%-8s %-18s %-21s %s", "", "score of s for h_i", "from", "weights");
    for (int i = 0; i < SCORES; i++) {
        float *weight = map + (ptrdiff_t)i * KEYS;
        fv_attention how;
        fv_attention_result out;
        fv_attention_init(&how, sizeof how);
        how.score = rows[i].kind;
        if (how.score == FV_ATTENTION_CUSTOM) how.score_fn = nearness;
        how.want_weights = true;
        fv_tensor *k = tour_head(t, KEYS, WIDTH, h);
        fv_attention_input in = {.q = tour_head(t, 1, WIDTH, s), .k = k, .v = k};
        if (how.score == FV_ATTENTION_GENERAL) in.w = drawn(t, 71, WIDTH, WIDTH);
        if (how.score == FV_ATTENTION_LOCATION) in.w = drawn(t, 72, KEYS, WIDTH);
        if (how.score == FV_ATTENTION_ADDITIVE) {
            in.w = fv_reshape(t->ctx, drawn(t, 73, 1, INNER), 1, (int64_t[]){INNER});
            in.w_q = drawn(t, 74, INNER, WIDTH);
            in.w_k = drawn(t, 75, INNER, WIDTH);
        }
        fv_attention_run(t->ctx, &in, &how, &out);
        const fv_status status = tour_read(t, out.weights, weight);
        if (status != FV_OK) return status;
        names[i] = fv_attention_score_name(rows[i].kind);
        tour_line(t, "%-8s %-18s %-21s %.2f %.2f %.2f %.2f", names[i], rows[i].formula,
                  rows[i].paper, (double)weight[0], (double)weight[1], (double)weight[2],
                  (double)weight[3]);
    }
    return tour_map(t,
                    &(fv_look_map){.rows = SCORES,
                                   .cols = KEYS,
                                   .values = map,
                                   .row_labels = names,
                                   .col_labels = (const char *[]){"h1", "h2", "h3", "h4"},
                                   .title = "weights of the same query and keys"},
                    NULL);
}

/* ---- windows -------------------------------------------------------------------------------- */

fv_status tour_windows(tour *t)
{
    enum { N = 12, D = 2, REACH = 2 };
    static const char *const titles[] = {"global", "local-m", "local-p: 11 - t"};
    float x[N * D], centre[N], map[3][N * N];
    fv_look_map maps[3];
    tour_normals(81, x, (int64_t)N * D);
    for (int i = 0; i < N; i++)
        centre[i] = (float)(N - 1 - i);
    for (int i = 0; i < 3; i++) {
        fv_attention how;
        fv_attention_result out;
        fv_attention_init(&how, sizeof how);
        if (i) {
            how.normaliser = i == 1 ? FV_ATTENTION_LOCAL_M : FV_ATTENTION_LOCAL_P;
            how.half_width = REACH;
        }
        how.want_weights = true;
        fv_tensor *m = tour_head(t, N, D, x);
        fv_attention_input in = {.q = m, .k = m, .v = m};
        if (i == 2) in.centre = fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, 1, N}, centre);
        fv_attention_run(t->ctx, &in, &how, &out);
        const fv_status status = tour_read(t, out.weights, map[i]);
        if (status != FV_OK) return status;
        maps[i] = (fv_look_map){.rows = N, .cols = N, .values = map[i], .title = titles[i]};
    }
    return tour_maps(t, "global and local: queries down, keys across", "queries", 3, maps);
}

/* ---- memory --------------------------------------------------------------------------------- */

enum { SLOTS = 6, STAGES = 4 };

static const char *const slot_names[SLOTS] = {"0", "1", "2", "3", "4", "5"};

/* What an address is made of: everything but key and memory, which are fixed. */
typedef struct head {
    float strength, gate, shift[3], exponent;
    bool uniform; /* shift[0] is the lower bound */
    int before;   /* the slot of the step before */
} head;

static fv_status address(tour *t, const head *h, float out[SLOTS])
{
    /* [width][slots]: slot 1 is most like the key */
    static const float memory[WIDTH * SLOTS] = {1, 0,     0, 1, 0.5f, -1, 0, 1, 0,
                                                1, -0.5f, 0, 0, 0,    1,  0, 1, 1};
    static const float key[WIDTH] = {0.1f, 1, 0.1f};
    float before[SLOTS] = {0};
    before[h->before] = 1;
    fv_tensor *at = fv_ntm_address(
        t->ctx, fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, 1, WIDTH}, key),
        tour_matrix(t, 1, 1, &h->strength), tour_matrix(t, 1, 1, &h->gate),
        fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, 1, h->uniform ? 1 : 3}, h->shift),
        tour_matrix(t, 1, 1, &h->exponent),
        fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, 1, SLOTS}, before),
        fv_from_host(t->ctx, FV_F32, 3, (int64_t[]){1, WIDTH, SLOTS}, memory), h->uniform);
    return tour_read(t, at, out);
}

static fv_status show_addresses(tour *t, int count, const char *const *names, const head *heads,
                                const char *title)
{
    float map[STAGES * SLOTS];
    for (int i = 0; i < count; i++) {
        float *row = map + (ptrdiff_t)i * SLOTS;
        const fv_status status = address(t, &heads[i], row);
        double sum = 0;
        if (status != FV_OK) return status;
        for (int j = 0; j < SLOTS; j++)
            sum += (double)row[j];
        tour_line(t, "%-8s %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f   sum %.6f", names[i],
                  (double)row[0], (double)row[1], (double)row[2], (double)row[3], (double)row[4],
                  (double)row[5], sum);
    }
    return tour_map(t,
                    &(fv_look_map){.rows = count,
                                   .cols = SLOTS,
                                   .values = map,
                                   .row_labels = names,
                                   .col_labels = slot_names,
                                   .title = title},
                    NULL);
}

fv_status tour_memory(tour *t)
{
    static const char *const stages[STAGES] = {"content", "gate", "shift", "sharpen"};
    static const head heads[STAGES] = {{3, 1, {0, 1, 0}, 1, false, 4},
                                       {3, 0.8f, {0, 1, 0}, 1, false, 4},
                                       {3, 0.8f, {0.1f, 0.1f, 0.8f}, 1, false, 4},
                                       {3, 0.8f, {0.1f, 0.1f, 0.8f}, 4, false, 4}};
    return show_addresses(t, STAGES, stages, heads, "from a key to an address");
}

fv_status tour_shifts(tour *t)
{
    static const char *const kinds[] = {"softmax", "uniform"};
    static const head heads[] = {{3, 0, {0.1f, 0.2f, 0.7f}, 1, false, 2},
                                 {3, 0, {0.7f, 0, 0}, 1, true, 2}};
    tour_line(t, "from slot 2: by 0.1, 0.2, 0.7 for -1, 0, 1; and by one number, 0.7");
    return show_addresses(t, 2, kinds, heads, "where slot 2 is shifted to");
}

/* ---- the grid of SAGAN ----------------------------------------------------------------------- */

fv_status tour_gamma(tour *t)
{
    enum { C = 16, SIDE = 8, ALL = C * SIDE * SIDE };
    float x[ALL], y[ALL];
    fv_params *params = NULL;
    fv_nonlocal grid;
    tour_normals(91, x, ALL);
    fv_status status = fv_params_create(t->ctx, &params);
    if (status == FV_OK) status = fv_nonlocal_create(params, "attention", C, 0, 0, 0.3, &grid);
    for (int i = 0; i < 3 && status == FV_OK; i++) {
        static const float gammas[] = {0, 0.1f, 1};
        fv_tensor *in = fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){1, C, SIDE, SIDE}, x);
        int changed = 0;
        double most = 0;
        status = fv_tensor_write(t->ctx, grid.gamma, gammas + i, sizeof gammas[i]);
        if (status == FV_OK)
            status = tour_read(t, fv_nonlocal_run(t->ctx, &grid, in, false, NULL), y);
        for (int j = 0; j < ALL && status == FV_OK; j++) {
            changed += y[j] != x[j];
            most = fmax(most, fabs((double)y[j] - (double)x[j]));
        }
        if (status == FV_OK)
            tour_line(t, "gamma %.1f: %4d of %d numbers change, by at most %.3f", (double)gammas[i],
                      changed, ALL, most);
    }
    fv_params_destroy(&params);
    return status;
}

/*
 * Short tours: from several random orders, 2-opt (reverse a part of the tour) and Or-opt (move up
 * to three cities elsewhere, either way round) until neither makes the tour shorter. The shortest
 * of all wins.
 */
#include <math.h>
#include <string.h>

#include "data/draws.h"
#include "data/plane.h"

enum { SITE = 0x746f7572, MOST_MOVED = 3 };

/* A move must gain more than rounding does, or two moves could undo each other forever. */
static const double least_gain = 1e-9;

typedef struct tour {
    int64_t n;
    const float *points;
    int64_t *at; /* [n]: cities in their order */
    int64_t *room;
} tour;

static double between(const tour *t, int64_t i, int64_t j)
{
    return fv_xy_distance(t->points, t->at[(i + t->n) % t->n], t->at[(j + t->n) % t->n]);
}

static void reverse(int64_t *at, int64_t from, int64_t to)
{
    for (; from < to; from++, to--) {
        const int64_t c = at[from];
        at[from] = at[to];
        at[to] = c;
    }
}

/* Replaces edges (i, i + 1) and (j, j + 1) where that is shorter. */
static bool two_opt(const tour *t)
{
    bool better = false;
    for (int64_t i = 0; i + 2 < t->n; i++)
        for (int64_t j = i + 2; j < t->n; j++) {
            if (i == 0 && j == t->n - 1) continue;
            const double gain = between(t, i, i + 1) + between(t, j, j + 1) - between(t, i, j) -
                                between(t, i + 1, j + 1);
            if (gain <= least_gain) continue;
            reverse(t->at, i + 1, j);
            better = true;
        }
    return better;
}

/* Moves cities [i, i + k) between j and j + 1 of the others, `back` reversed. */
static void move(const tour *t, int64_t i, int64_t k, int64_t j, bool back)
{
    int64_t part[MOST_MOVED], used = 0;
    for (int64_t p = 0; p < k; p++)
        part[back ? k - 1 - p : p] = t->at[i + p];
    for (int64_t p = 0; p < t->n; p++) {
        if (p >= i && p < i + k) continue;
        t->room[used++] = t->at[p];
        for (int64_t q = 0; p == j && q < k; q++)
            t->room[used++] = part[q];
    }
    memcpy(t->at, t->room, (size_t)t->n * sizeof *t->at);
}

/* The best place for cities [i, i + k), which do not wrap around. */
static bool or_opt_one(const tour *t, int64_t i, int64_t k)
{
    const double freed =
        between(t, i - 1, i) + between(t, i + k - 1, i + k) - between(t, i - 1, i + k);
    double best = least_gain;
    int64_t place = -1;
    bool back = false;
    for (int64_t j = 0; j < t->n; j++) {
        if (j >= i - 1 && j < i + k) continue;
        if (i == 0 && j == t->n - 1) continue;
        const double open = between(t, j, j + 1);
        const double ahead = freed + open - between(t, j, i) - between(t, i + k - 1, j + 1);
        const double reversed = freed + open - between(t, j, i + k - 1) - between(t, i, j + 1);
        if (ahead > best || reversed > best) {
            best = fmax(ahead, reversed);
            place = j;
            back = reversed > ahead;
        }
    }
    if (place < 0) return false;
    move(t, i, k, place, back);
    return true;
}

static bool or_opt(const tour *t)
{
    bool better = false;
    for (int64_t k = 1; k <= MOST_MOVED && k + 2 < t->n; k++)
        for (int64_t i = 0; i + k <= t->n; i++)
            better = or_opt_one(t, i, k) || better;
    return better;
}

static void improve(const tour *t)
{
    for (bool again = true; again;) {
        again = two_opt(t);
        again = or_opt(t) || again;
    }
}

static void shuffle(int64_t *at, int64_t n, uint64_t seed, int start)
{
    fv_draws d = fv_draws_begin(fv_rng_key(seed, (uint64_t)start, SITE), 0);
    for (int64_t i = 0; i < n; i++)
        at[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = fv_draws_below(&d, i + 1), c = at[i];
        at[i] = at[j];
        at[j] = c;
    }
}

fv_status fv_tour_local(fv_ctx *ctx, int64_t n, const float *points, int starts, uint64_t seed,
                        int64_t *out)
{
    tour t = {.n = n, .points = points};
    double best = INFINITY;
    const size_t bytes = 2 * (size_t)n * sizeof *t.at;
    t.at = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!t.at, ctx, FV_ERR_MEMORY, "no memory for a tour of %lld cities", (long long)n);
    t.room = t.at + n;
    for (int start = 0; start < starts; start++) {
        shuffle(t.at, n, seed, start);
        improve(&t);
        const double length = fv_tour_length(n, points, t.at);
        if (length < best) {
            best = length;
            memcpy(out, t.at, (size_t)n * sizeof *out);
        }
    }
    fv_mem_free(&ctx->mem, t.at, bytes);
    return FV_OK;
}

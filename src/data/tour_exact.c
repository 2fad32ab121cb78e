/*
 * Shortest tours by dynamic programming over sets of cities (Held and Karp 1962): L(S, j), the
 * length of the shortest path from city 0 through all cities of S that ends in j in S, is the
 * smallest L(S - j, k) + d(k, j) over k in S - j. 2^(n - 1) (n - 1) numbers.
 */
#include <math.h>

#include "data/plane.h"

typedef struct table {
    int64_t m;      /* cities beside city 0; city i + 1 is bit i of a set */
    double *length; /* [2^m][m] */
    double between[FV_TSP_EXACT_MAX][FV_TSP_EXACT_MAX]; /* of all cities */
} table;

/* The shortest path through `set` to city j, in the set; *last is the city before it. */
static double shortest(const table *t, uint32_t set, int64_t j, int64_t *last)
{
    const uint32_t rest = set & ~(1u << j);
    const double *length = t->length + (size_t)rest * (size_t)t->m;
    double best = INFINITY;
    if (rest == 0) return t->between[0][j + 1];
    for (uint32_t left = rest; left; left &= left - 1) {
        const int64_t k = __builtin_ctz(left);
        const double all = length[k] + t->between[k + 1][j + 1];
        if (all < best) {
            best = all;
            *last = k;
        }
    }
    return best;
}

static void fill(const table *t)
{
    int64_t last = 0;
    for (uint32_t set = 1; set < 1u << t->m; set++)
        for (uint32_t left = set; left; left &= left - 1) {
            const int64_t j = __builtin_ctz(left);
            t->length[(size_t)set * (size_t)t->m + (size_t)j] = shortest(t, set, j, &last);
        }
}

static void read_tour(const table *t, int64_t *tour)
{
    uint32_t set = (1u << t->m) - 1;
    const double *whole = t->length + (size_t)set * (size_t)t->m;
    int64_t at = 0;
    for (int64_t j = 1; j < t->m; j++)
        if (whole[j] + t->between[j + 1][0] < whole[at] + t->between[at + 1][0]) at = j;
    tour[0] = 0;
    for (int64_t i = t->m; i > 0; i--) {
        int64_t before = 0;
        tour[i] = at + 1;
        shortest(t, set, at, &before);
        set &= ~(1u << at);
        at = before;
    }
}

fv_status fv_tour_exact(fv_ctx *ctx, int64_t n, const float *points, int64_t *tour)
{
    FV_RETURN_IF(n < 1 || n > FV_TSP_EXACT_MAX, ctx, FV_ERR_ARGUMENT,
                 "a shortest tour of %lld cities, expected 1 to %d", (long long)n,
                 (int)FV_TSP_EXACT_MAX);
    for (int64_t i = 0; i < n; i++)
        tour[i] = i;
    if (n < 4) return FV_OK;
    table t = {.m = n - 1};
    const size_t bytes = ((size_t)1 << t.m) * (size_t)t.m * sizeof *t.length;
    t.length = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!t.length, ctx, FV_ERR_MEMORY, "no memory for tours of %lld cities", (long long)n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            t.between[i][j] = fv_xy_distance(points, i, j);
    fill(&t);
    read_tour(&t, tour);
    fv_mem_free(&ctx->mem, t.length, bytes);
    return FV_OK;
}

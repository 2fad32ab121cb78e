/*
 * 1-tree lower bound (Held and Karp 1970). A 1-tree is a spanning tree of cities 1 .. n - 1 and the
 * two shortest edges of city 0; every tour is one. With a number w_i added to every edge of city i
 * a tour gets longer by 2 sum w, so the shortest 1-tree less 2 sum w is a lower bound for any w.
 * The ascent raises w where a city has more than two edges and lowers it where it has one.
 */
#include <math.h>

#include "data/plane.h"

typedef struct ascent {
    int64_t n;
    const float *points;
    double *w, *nearest; /* [n] */
    int64_t *parent, *degree;
    bool *inside;
} ascent;

static double weight(const ascent *a, int64_t i, int64_t j)
{
    return fv_xy_distance(a->points, i, j) + a->w[i] + a->w[j];
}

/* Prim's algorithm over cities 1 .. n - 1; counts edges in `degree`. */
static double spanning_tree(const ascent *a)
{
    double sum = 0;
    for (int64_t i = 1; i < a->n; i++) {
        a->nearest[i] = i == 1 ? 0 : INFINITY;
        a->parent[i] = 0;
        a->inside[i] = false;
    }
    for (int64_t done = 1; done < a->n; done++) {
        int64_t next = 0;
        for (int64_t i = 1; i < a->n; i++)
            if (!a->inside[i] && (next == 0 || a->nearest[i] < a->nearest[next])) next = i;
        a->inside[next] = true;
        sum += a->nearest[next];
        if (a->parent[next] > 0) {
            a->degree[next]++;
            a->degree[a->parent[next]]++;
        }
        for (int64_t i = 1; i < a->n; i++) {
            const double d = a->inside[i] ? INFINITY : weight(a, next, i);
            if (d >= a->nearest[i]) continue;
            a->nearest[i] = d;
            a->parent[i] = next;
        }
    }
    return sum;
}

/* The two shortest edges of city 0. */
static double two_edges(const ascent *a)
{
    int64_t first = 0, second = 0;
    for (int64_t i = 1; i < a->n; i++) {
        if (first == 0 || weight(a, 0, i) < weight(a, 0, first)) {
            second = first;
            first = i;
        } else if (second == 0 || weight(a, 0, i) < weight(a, 0, second)) {
            second = i;
        }
    }
    a->degree[first]++;
    a->degree[second]++;
    return weight(a, 0, first) + weight(a, 0, second);
}

static double one_tree(const ascent *a)
{
    double sum = 0;
    for (int64_t i = 0; i < a->n; i++)
        a->degree[i] = i == 0 ? 2 : 0;
    sum = spanning_tree(a) + two_edges(a);
    for (int64_t i = 0; i < a->n; i++)
        sum -= 2 * a->w[i];
    return sum;
}

fv_status fv_tour_bound(fv_ctx *ctx, int64_t n, const float *points, int rounds, double *out)
{
    FV_RETURN_IF(
        n < 1 || n > FV_POINTS_MAX || rounds < 1, ctx, FV_ERR_ARGUMENT,
        "a bound for %lld cities in %d rounds, expected 1 to %d cities and 1 round or more",
        (long long)n, rounds, (int)FV_POINTS_MAX);
    if (n < 3) {
        *out = 0;
        return FV_OK;
    }
    ascent a = {.n = n, .points = points};
    const size_t one =
        sizeof *a.w + sizeof *a.nearest + sizeof *a.parent + sizeof *a.degree + sizeof *a.inside;
    char *room = fv_mem_zalloc(&ctx->mem, (size_t)n * one);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for %lld cities", (long long)n);
    a.w = (double *)(void *)room;
    a.nearest = a.w + n;
    a.parent = (int64_t *)(void *)(a.nearest + n);
    a.degree = a.parent + n;
    a.inside = (bool *)(void *)(a.degree + n);
    double best = 0, step = 0;
    for (int round = 0; round < rounds; round++) {
        const double bound = one_tree(&a);
        if (round == 0) step = bound / (2 * (double)n);
        if (bound > best) best = bound;
        for (int64_t i = 0; i < n; i++)
            a.w[i] += step * (double)(a.degree[i] - 2);
        step *= 0.97;
    }
    *out = best;
    fv_mem_free(&ctx->mem, room, (size_t)n * one);
    return FV_OK;
}

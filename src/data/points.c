/* Problems over sets of points: their answers, random instances, and what outputs are worth. */
#include "data/points.h"

#include <math.h>
#include <string.h>

#include "data/draws.h"
#include "data/plane.h"

enum { SITE = 0x706f696e, STARTS = 8 };

const char *fv_problem_name(fv_problem problem)
{
    static const char *const names[FV_PROBLEM_COUNT] = {[FV_PROBLEM_SORT] = "sort",
                                                        [FV_PROBLEM_HULL] = "hull",
                                                        [FV_PROBLEM_DELAUNAY] = "delaunay",
                                                        [FV_PROBLEM_TSP] = "tsp"};
    return (unsigned)problem < FV_PROBLEM_COUNT ? names[problem] : "?";
}

int64_t fv_problem_width(fv_problem problem) { return problem == FV_PROBLEM_SORT ? 1 : 2; }

int64_t fv_answer_max(fv_problem problem, int64_t n)
{
    if (problem != FV_PROBLEM_DELAUNAY) return n;
    return n < 3 ? 0 : 3 * (2 * n - 5);
}

static int64_t least_inputs(fv_problem problem)
{
    return problem == FV_PROBLEM_HULL || problem == FV_PROBLEM_DELAUNAY ? 3 : 1;
}

/* ---- measures ------------------------------------------------------------------------------- */

double fv_tour_length(int64_t n, const float *points, const int64_t *tour)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fv_xy_distance(points, tour[i], tour[i + 1 < n ? i + 1 : 0]);
    return sum;
}

double fv_polygon_area(const float *points, int64_t count, const int64_t *corners)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const fv_xy a = fv_xy_at(points, corners[i]),
                    b = fv_xy_at(points, corners[i + 1 < count ? i + 1 : 0]);
        sum += a.x * b.y - b.x * a.y;
    }
    return sum / 2;
}

/* ---- answers -------------------------------------------------------------------------------- */

void fv_points_rank(fv_problem problem, int64_t n, const float *values, int64_t *rank)
{
    const int64_t width = fv_problem_width(problem);
    for (int64_t j = 0; j < n; j++) {
        rank[j] = 0;
        for (int64_t i = 0; i < n; i++) {
            const fv_xy a = {(double)values[width * i], (double)values[width * i + width - 1]},
                        b = {(double)values[width * j], (double)values[width * j + width - 1]};
            const int c = fv_xy_compare(a, b);
            rank[j] += c < 0 || (c == 0 && i < j);
        }
    }
}

/* Starts at the smallest point and goes counter-clockwise. */
static void orient_tour(int64_t n, const float *points, int64_t *tour, int64_t *room)
{
    int64_t first = 0;
    for (int64_t i = 1; i < n; i++)
        if (fv_xy_compare(fv_xy_at(points, tour[i]), fv_xy_at(points, tour[first])) < 0) first = i;
    const bool clockwise = fv_polygon_area(points, n, tour) < 0;
    for (int64_t i = 0; i < n; i++)
        room[i] = tour[(clockwise ? first + n - i : first + i) % n];
    memcpy(tour, room, (size_t)n * sizeof *tour);
}

static bool triangle_before(const int64_t *a, const int64_t *b, const int64_t *rank)
{
    for (int k = 0; k < 3; k++)
        if (a[k] != b[k]) return rank[a[k]] < rank[b[k]];
    return false;
}

/* Ascending points in each triangle, then ascending triangles. */
static void order_triangles(int64_t count, int64_t *triangle, const int64_t *rank)
{
    for (int64_t t = 0; t < count; t++) {
        int64_t *p = triangle + 3 * t;
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 2 - i; k++)
                if (rank[p[k]] > rank[p[k + 1]]) {
                    const int64_t c = p[k];
                    p[k] = p[k + 1];
                    p[k + 1] = c;
                }
    }
    for (int64_t t = 1; t < count; t++)
        for (int64_t k = t; k > 0; k--) {
            int64_t *a = triangle + 3 * (k - 1), *b = a + 3, c[3];
            if (!triangle_before(b, a, rank)) break;
            memcpy(c, a, sizeof c);
            memcpy(a, b, sizeof c);
            memcpy(b, c, sizeof c);
        }
}

static fv_status check_inputs(fv_ctx *ctx, fv_problem problem, int64_t n, const float *values)
{
    enum { LARGEST = 1000000 };
    const int64_t width = fv_problem_width(problem);
    FV_RETURN_IF((unsigned)problem >= FV_PROBLEM_COUNT, ctx, FV_ERR_ARGUMENT, "no such problem");
    FV_RETURN_IF(n < least_inputs(problem) || n > FV_POINTS_MAX, ctx, FV_ERR_ARGUMENT,
                 "%s: %lld inputs, expected %lld to %d", fv_problem_name(problem), (long long)n,
                 (long long)least_inputs(problem), (int)FV_POINTS_MAX);
    for (int64_t i = 0; i < n * width; i++)
        FV_RETURN_IF(!(fabsf(values[i]) <= LARGEST), ctx, FV_ERR_ARGUMENT,
                     "input %lld: %g, expected a number from -%d to %d", (long long)(i / width),
                     (double)values[i], (int)LARGEST, (int)LARGEST);
    return FV_OK;
}

static fv_status check_distinct(fv_ctx *ctx, int64_t n, const float *values, const int64_t *order)
{
    for (int64_t i = 1; i < n; i++)
        FV_RETURN_IF(fv_xy_compare(fv_xy_at(values, order[i - 1]), fv_xy_at(values, order[i])) == 0,
                     ctx, FV_ERR_ARGUMENT, "inputs %lld and %lld are the same point",
                     (long long)order[i - 1], (long long)order[i]);
    return FV_OK;
}

/* A hull or a triangulation. `room` has 4 n + 1 indices. */
static fv_status solve_plane(fv_ctx *ctx, fv_problem problem, int64_t n, const float *values,
                             int64_t *room, int64_t *answer, int64_t *count)
{
    int64_t *order = room, *rest = room + n;
    fv_xy_sort(n, values, order);
    FV_TRY(check_distinct(ctx, n, values, order));
    if (problem == FV_PROBLEM_HULL) {
        *count = fv_hull(values, n, order, rest);
        if (*count > 2) memcpy(answer, rest, (size_t)*count * sizeof *answer);
    } else {
        *count = 3 * fv_delaunay(values, n, order, rest, answer);
        fv_points_rank(problem, n, values, rest);
        order_triangles(*count / 3, answer, rest);
    }
    FV_RETURN_IF(*count < 3, ctx, FV_ERR_ARGUMENT, "%s: all inputs are on one line",
                 fv_problem_name(problem));
    return FV_OK;
}

static fv_status solve_tour(fv_ctx *ctx, int64_t n, const float *values, int64_t exact,
                            int64_t *room, int64_t *answer, bool *proved)
{
    const int64_t most = exact > 0 && exact < FV_TSP_EXACT_MAX ? exact : FV_TSP_EXACT_MAX;
    *proved = n <= most;
    if (*proved)
        FV_TRY(fv_tour_exact(ctx, n, values, answer));
    else
        FV_TRY(fv_tour_local(ctx, n, values, STARTS, 0, answer));
    orient_tour(n, values, answer, room);
    return FV_OK;
}

fv_status fv_problem_solve(fv_ctx *ctx, fv_problem problem, int64_t n, const float *values,
                           int64_t exact, int64_t *answer, int64_t *count, bool *proved)
{
    FV_TRY(check_inputs(ctx, problem, n, values));
    const size_t bytes = (size_t)(4 * n + 1) * sizeof(int64_t);
    int64_t *room = fv_mem_alloc(&ctx->mem, bytes), got = n;
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for %lld inputs", (long long)n);
    fv_status status = FV_OK;
    bool right = true;
    if (problem == FV_PROBLEM_SORT) {
        fv_points_rank(problem, n, values, room);
        for (int64_t j = 0; j < n; j++)
            answer[room[j]] = j;
    } else if (problem == FV_PROBLEM_TSP) {
        status = solve_tour(ctx, n, values, exact, room, answer, &right);
    } else {
        status = solve_plane(ctx, problem, n, values, room, answer, &got);
    }
    fv_mem_free(&ctx->mem, room, bytes);
    if (status != FV_OK) return status;
    *count = got;
    if (proved) *proved = right;
    return FV_OK;
}

/* ---- instances ------------------------------------------------------------------------------ */

static void draw_values(fv_problem problem, fv_draws *d, int64_t n, float *values)
{
    if (problem != FV_PROBLEM_SORT) {
        for (int64_t i = 0; i < 2 * n; i++)
            values[i] = (float)fv_draws_unit(d);
        return;
    }
    int64_t all[FV_SORT_VALUES];
    for (int64_t i = 0; i < FV_SORT_VALUES; i++)
        all[i] = i;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = i + fv_draws_below(d, FV_SORT_VALUES - i), c = all[j];
        all[j] = all[i];
        all[i] = c;
        values[i] = (float)c / FV_SORT_VALUES;
    }
}

void fv_instance_free(fv_instance **instance)
{
    if (*instance) fv_mem_free(&(*instance)->ctx->mem, *instance, (*instance)->room);
    *instance = NULL;
}

fv_status fv_instance_draw(fv_ctx *ctx, const fv_points_source *from, fv_points_part part,
                           uint64_t number, fv_instance **out)
{
    const int64_t most = from->problem == FV_PROBLEM_SORT ? FV_SORT_VALUES : FV_POINTS_MAX;
    FV_RETURN_IF((unsigned)from->problem >= FV_PROBLEM_COUNT ||
                     from->min < least_inputs(from->problem) || from->max < from->min ||
                     from->max > most,
                 ctx, FV_ERR_ARGUMENT, "%s: sizes %lld to %lld, expected %lld to %lld",
                 fv_problem_name(from->problem), (long long)from->min, (long long)from->max,
                 (long long)least_inputs(from->problem), (long long)most);
    fv_draws d =
        fv_draws_begin(fv_rng_key(from->seed, (uint64_t)part, SITE + from->problem), number);
    const int64_t n = from->min + fv_draws_below(&d, from->max - from->min + 1),
                  room = fv_answer_max(from->problem, n), width = fv_problem_width(from->problem);
    const size_t answer = (size_t)room * sizeof(int64_t),
                 bytes = sizeof(fv_instance) + answer + (size_t)(n * width) * sizeof(float);
    fv_instance *made = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!made, ctx, FV_ERR_MEMORY, "no memory for an instance of %lld inputs",
                 (long long)n);
    *made = (fv_instance){.ctx = ctx, .n = n, .room = bytes};
    made->answer = (int64_t *)(void *)(made + 1);
    made->values = (float *)(void *)(made->answer + room);
    draw_values(from->problem, &d, n, made->values);
    const fv_status status = fv_problem_solve(ctx, from->problem, n, made->values, from->exact,
                                              made->answer, &made->count, &made->exact);
    if (status == FV_OK)
        *out = made;
    else
        fv_instance_free(&made);
    return status;
}

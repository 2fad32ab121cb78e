/* What an output of a problem over points is worth beside the answer. */
#include <math.h>
#include <string.h>

#include "data/plane.h"

/* ---- hull ----------------------------------------------------------------------------------- */

static bool edges_cross(const float *points, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const fv_xy p = fv_xy_at(points, a), q = fv_xy_at(points, b), r = fv_xy_at(points, c),
                s = fv_xy_at(points, d);
    return fv_orientation(p, q, r) * fv_orientation(p, q, s) < 0 &&
           fv_orientation(r, s, p) * fv_orientation(r, s, q) < 0;
}

static bool is_simple(const float *points, int64_t count, const int64_t *corner)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i + 1; j < count; j++)
            if (edges_cross(points, corner[i], corner[(i + 1) % count], corner[j],
                            corner[(j + 1) % count]))
                return false;
    return true;
}

/* The corners are a cyclic list; ours start at the smallest point. */
static bool same_cycle(int64_t count, const int64_t *a, const int64_t *b)
{
    int64_t at = 0;
    while (at < count && b[at] != a[0])
        at++;
    for (int64_t i = 0; i < count; i++)
        if (at == count || a[i] != b[(at + i) % count]) return false;
    return true;
}

static void compare_hulls(const float *points, int64_t answers, const int64_t *answer,
                          int64_t outputs, const int64_t *output, fv_points_score *out)
{
    const double area = fv_polygon_area(points, answers, answer);
    out->exact = answers == outputs && same_cycle(answers, answer, output);
    if (outputs >= 3 && is_simple(points, outputs, output))
        out->covered = fabs(fv_polygon_area(points, outputs, output)) / area;
}

/* ---- triangles ------------------------------------------------------------------------------ */

static bool same_triangle(const int64_t *a, const int64_t *b)
{
    for (int i = 0; i < 3; i++)
        if (a[i] != b[0] && a[i] != b[1] && a[i] != b[2]) return false;
    return true;
}

static void compare_triangles(int64_t answers, const int64_t *answer, int64_t outputs,
                              const int64_t *output, fv_points_score *out)
{
    int64_t found = 0;
    for (int64_t i = 0; i + 2 < answers; i += 3) {
        bool is_there = false;
        for (int64_t k = 0; k + 2 < outputs && !is_there; k += 3)
            is_there = same_triangle(answer + i, output + k);
        found += is_there;
    }
    out->covered = answers > 0 ? (double)(3 * found) / (double)answers : 0;
    out->exact = 3 * found == answers && outputs == answers;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void compare_lists(int64_t answers, const int64_t *answer, int64_t outputs,
                          const int64_t *output, fv_points_score *out)
{
    int64_t right = 0;
    for (int64_t i = 0; i < answers && i < outputs; i++)
        right += answer[i] == output[i];
    out->covered = answers > 0 ? (double)right / (double)answers : 1;
    out->exact = right == answers && outputs == answers;
}

fv_status fv_points_compare(fv_ctx *ctx, fv_problem problem, int64_t n, const float *values,
                            const int64_t *answer, int64_t answer_count, const int64_t *output,
                            int64_t output_count, fv_points_score *out)
{
    fv_points_score score = {.exact = false};
    for (int64_t i = 0; i < output_count; i++)
        FV_RETURN_IF(output[i] < 0 || output[i] >= n, ctx, FV_ERR_ARGUMENT,
                     "output %lld names input %lld of %lld", (long long)i, (long long)output[i],
                     (long long)n);
    switch (problem) {
    case FV_PROBLEM_HULL:
        compare_hulls(values, answer_count, answer, output_count, output, &score);
        break;
    case FV_PROBLEM_DELAUNAY:
        compare_triangles(answer_count, answer, output_count, output, &score);
        break;
    case FV_PROBLEM_TSP: {
        const double best = fv_tour_length(answer_count, values, answer),
                     length = fv_tour_length(output_count, values, output);
        score.covered = output_count == n && best > 0 ? length / best : 1;
        score.exact = output_count == n && length <= best * (1 + 1e-9);
        break;
    }
    default:
        compare_lists(answer_count, answer, output_count, output, &score);
    }
    *out = score;
    return FV_OK;
}

/* Which choices keep an output of a problem over points valid. */
#include <string.h>

#include "data/points.h"

/* Triples of ranks r0 < r1 < r2 below n, in ascending order: which rank may follow `count` % 3
 * ranks of a triple after the previous one. `exact` says whether those equal the previous triple's.
 */
static bool triple_may_go_on(int64_t n, const int64_t *before, const int64_t *part, int filled,
                             int64_t next)
{
    if (filled > 0 && next <= part[filled - 1]) return false;
    if (next > n - 3 + filled) return false;
    if (!before) return true;
    for (int k = 0; k < filled; k++)
        if (part[k] != before[k]) return true;
    if (next != before[filled]) return next > before[filled];
    /* equal so far: a larger rest must exist */
    for (int k = filled + 1; k < 3; k++)
        if (before[k] < n - 3 + k) return true;
    return false;
}

static void valid_triples(int64_t n, const int64_t *rank, int64_t count, const int64_t *choices,
                          uint8_t *valid)
{
    const int filled = (int)(count % 3);
    int64_t part[3] = {0}, before[3] = {0};
    for (int k = 0; k < filled; k++)
        part[k] = rank[choices[count - filled + k]];
    for (int k = 0; k < 3 && count >= 3; k++)
        before[k] = rank[choices[count - filled - 3 + k]];
    const bool full = count >= 3 * (2 * n - 5);
    valid[0] = filled == 0 && count > 0;
    for (int64_t j = 0; j < n; j++)
        valid[1 + j] =
            !full && triple_may_go_on(n, count >= 3 ? before : NULL, part, filled, rank[j]);
}

void fv_points_valid(fv_problem problem, int64_t n, const int64_t *rank, int64_t count,
                     const int64_t *choices, uint8_t *valid)
{
    if (problem == FV_PROBLEM_DELAUNAY) {
        valid_triples(n, rank, count, choices, valid);
        return;
    }
    valid[0] = problem == FV_PROBLEM_HULL && count >= 3;
    memset(valid + 1, 1, (size_t)n);
    for (int64_t i = 0; i < count; i++)
        valid[1 + choices[i]] = 0;
}

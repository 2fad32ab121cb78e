/*
 * Delaunay triangulation. Points come in ascending order, each connected to the edges of the hull
 * that it sees; then edges whose circle holds the opposite point are flipped until there is none.
 * With exact tests every flip makes the triangulation smaller in a well-founded order, so it ends.
 */
#include <string.h>

#include "data/plane.h"

typedef struct mesh {
    const float *points;
    int64_t *triangle; /* [count][3], counter-clockwise */
    int64_t count;
} mesh;

static int orientation_of(const mesh *m, int64_t a, int64_t b, int64_t c)
{
    return fv_orientation(fv_xy_at(m->points, a), fv_xy_at(m->points, b), fv_xy_at(m->points, c));
}

static void add_triangle(mesh *m, int64_t a, int64_t b, int64_t c)
{
    int64_t *t = m->triangle + 3 * m->count++;
    t[0] = a;
    t[1] = b;
    t[2] = c;
}

/* ---- sweep ---------------------------------------------------------------------------------- */

/* The first points on one line and the next one beside it; returns how many points they are, and
 * the hull, counter-clockwise. */
static int64_t begin_sweep(mesh *m, int64_t n, const int64_t *order, int64_t *hull,
                           int64_t *corners)
{
    int64_t line = 2;
    while (line < n && orientation_of(m, order[0], order[1], order[line]) == 0)
        line++;
    if (line == n) return 0;
    const int64_t apex = order[line];
    const bool left = orientation_of(m, order[0], order[1], apex) > 0;
    for (int64_t i = 0; i + 1 < line; i++)
        add_triangle(m, order[left ? i : i + 1], order[left ? i + 1 : i], apex);
    for (int64_t i = 0; i < line; i++)
        hull[i] = order[left ? i : line - 1 - i];
    hull[line] = apex;
    *corners = line + 1;
    return line + 1;
}

/* Connects point p, outside the hull, to the edges it sees; `next` is room for a hull. */
static int64_t add_outside(mesh *m, int64_t p, int64_t *hull, int64_t corners, int64_t *next)
{
    int64_t count = 0;
    for (int64_t i = 0; i < corners; i++) {
        const int64_t before = hull[(i + corners - 1) % corners], here = hull[i],
                      after = hull[(i + 1) % corners];
        const bool sees_before = orientation_of(m, before, here, p) < 0,
                   sees = orientation_of(m, here, after, p) < 0;
        if (sees) add_triangle(m, after, here, p);
        if (!(sees_before && sees)) next[count++] = here;
        if (sees && !sees_before) next[count++] = p;
    }
    memcpy(hull, next, (size_t)count * sizeof *hull);
    return count;
}

/* ---- flips ---------------------------------------------------------------------------------- */

/* The triangle on the other side of edge (a, b) of a triangle: the one with edge (b, a), and in *at
 * where that begins; -1: none. */
static int64_t across(const mesh *m, int64_t a, int64_t b, int *at)
{
    for (int64_t t = 0; t < m->count; t++)
        for (int k = 0; k < 3; k++)
            if (m->triangle[3 * t + k] == b && m->triangle[3 * t + (k + 1) % 3] == a) {
                *at = k;
                return t;
            }
    return -1;
}

/* Flips edge k of triangle t if the point across is inside its circle. */
static bool flip(const mesh *m, int64_t t, int k)
{
    int64_t *one = m->triangle + 3 * t;
    const int64_t a = one[k], b = one[(k + 1) % 3], c = one[(k + 2) % 3];
    int at = 0;
    const int64_t other = across(m, a, b, &at);
    if (other < 0) return false;
    int64_t *two = m->triangle + 3 * other;
    const int64_t d = two[(at + 2) % 3];
    if (fv_in_circle(fv_xy_at(m->points, a), fv_xy_at(m->points, b), fv_xy_at(m->points, c),
                     fv_xy_at(m->points, d)) <= 0)
        return false;
    one[0] = a, one[1] = d, one[2] = c;
    two[0] = d, two[1] = b, two[2] = c;
    return true;
}

int64_t fv_delaunay(const float *points, int64_t n, const int64_t *order, int64_t *room,
                    int64_t *triangles)
{
    mesh m = {.points = points, .triangle = triangles};
    int64_t corners = 0, *hull = room, *next = room + n;
    if (n < 3) return 0;
    int64_t done = begin_sweep(&m, n, order, hull, &corners);
    if (done == 0) return 0;
    for (; done < n; done++)
        corners = add_outside(&m, order[done], hull, corners, next);
    for (bool again = true; again;) {
        again = false;
        for (int64_t t = 0; t < m.count; t++)
            for (int k = 0; k < 3; k++)
                if (flip(&m, t, k)) again = true;
    }
    return m.count;
}

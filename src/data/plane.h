/*
 * Algorithms over points of the plane. Points are [n][2] floats; indices count from 0.
 *
 *     hull.c          convex hull (Andrew's monotone chain)
 *     delaunay.c      Delaunay triangulation (sweep, then Lawson's flips)
 *     tour_exact.c    shortest tours by dynamic programming (Held and Karp 1962)
 *     tour_local.c    short tours by 2-opt and Or-opt from several starts
 *     tour_bound.c    1-tree lower bound (Held and Karp 1970)
 */
#ifndef FV_DATA_PLANE_H
#define FV_DATA_PLANE_H

#include "base/ctx.h"
#include "data/exact.h"
#include "fovea/points.h"

static inline fv_xy fv_xy_at(const float *points, int64_t i)
{
    return (fv_xy){(double)points[2 * i], (double)points[2 * i + 1]};
}

double fv_xy_distance(const float *points, int64_t i, int64_t j);

/* `order` receives the indices in ascending order of points, by x, then y; equal points keep
 * theirs. */
void fv_xy_sort(int64_t n, const float *points, int64_t *order);

/* Corners of the convex hull, counter-clockwise from the smallest point; none where two edges are
 * on one line. `order` is fv_xy_sort's, corners has room for n + 1. Returns their number: 2 or less
 * if all points are on one line. */
int64_t fv_hull(const float *points, int64_t n, const int64_t *order, int64_t *corners);

/* Triangles, three indices each, counter-clockwise, in no order, at most 2 n - 5 of them. Of points
 * on one circle one of the triangulations. Returns their number: 0 if all points are on one line.
 * No two points may be equal. `order` is fv_xy_sort's, `room` holds 2 n indices. */
int64_t fv_delaunay(const float *points, int64_t n, const int64_t *order, int64_t *room,
                    int64_t *triangles);

/* A shortest tour from city 0 on, 1 <= n <= FV_TSP_EXACT_MAX. Fails: MEMORY. */
fv_status fv_tour_exact(fv_ctx *ctx, int64_t n, const float *points, int64_t *tour);
/* The shortest of `starts` tours that neither 2-opt nor Or-opt improves. Fails: MEMORY. */
fv_status fv_tour_local(fv_ctx *ctx, int64_t n, const float *points, int starts, uint64_t seed,
                        int64_t *tour);

#endif

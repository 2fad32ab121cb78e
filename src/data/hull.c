/* Convex hull by Andrew's monotone chain, and the order of points that it starts from. */
#include <math.h>

#include "data/plane.h"

double fv_xy_distance(const float *points, int64_t i, int64_t j)
{
    const fv_xy a = fv_xy_at(points, i), b = fv_xy_at(points, j);
    const double dx = a.x - b.x, dy = a.y - b.y;
    return sqrt(dx * dx + dy * dy); /* coordinates are bounded, so that nothing overflows */
}

static bool comes_after(const float *points, int64_t i, int64_t j)
{
    const int c = fv_xy_compare(fv_xy_at(points, i), fv_xy_at(points, j));
    return c > 0 || (c == 0 && i > j);
}

/* Heap sort: no memory, and no bad case. */
static void sift(int64_t *heap, int64_t from, int64_t n, const float *points)
{
    for (int64_t child; (child = 2 * from + 1) < n; from = child) {
        if (child + 1 < n && comes_after(points, heap[child + 1], heap[child])) child++;
        if (!comes_after(points, heap[child], heap[from])) return;
        const int64_t t = heap[from];
        heap[from] = heap[child];
        heap[child] = t;
    }
}

void fv_xy_sort(int64_t n, const float *points, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n / 2; i-- > 0;)
        sift(order, i, n, points);
    for (int64_t end = n - 1; end > 0; end--) {
        const int64_t t = order[0];
        order[0] = order[end];
        order[end] = t;
        sift(order, 0, end, points);
    }
}

/* Appends a point to a chain of `count` corners that turns left; never shortens it below `least`.
 */
static int64_t extend(const float *points, int64_t *corners, int64_t count, int64_t least,
                      int64_t next)
{
    while (count > least &&
           fv_orientation(fv_xy_at(points, corners[count - 2]),
                          fv_xy_at(points, corners[count - 1]), fv_xy_at(points, next)) <= 0)
        count--;
    corners[count] = next;
    return count + 1;
}

int64_t fv_hull(const float *points, int64_t n, const int64_t *order, int64_t *corners)
{
    int64_t count = 0;
    if (n < 2) {
        if (n == 1) corners[0] = order[0];
        return n;
    }
    for (int64_t i = 0; i < n; i++)
        count = extend(points, corners, count, 1, order[i]);
    const int64_t lower = count;
    for (int64_t i = n - 1; i-- > 0;)
        count = extend(points, corners, count, lower, order[i]);
    return count - 1; /* the last is the first again */
}

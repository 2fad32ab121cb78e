/*
 * Signs of determinants of points, exact for any finite coordinates without overflow: first in
 * double with an error bound, then, where that does not decide, as a sum of doubles without
 * rounding (expansions, Shewchuk 1997).
 */
#ifndef FV_DATA_EXACT_H
#define FV_DATA_EXACT_H

typedef struct fv_xy {
    double x, y;
} fv_xy;

/* > 0: a, b, c turn counter-clockwise; 0: they are on one line. */
int fv_orientation(fv_xy a, fv_xy b, fv_xy c);
/* > 0: d is inside the circle through a, b, c, which turn counter-clockwise; 0: on it. */
int fv_in_circle(fv_xy a, fv_xy b, fv_xy c, fv_xy d);

/* By x, then by y: < 0, 0, > 0. */
static inline int fv_xy_compare(fv_xy a, fv_xy b)
{
    if (a.x != b.x) return a.x < b.x ? -1 : 1;
    return a.y == b.y ? 0 : a.y < b.y ? -1 : 1;
}

#endif

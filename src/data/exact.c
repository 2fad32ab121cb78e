#include "data/exact.h"

#include <math.h>
#include <string.h>

/* A sum of doubles without rounding, of ascending magnitude, whose bits do not overlap. The largest
 * one here is a term of the circle test: 16 x 16 products of two doubles each, three times. */
enum { MOST_TERMS = 1600 };

typedef struct expansion {
    int count;
    double term[MOST_TERMS];
} expansion;

/* Differences and their products need few terms. */
enum { FEW_TERMS = 32 };

typedef struct small_expansion {
    int count;
    double term[FEW_TERMS];
} small_expansion;

/* a + b = *sum + *error, exactly. */
static void add_exactly(double a, double b, double *sum, double *error)
{
    const double s = a + b, v = s - a;
    *error = (a - (s - v)) + (b - v);
    *sum = s;
}

/* Adds b to `count` terms, which stay free of zeros; returns their new number. */
static int grow(double *term, int count, double b)
{
    int used = 0;
    double carry = b, error;
    for (int i = 0; i < count; i++) {
        add_exactly(carry, term[i], &carry, &error);
        if (error != 0) term[used++] = error;
    }
    if (carry != 0) term[used++] = carry;
    return used;
}

static void add_product(double *term, int *count, double a, double b)
{
    const double p = a * b;
    *count = grow(term, *count, fma(a, b, -p));
    *count = grow(term, *count, p);
}

static int sign_of(const double *term, int count)
{
    if (count == 0) return 0;
    return term[count - 1] > 0 ? 1 : -1;
}

/* ---- orientation ---------------------------------------------------------------------------- */

static int orientation_exactly(fv_xy a, fv_xy b, fv_xy c)
{
    double term[2 * 6];
    int count = 0;
    add_product(term, &count, a.x, b.y);
    add_product(term, &count, -a.x, c.y);
    add_product(term, &count, -c.x, b.y);
    add_product(term, &count, -a.y, b.x);
    add_product(term, &count, a.y, c.x);
    add_product(term, &count, c.y, b.x);
    return sign_of(term, count);
}

int fv_orientation(fv_xy a, fv_xy b, fv_xy c)
{
    const double left = (a.x - c.x) * (b.y - c.y), right = (a.y - c.y) * (b.x - c.x);
    const double det = left - right;
    /* (3 + 16 u) u with u = 2^-53 bounds the error relative to the sum of magnitudes */
    const double bound = 3.3306690738754716e-16 * (fabs(left) + fabs(right));
    if (fabs(det) > bound) return det > 0 ? 1 : -1;
    return orientation_exactly(a, b, c);
}

/* ---- circle --------------------------------------------------------------------------------- */

static small_expansion difference(double a, double b)
{
    small_expansion e = {.count = 0};
    e.count = grow(e.term, e.count, a);
    e.count = grow(e.term, e.count, -b);
    return e;
}

/* *sum += sign e f */
static void add_small(small_expansion *sum, const small_expansion *e, const small_expansion *f,
                      double sign)
{
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < f->count; k++)
            add_product(sum->term, &sum->count, sign * e->term[i], f->term[k]);
}

/* *sum += e f */
static void add_large(expansion *sum, const small_expansion *e, const small_expansion *f)
{
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < f->count; k++)
            add_product(sum->term, &sum->count, e->term[i], f->term[k]);
}

static int in_circle_exactly(fv_xy a, fv_xy b, fv_xy c, fv_xy d)
{
    const fv_xy p[3] = {a, b, c};
    small_expansion x[3], y[3];
    expansion det = {.count = 0};
    for (int i = 0; i < 3; i++) {
        x[i] = difference(p[i].x, d.x);
        y[i] = difference(p[i].y, d.y);
    }
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        small_expansion lift = {.count = 0}, minor = {.count = 0};
        add_small(&lift, &x[i], &x[i], 1);
        add_small(&lift, &y[i], &y[i], 1);
        add_small(&minor, &x[j], &y[k], 1);
        add_small(&minor, &x[k], &y[j], -1);
        add_large(&det, &lift, &minor);
    }
    return sign_of(det.term, det.count);
}

int fv_in_circle(fv_xy a, fv_xy b, fv_xy c, fv_xy d)
{
    const double ax = a.x - d.x, ay = a.y - d.y, bx = b.x - d.x, by = b.y - d.y, cx = c.x - d.x,
                 cy = c.y - d.y;
    const double al = ax * ax + ay * ay, bl = bx * bx + by * by, cl = cx * cx + cy * cy;
    const double det =
        al * (bx * cy - cx * by) + bl * (cx * ay - ax * cy) + cl * (ax * by - bx * ay);
    const double size = al * (fabs(bx * cy) + fabs(cx * by)) +
                        bl * (fabs(cx * ay) + fabs(ax * cy)) + cl * (fabs(ax * by) + fabs(bx * ay));
    /* (10 + 96 u) u bounds the error relative to the sum of magnitudes */
    if (fabs(det) > 1.1102230246251577e-15 * size) return det > 0 ? 1 : -1;
    return in_circle_exactly(a, b, c, d);
}

/*
 * The Fréchet distance between two sets of feature vectors, each taken as a normal distribution
 * (Dowson and Landau 1982; FID of Heusel 2017 with its own features):
 *     d^2 = |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))
 *
 *     fv_moments real, made;
 *     s = fv_moments_create(ctx, 64, &real);
 *     s = fv_moments_add(&real, features, rows);          // float [rows][64], as often as needed
 *     s = fv_frechet_distance(&real, &made, &distance);   // d^2
 *     fv_moments_free(&real);
 */
#ifndef FV_TRAIN_FRECHET_H
#define FV_TRAIN_FRECHET_H

#include "base/ctx.h"

enum { FV_MOMENTS_WIDTH = 1024 };

/* Sums over vectors, in double. */
typedef struct fv_moments {
    fv_ctx *ctx;
    int64_t width, count;
    double *sum;      /* [width] */
    double *products; /* [width][width] */
} fv_moments;

/* Fails: ARGUMENT (width not 1 .. FV_MOMENTS_WIDTH), MEMORY. */
fv_status fv_moments_create(fv_ctx *ctx, int64_t width, fv_moments *out);
void fv_moments_free(fv_moments *m); /* zeros are fine */
void fv_moments_add(fv_moments *m, const float *rows, int64_t count);

/* d^2, with covariances divided by n - 1. Fails: ARGUMENT (other widths, fewer than two vectors),
 * NONFINITE (a feature is not finite), MEMORY. */
fv_status fv_frechet_distance(const fv_moments *a, const fv_moments *b, double *out);

#endif

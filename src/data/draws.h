/*
 * A row of random numbers for one generated example, one after the other.
 *
 *     fv_draws d = fv_draws_begin(fv_rng_key(seed, part, site), number);
 *     double x = fv_draws_between(&d, -1, 1);
 *     int64_t side = fv_draws_below(&d, 6);
 */
#ifndef FV_DATA_DRAWS_H
#define FV_DATA_DRAWS_H

#include "base/rng.h"

typedef struct fv_draws {
    uint64_t key, row, block;
    uint32_t word[4];
    int left; /* of `word` */
} fv_draws;

static inline fv_draws fv_draws_begin(uint64_t key, uint64_t row)
{
    return (fv_draws){.key = key, .row = row};
}

/* In [0, 1). */
static inline double fv_draws_unit(fv_draws *d)
{
    if (d->left == 0) {
        fv_rng_draw(d->key, d->row, d->block++, d->word);
        d->left = 4;
    }
    return (double)fv_rng_unit(d->word[--d->left]);
}

static inline double fv_draws_between(fv_draws *d, double low, double high)
{
    return low + (high - low) * fv_draws_unit(d);
}

/* 0 .. n - 1, n at most 2^24. */
static inline int64_t fv_draws_below(fv_draws *d, int64_t n)
{
    return (int64_t)(fv_draws_unit(d) * (double)n);
}

#endif

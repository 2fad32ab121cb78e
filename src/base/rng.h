/*
 * Counter-based random numbers (Philox 4x32-10). A draw is a pure function of
 * (seed, step, site, row, column): any thread can compute any element, in any order.
 *
 *     uint64_t key = fv_rng_key(seed, step, site);
 *     uint32_t r[4];
 *     fv_rng_draw(key, row, col / 4, r);     // element col is r[col % 4]
 *     float u = fv_rng_unit(r[col % 4]);     // in [0, 1)
 */
#ifndef FV_BASE_RNG_H
#define FV_BASE_RNG_H

#include <stdint.h>

/* Mixes the three into a Philox key (SplitMix64 steps). */
uint64_t fv_rng_key(uint64_t seed, uint64_t step, uint64_t site);

/* Four words for counter (row, block). */
void fv_rng_draw(uint64_t key, uint64_t row, uint64_t block, uint32_t out[4]);

/* 24 bits in [0, 1): exact in float and double. */
static inline float fv_rng_unit(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#endif

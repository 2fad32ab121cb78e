/*
 * Sixteen Philox generators in parallel (base/rng.h defines the numbers). Sixteen blocks give 64
 * words; lane l takes block 4 (l mod 4) + l / 4, so that transposing the words within quarters of a
 * register puts them in column order.
 */
#ifndef FV_KERNELS_SIMD_PHILOX_H
#define FV_KERNELS_SIMD_PHILOX_H

#include "kernels/simd/simd.h"

enum { FV_PHILOX_DRAW = 4 * FV_LANES }; /* columns per call */

/* The words of columns [64 k, 64 k + 64), k = block / 16, of a row. */
V_INLINE void fv_philox_draw(uint64_t key, uint64_t row, uint64_t block, vi word[4])
{
    const vi lane = vi_count();
    const vi order = vi_add(vi_shl(vi_and(lane, vi_set(3)), 2), vi_shr(lane, 2));
    vi c0 = vi_set((uint32_t)row), c1 = vi_set((uint32_t)(row >> 32));
    vi c2 = vi_add(vi_set((uint32_t)block), order), c3 = vi_set((uint32_t)(block >> 32));
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        vi high0, low0, high1, low1;
        vi_mul_wide(c0, vi_set(0xd2511f53u), &high0, &low0);
        vi_mul_wide(c2, vi_set(0xcd9e8d57u), &high1, &low1);
        c0 = vi_xor(vi_xor(high1, c1), vi_set(k0));
        c1 = low1;
        c2 = vi_xor(vi_xor(high0, c3), vi_set(k1));
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
    vi_transpose4(word);
}

/* The threshold for unit(word) >= p: both sides times 2^24, where the left one is an integer. */
static inline uint32_t fv_philox_threshold(double p)
{
    const double bound = ceil(p * 0x1p24);
    return bound <= 0x1p24 ? (uint32_t)(bound > 0 ? bound : 0) : 1u << 24;
}

/* Lanes whose word is kept; `threshold` is fv_philox_threshold as float. */
V_INLINE vm fv_philox_kept(vi word, vf threshold)
{
    return v_ge(vi_to_float(vi_shr(word, 8)), threshold);
}

#endif

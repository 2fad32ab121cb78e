#include "base/rng.h"

/* One SplitMix64 output for state `x`: the increment, then the finaliser. */
static uint64_t split_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Each value passes through the mixer before the next joins, so that (1, 0, 0), (0, 1, 0) and
 * (0, 0, 1) end far apart and neighbouring steps or sites share nothing. */
uint64_t fv_rng_key(uint64_t seed, uint64_t step, uint64_t site)
{
    return split_mix(split_mix(split_mix(seed) ^ step) ^ site);
}

/* Philox 4x32, ten rounds. Counter words, low first: row, row >> 32, block, block >> 32; key words:
 * key, key >> 32. Vector versions must use the same layout. */
void fv_rng_draw(uint64_t key, uint64_t row, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)row, c1 = (uint32_t)(row >> 32);
    uint32_t c2 = (uint32_t)block, c3 = (uint32_t)(block >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c0 * 0xd2511f53u, p1 = (uint64_t)c2 * 0xcd9e8d57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

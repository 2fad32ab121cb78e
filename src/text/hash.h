/*
 * Hash functions for tables with exact comparison. Only speed depends on the hash values, and no
 * result depends on the order of a table.
 */
#ifndef FV_TEXT_HASH_H
#define FV_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Every input bit reaches the low bits. */
static inline uint64_t fv_hash_u64(uint64_t x)
{
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static inline uint64_t fv_hash_bytes(const char *text, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n, word;
    for (; n >= 8; n -= 8, text += 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    word = 0;
    if (n) memcpy(&word, text, n);
    return fv_hash_u64(h ^ word);
}

#endif

/*
 * A trie over bytes: finds which of many strings begin at a position, in time independent of their
 * number.
 *
 *     fv_trie t = {0};
 *     s = fv_trie_make(ctx, &t, letters, roots);       // reserves memory for that many bytes
 *     s = fv_trie_add(ctx, &t, root, "the", 3, 17);    // keeps the first value of equal strings
 *     for (uint32_t node = root; i < n && (node = fv_trie_step(&t, node, text[i])); i++)
 *         if (t.values[node] >= 0) ...                 // a string that ends after byte i
 *     fv_trie_free(ctx, &t);
 *
 * Nodes 1 to `roots` are roots: several sets of strings can share one table. Node 0 means none.
 */
#ifndef FV_TEXT_TRIE_H
#define FV_TEXT_TRIE_H

#include "base/ctx.h"
#include "text/hash.h"

typedef struct fv_trie_edge {
    uint64_t key; /* node << 8 | byte; 0: a free slot */
    uint32_t child;
} fv_trie_edge;

typedef struct fv_trie {
    fv_trie_edge *edges; /* open addressing */
    size_t slots;
    int32_t *values; /* by node; -1: no string ends there */
    size_t count, room;
} fv_trie;

/* Fails: MEMORY. */
fv_status fv_trie_make(fv_ctx *ctx, fv_trie *t, size_t letters, size_t roots);
void fv_trie_free(fv_ctx *ctx, fv_trie *t);

/* Adds a string of at least one byte; all strings together must fit `letters`. Fails: MEMORY. */
fv_status fv_trie_add(fv_ctx *ctx, fv_trie *t, uint32_t root, const char *text, size_t bytes,
                      int32_t value);

/* The slot of an edge, or the free slot where it belongs. */
static inline size_t fv_trie_slot(const fv_trie *t, uint32_t node, char byte)
{
    const uint64_t key = (uint64_t)node << 8 | (unsigned char)byte;
    size_t slot = (size_t)fv_hash_u64(key) & (t->slots - 1);
    while (t->edges[slot].key && t->edges[slot].key != key)
        slot = (slot + 1) & (t->slots - 1);
    return slot;
}

/* The node that an edge leads to, or 0. */
static inline uint32_t fv_trie_step(const fv_trie *t, uint32_t node, char byte)
{
    return t->edges[fv_trie_slot(t, node, byte)].child;
}

#endif

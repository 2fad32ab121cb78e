/*
 * A trie over bytes: which of many texts begin here? Looking costs the same however many there are.
 *
 *     fv_trie t = {0};
 *     s = fv_trie_make(ctx, &t, letters, roots);       // room for that many bytes of texts
 *     s = fv_trie_add(ctx, &t, root, "the", 3, 17);    // the first value of equal texts stays
 *     for (uint32_t node = root; i < n && (node = fv_trie_step(&t, node, text[i])); i++)
 *         if (t.values[node] >= 0) ...                 // a text that ends behind byte i
 *     fv_trie_free(ctx, &t);
 *
 * Roots are the nodes 1 to `roots`: several sets of texts may share one table. Node 0 is none.
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
    int32_t *values; /* by node; -1: no text ends there */
    size_t count, room;
} fv_trie;

/* Fails: MEMORY. */
fv_status fv_trie_make(fv_ctx *ctx, fv_trie *t, size_t letters, size_t roots);
void fv_trie_free(fv_ctx *ctx, fv_trie *t);

/* A text of at least one byte; all texts together fit the letters. Fails: MEMORY. */
fv_status fv_trie_add(fv_ctx *ctx, fv_trie *t, uint32_t root, const char *text, size_t bytes,
                      int32_t value);

/* The slot of an edge, or the free one where it would be. */
static inline size_t fv_trie_slot(const fv_trie *t, uint32_t node, char byte)
{
    const uint64_t key = (uint64_t)node << 8 | (unsigned char)byte;
    size_t slot = (size_t)fv_hash_u64(key) & (t->slots - 1);
    while (t->edges[slot].key && t->edges[slot].key != key)
        slot = (slot + 1) & (t->slots - 1);
    return slot;
}

/* The node behind an edge, or 0. */
static inline uint32_t fv_trie_step(const fv_trie *t, uint32_t node, char byte)
{
    return t->edges[fv_trie_slot(t, node, byte)].child;
}

#endif

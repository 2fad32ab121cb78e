/*
 * Counts the n-grams of one segment. Symbols are integers: code points, or word ids from
 * fv_ngrams_word. An n-gram is a trie node, keyed by the node of its first n-1 symbols and its last
 * symbol in one exact hash table, so that all orders take a single pass.
 *
 *     fv_ngrams_clear(&g);
 *     s = fv_ngrams_count(&g, FV_NGRAM_HYPOTHESIS, symbols, n, 4);
 *     s = fv_ngrams_count(&g, FV_NGRAM_REFERENCE, others, m, 4);
 *     for (size_t i = 0; i < g.count; i++) ... g.nodes[i].count[FV_NGRAM_HYPOTHESIS] ...
 */
#ifndef FV_TEXT_NGRAMS_H
#define FV_TEXT_NGRAMS_H

#include "base/ctx.h"
#include "fovea/unicode.h"

typedef enum fv_ngram_side {
    FV_NGRAM_HYPOTHESIS,
    FV_NGRAM_REFERENCE,
    FV_NGRAM_BEST, /* the maximum over the references */
    FV_NGRAM_SIDES
} fv_ngram_side;

typedef struct fv_ngram {
    uint64_t key;  /* node of the prefix << 32 | last symbol */
    uint32_t slot; /* its slot in the table */
    uint32_t order;
    uint32_t count[FV_NGRAM_SIDES];
} fv_ngram;

typedef struct fv_ngram_word {
    uint32_t at, bytes; /* in `letters` */
    uint32_t slot;
} fv_ngram_word;

typedef struct fv_ngrams {
    fv_ctx *ctx;
    fv_ngram *nodes;
    size_t count, room;
    uint32_t *table; /* index of a node + 1; 0: free */
    size_t slots;    /* a power of two */
    fv_ngram_word *words;
    size_t word_count, word_room;
    uint32_t *word_table;
    size_t word_slots;
    fv_text letters;
} fv_ngrams;

void fv_ngrams_init(fv_ngrams *g, fv_ctx *ctx);
void fv_ngrams_free(fv_ngrams *g);
/* Removes all n-grams and words, in time proportional to their number. */
void fv_ngrams_clear(fv_ngrams *g);

/* The symbol of a word; equal for equal bytes. */
fv_status fv_ngrams_word(fv_ngrams *g, const char *text, size_t bytes, uint32_t *symbol);

/* Adds every n-gram of orders 1 to `order`. */
fv_status fv_ngrams_count(fv_ngrams *g, fv_ngram_side side, const uint32_t *symbols, size_t n,
                          int order);

#endif

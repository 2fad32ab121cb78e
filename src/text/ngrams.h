/*
 * Counts the n-grams of one segment's texts. Symbols are numbers: code points, or words that
 * fv_ngrams_word numbers. An n-gram is a node: the pair of its first n-1 symbols' node and its last
 * symbol, found in one exact hash look-up, so that all orders of a text cost one pass.
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
    FV_NGRAM_BEST, /* the most that any reference has */
    FV_NGRAM_SIDES
} fv_ngram_side;

typedef struct fv_ngram {
    uint64_t key;  /* node of the beginning << 32 | last symbol */
    uint32_t slot; /* where the table names it */
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
    uint32_t *table; /* number of a node + 1; 0: free */
    size_t slots;    /* a power of two */
    fv_ngram_word *words;
    size_t word_count, word_room;
    uint32_t *word_table;
    size_t word_slots;
    fv_text letters;
} fv_ngrams;

void fv_ngrams_init(fv_ngrams *g, fv_ctx *ctx);
void fv_ngrams_free(fv_ngrams *g);
/* Forgets all n-grams and words, in time that follows their number. */
void fv_ngrams_clear(fv_ngrams *g);

/* The symbol of a word: the same for equal bytes. */
fv_status fv_ngrams_word(fv_ngrams *g, const char *text, size_t bytes, uint32_t *symbol);

/* Adds every n-gram of orders 1 to `order`. */
fv_status fv_ngrams_count(fv_ngrams *g, fv_ngram_side side, const uint32_t *symbols, size_t n,
                          int order);

#endif

/*
 * Learning the merges of BPE. Words are sequences of tokens with a count; the most frequent pair of
 * neighbours becomes a token, again and again. Counts are kept up to date, so that a merge costs
 * what its own occurrences cost.
 */
#ifndef FV_TEXT_BPE_TRAIN_H
#define FV_TEXT_BPE_TRAIN_H

#include "text/tokenizer_write.h"

/* One word: its tokens are symbols[begin .. begin + length), and become fewer. */
typedef struct fv_bpe_word {
    uint64_t count;
    size_t begin;
    uint32_t length;
} fv_bpe_word;

typedef struct fv_bpe_training {
    fv_ctx *ctx;
    fv_vocab *vocab;     /* grows by the learned tokens */
    size_t specials;     /* ids below this are never learned */
    size_t target;       /* size of the vocabulary */
    uint64_t min_count;  /* of a pair */
    size_t prefix_bytes; /* bytes that mark a token inside a word, which a joined one has once */
    fv_bpe_word *words;
    size_t word_count;  /* below 2^32 */
    int32_t *symbols;   /* -1: a character without a token, which joins nothing */
    fv_id_pair *merges; /* the result, to be freed by the caller */
    size_t merge_count, merge_room;
} fv_bpe_training;

/* Fails: MEMORY, LIMIT, CANCELLED. */
fv_status fv_bpe_train(fv_bpe_training *training);

#endif

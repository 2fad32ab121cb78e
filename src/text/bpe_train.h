/*
 * BPE training. Words are sequences of tokens with a count; the most frequent pair of adjacent
 * tokens is merged into a new token, repeatedly. Counts are updated incrementally, so that the cost
 * of a merge is proportional to its occurrences.
 */
#ifndef FV_TEXT_BPE_TRAIN_H
#define FV_TEXT_BPE_TRAIN_H

#include "text/tokenizer_write.h"

/* A word: its tokens are symbols[begin .. begin + length); merges shorten it. */
typedef struct fv_bpe_word {
    uint64_t count;
    size_t begin;
    uint32_t length;
} fv_bpe_word;

typedef struct fv_bpe_training {
    fv_ctx *ctx;
    fv_vocab *vocab;     /* the new tokens are added to it */
    size_t specials;     /* ids below this are never the result of a merge */
    size_t target;       /* size of the vocabulary */
    uint64_t min_count;  /* of a pair */
    size_t prefix_bytes; /* length of the continuation prefix ("##"), dropped from the second token
                            of a merge */
    fv_bpe_word *words;
    size_t word_count;  /* below 2^32 */
    int32_t *symbols;   /* -1: a character without a token, which never merges */
    fv_id_pair *merges; /* the result, freed by the caller */
    size_t merge_count, merge_room;
} fv_bpe_training;

/* Fails: MEMORY, LIMIT, CANCELLED. */
fv_status fv_bpe_train(fv_bpe_training *training);

#endif

/*
 * WORD2VEC: skip-gram and CBOW with negative sampling (Mikolov 2013), trained in place over a range
 * of a text.
 *
 * The text is word numbers; a negative number ends a sentence. A word is kept with probability
 * keep[word], and windows are counted in kept words. A kept word is a center; its window is drawn
 * from 1 to `window` words to either side, without words of other sentences. Its contexts are taken
 * in groups: for skip-gram FV_WORD2VEC_GROUP at a time, for CBOW all. `negatives` words are drawn
 * for each group, and one equal to the center counts nothing. With contexts h_i of a group, the
 * center o_0 and the negatives o_1 .. o_n:
 *
 *     skip-gram   g_ij = lr (y_j - sigmoid(h_i . o_j)),    y_0 = 1, else 0
 *                 h_i += sum_j g_ij o_j,    o_j += sum_i g_ij h_i
 *     CBOW        m = mean of h_i,  g_j = lr (y_j - sigmoid(m . o_j))
 *                 h_i += sum_j g_j o_j,     o_j += g_j m
 *
 * Right sides are values before the group. What is drawn for a word depends on the key and its
 * place in the text alone.
 *
 * Threads: the range is cut into rounds of `blocks` blocks of `block_words` words. A block reads
 * the vectors of the round's start and keeps what it adds to them apart, so it sees its own updates
 * and none of its neighbours'. After a round the sums of its blocks are added to the vectors in the
 * order of blocks. So the bits do not depend on the number of threads. A vector that u centers of
 * k blocks have trained gets its sums times
 *
 *     max(1 / k, 1 / max(1, FV_WORD2VEC_DAMPING lr u))
 *
 * which is 1 for all but the most frequent words; with plain sums those overshoot and diverge.
 *
 * The loss of a context, or of a mean, is the sum of -log sigmoid(+-x) over its outputs. Only
 * centers whose place is a multiple of `loss_every` are counted. With an lr of 0 the kernel
 * evaluates: no vector changes.
 */
#ifndef FV_KERNELS_WORD2VEC_H
#define FV_KERNELS_WORD2VEC_H

#include "kernels/kernel.h"

enum {
    FV_WORD2VEC_DAMPING = 1,
    FV_WORD2VEC_GROUP = 3,
    FV_WORD2VEC_MAX_WINDOW = 64,
    FV_WORD2VEC_MAX_NEGATIVES = 63,
    FV_WORD2VEC_MAX_BLOCKS = 64,
    FV_WORD2VEC_MAX_BLOCK = 1 << 16,
    FV_WORD2VEC_MAX_CONTEXTS = 2 * FV_WORD2VEC_MAX_WINDOW,
    FV_WORD2VEC_MAX_OUTPUTS = 1 + FV_WORD2VEC_MAX_NEGATIVES,
    /* Outputs whose part of the gradient of a context is summed before it is added. */
    FV_WORD2VEC_TILE = 6,
};

/* WORD2VEC ptr: inputs [vocabulary, width], outputs [vocabulary, width], result f64 [2], added to:
 * the loss, and the number of contexts or means it is of;
 * text i64 [words], keep f32 [vocabulary], and the alias table of negatives: share f32
 * [vocabulary], alias i64 [vocabulary] (word i of a uniform draw stays with probability share[i],
 * else becomes alias[i]). */
typedef struct fv_word2vec_args {
    int64_t vocabulary, width, words; /* words: of the text */
    int64_t first, count;             /* the range to train on */
    int64_t window, negatives, blocks, block_words, loss_every;
    bool cbow;
    double lr;
    uint64_t key;
} fv_word2vec_args;

/* A center with a group of its contexts. Rows of values are read only; their sums so far are in
 * `sum`, rows of `stride` elements with zeros past `width`. */
typedef struct fv_word_center {
    int contexts, outputs;
    const void *in[FV_WORD2VEC_MAX_CONTEXTS], *out[FV_WORD2VEC_MAX_OUTPUTS];
    void *in_sum[FV_WORD2VEC_MAX_CONTEXTS], *out_sum[FV_WORD2VEC_MAX_OUTPUTS];
    bool skipped[FV_WORD2VEC_MAX_OUTPUTS]; /* negatives equal to the center */
    bool any_skipped, wants_loss;
} fv_word_center;

/* What a level implements. `work` has FV_WORD_WORK elements of `stride` each. */
typedef struct fv_word_level {
    size_t element;
    /* Trains on a group; its loss where that is wanted, else 0. */
    double (*train)(const fv_word2vec_args *args, const fv_word_center *c, int64_t stride,
                    void *work);
    /* row += factor sum, `width` elements. */
    void (*add)(int64_t width, double factor, const void *sum, void *row);
} fv_word_level;

/* Elements of `work` for each level. */
int64_t fv_word2vec_work(int64_t stride);

void fv_word2vec_run(const fv_exec *exec, void *const *ptr, const fv_word2vec_args *args,
                     const fv_word_level *level);
size_t fv_word2vec_scratch(const void *args, int threads);

#endif

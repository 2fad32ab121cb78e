/* The distributions of word2vec, for its task and for tests. */
#ifndef FV_TRAIN_WORD2VEC_H
#define FV_TRAIN_WORD2VEC_H

#include <stdint.h>

/* The probability of keeping a word that has a share of the text. */
double fv_word2vec_keep(double sample, double share);

/* The alias table of a distribution: word i of a uniform draw stays with probability share[i], else
 * it becomes alias[i]. `weight`, not all zero, and `stack` [words] are overwritten. */
void fv_word2vec_alias(int64_t words, double *weight, int64_t *stack, float *share, int64_t *alias);

#endif

/*
 * NaN and infinity in whatever an attention problem hides.
 *
 *     problem p = problem_of(...), q = problem_spoilt(&p);   // the same inputs where they count
 *     run_forward(&p), run_forward(&q);
 *     CHECK(same_results(&p, &q));
 */
#ifndef FV_TEST_ATTENTION_HIDDEN_H
#define FV_TEST_ATTENTION_HIDDEN_H

#include "support/attention.h"

/* Whether query i of head h sees key j: positions, lengths, pattern, block list, a bias of -inf. */
bool problem_sees(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j);

/* A copy with results of its own and NaN, inf and -inf in the keys and values that no query sees,
 * in q, grad_o and grad_lse of the queries that see no key, and in the bias of hidden pairs. */
problem problem_spoilt(const problem *p);

/* A copy with results of its own and NaN and infinities in key j and its value. */
problem problem_spoilt_at(const problem *p, int64_t b, int64_t kv_head, int64_t j);
/* Whether both have the same bits in everything that such a key cannot reach: the queries that do
 * not see it, and the keys that none of its queries sees. */
bool same_beyond(const problem *x, const problem *y, int64_t b, int64_t kv_head, int64_t j);

#endif

/*
 * Weights of attention problems for tests, by the public calls.
 *
 *     weights_every_level(fn);            // in fn:
 *     problem p = problem_of(attn_sizes(20, 30, 8, 8));
 *     run_forward(&p);                    // the log-sum-exp
 *     vec map = weights_map(&p);
 */
#ifndef FV_TEST_ATTENTION_WEIGHTS_H
#define FV_TEST_ATTENTION_WEIGHTS_H

#include "fovea/attention_kernels.h"
#include "support/attention.h"

extern fv_attn_exec weights_exec; /* of the calls below */

/* Runs fn at every level this machine has, kernels and calls alike. */
void weights_every_level(void (*fn)(void));

fv_attn_data weights_data(const problem *p);
fv_attn_region weights_window(const problem *p); /* everything */
void weights_run(const problem *p, const fv_attn_region *w, void *out);
vec weights_map(const problem *p); /* everything */

typedef struct summary {
    vec index, weight, entropy, distance, received;
} summary;

summary weights_summary(const problem *p, int64_t top);
bool same_summaries(const summary *x, const summary *y);

#endif

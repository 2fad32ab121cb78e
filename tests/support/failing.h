/*
 * An allocator that fails at a chosen request and counts the blocks not yet freed. It aborts if a
 * block is freed with another size than it was allocated with.
 *
 *     failing_allocator f = {.fail_at = 12, .forever = true};
 *     cfg.allocator = failing_allocator_table(&f);
 *     ... use and destroy the context ...
 *     CHECK_EQ(f.live, 0);
 */
#ifndef FV_TESTS_FAILING_H
#define FV_TESTS_FAILING_H

#include "fovea/context.h"

typedef struct failing_allocator {
    long fail_at; /* 0-based number of the request that fails; -1: none */
    bool forever; /* and all after it */
    long requests, failures, live;
} failing_allocator;

fv_allocator failing_allocator_table(failing_allocator *f);

/* Calls of the library that free all they made, whatever fails. Returns the first failure. */
typedef fv_status (*failing_use)(fv_ctx *ctx, const void *user);

/*
 * Makes the calls in contexts of their own, with one request for memory failing at a time, until
 * all requests are served. A failed request must be reported as FV_ERR_MEMORY with a message, every
 * block must be freed, and now and then the calls must succeed in the same context afterwards, and
 * all requests after the failed one fail too. Returns how many runs had a failure.
 *
 *     CHECK(failing_everywhere(use_model, NULL, 0) > 100);
 *
 * spread 0: every request fails once. Otherwise fewer and fewer of them: the distance from one that
 * fails to the next is its number / spread.
 */
long failing_everywhere(failing_use use, const void *user, long spread);

#endif

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

#endif

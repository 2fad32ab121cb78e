/*
 * Thread pool. It runs one job at a time: `units` independent work items, handed out in chunks of
 * `grain` by an atomic counter; the caller works too. What a unit computes must not depend on which
 * thread runs it. The caller waits for chunks that a worker has taken, but for no worker as such:
 * it can do everything alone, however long the system leaves the workers waiting for a CPU.
 */
#ifndef FV_BASE_POOL_H
#define FV_BASE_POOL_H

#include <pthread.h>

#include "fovea/context.h"

/* Computes units [begin, end); `thread` is in [0, fv_pool_threads) and unique at any moment. */
typedef void (*fv_range_fn)(const void *arg, int64_t begin, int64_t end, int thread);

/* Runs fn over [0, units). Returns when all is done. Calls from several threads queue up.
 * Must not be called from inside fn. With pool NULL the caller runs everything. */
void fv_pool_run(fv_pool *pool, int64_t units, int64_t grain, fv_range_fn fn, const void *arg);

int fv_pool_threads(const fv_pool *pool); /* 1 for NULL */

#ifdef FV_TEST_HOOKS
/* While held, workers take no work, as if the system never ran them. */
void fv_pool_hold(fv_pool *pool, bool held);
#endif

/* Starts a thread with all signals blocked: they belong to the host program. */
bool fv_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

#endif

/*
 * Thread pool. One job at a time: `units` independent work items, handed out in
 * chunks of `grain` from an atomic counter, the caller working too. What a unit
 * computes never depends on which thread takes it.
 */
#ifndef FV_BASE_POOL_H
#define FV_BASE_POOL_H

#include <pthread.h>

#include "fovea/context.h"

/* Computes units [begin, end); `thread` is in [0, fv_pool_threads) and unique at any moment. */
typedef void (*fv_range_fn)(const void *arg, int64_t begin, int64_t end, int thread);

/* Runs fn over [0, units). Returns when all is done. Calls from several threads queue up.
 * Never call it from inside fn. pool NULL: the caller does it all. */
void fv_pool_run(fv_pool *pool, int64_t units, int64_t grain, fv_range_fn fn, const void *arg);

int fv_pool_threads(const fv_pool *pool); /* 1 for NULL */

/* Starts a thread that takes no signals: those are the host's. */
bool fv_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

#endif

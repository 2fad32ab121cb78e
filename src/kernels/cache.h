/* Stores new keys and values in a key-value cache. */
#ifndef FV_KERNELS_CACHE_H
#define FV_KERNELS_CACHE_H

#include "kernels/kernel.h"

/*
 * CACHE_APPEND ptr: keys, values (rows, room, heads, d), contiguous, of type `to`; k, v (batch,
 *   heads, n, d) of the launch's dtype with the strides below and contiguous columns; place (i64
 *   [2, batch n]: the row of each token, then its position). For token i = b n + t:
 *
 *     keys[place[i], place[batch n + i], h] = k[b, h, t]      values likewise
 *
 *   A negative row leaves its token out (padding). A row or position outside the cache is a fault
 *   and stores nothing. No two tokens may have the same place.
 */
typedef struct fv_cache_append_args {
    int64_t batch, n, heads;
    int64_t rows, room;
    int64_t width[2];     /* d of keys and of values */
    int64_t stride[2][3]; /* of k and v: batch, head, token; in elements */
    fv_dtype to, from;    /* `from` is the launch's dtype */
} fv_cache_append_args;

#endif

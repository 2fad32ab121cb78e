/* What the files of the forward pass share: attention.c has the story. */
#ifndef FV_KERNELS_SIMD_ATTENTION_FORWARD_H
#define FV_KERNELS_SIMD_ATTENTION_FORWARD_H

#include "kernels/attention_claims.h"
#include "kernels/simd/attention_simd.h"

enum { LEAST_ROWS = 48 }; /* queries of a unit, unless there are fewer */

/* How the work is cut and where its scratch lies; offsets in floats. */
typedef struct forward_plan {
    int64_t rows, row_items, keys; /* keys: n_k in whole panels */
    int64_t block;                 /* keys that the strips of a unit meet in turn */
    int64_t chunks, unit_keys;     /* units of a row of keys, and the keys of one */
    bool local;    /* one unit meets each key: it packs for itself, block by block */
    bool claimed;  /* else: a thread keeps to a head, and packs all of them in one place */
    int64_t width; /* words of a row of K: floats, or pairs */
    int64_t q_row, o_row;
    size_t q, eq, o, most, scores, weights, keep, values, local_panels, raised, records;
    size_t thread_floats; /* of one thread */
    size_t parts, panels, packed_values, states, claims, shared_floats;
} forward_plan;

/* Of packed documents: enough for the longest that there can be, local or not. */
forward_plan fv_attn_forward_plan(const fv_attn *a, int threads, bool pairs);

#endif

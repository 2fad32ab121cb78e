/*
 * The kernels behind fovea/attention_weights.h.
 *
 * ATTENTION_MAP ptr: weights, then the pointers of ATTENTION with o and v NULL.
 * args: fv_attn_map_args
 * ATTENTION_SUMMARY ptr: top_index, top_weight, entropy, distance, received (each or NULL), then
 * the pointers of ATTENTION with o and v NULL. args: fv_attn_summary_args
 */
#ifndef FV_KERNELS_ATTENTION_WEIGHTS_H
#define FV_KERNELS_ATTENTION_WEIGHTS_H

#include "fovea/attention_weights.h"
#include "kernels/attention.h"

enum { FV_ATTN_MAP_OUT, FV_ATTN_MAP_INPUTS };
enum {
    FV_ATTN_TOP_INDEX,
    FV_ATTN_TOP_WEIGHT,
    FV_ATTN_ENTROPY,
    FV_ATTN_DISTANCE,
    FV_ATTN_RECEIVED,
    FV_ATTN_SUMMARY_INPUTS
};

typedef struct fv_attn_map_args {
    fv_attn a;
    fv_attn_window w;
} fv_attn_map_args;

typedef struct fv_attn_summary_args {
    fv_attn a;
    int64_t top;
} fv_attn_summary_args;

/* Puts a weight among the `top` of a row, which are sorted; the caller has seen that it is larger
 * than the last. Earlier keys stay before later ones of equal weight. */
#define FV_ATTN_INSERT(weight, index, top, p, key)                                                 \
    do {                                                                                           \
        int64_t at_ = (top)-1;                                                                     \
        for (; at_ > 0 && (p) > (weight)[at_ - 1]; at_--) {                                        \
            (weight)[at_] = (weight)[at_ - 1];                                                     \
            (index)[at_] = (index)[at_ - 1];                                                       \
        }                                                                                          \
        (weight)[at_] = (p);                                                                       \
        (index)[at_] = (key);                                                                      \
    } while (0)

#endif

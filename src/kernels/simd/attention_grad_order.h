/*
 * The order of the backward's work items. Each is one key block of a chain; a chain is the key
 * heads that one thread must process in sequence, since they share a gradient of the bias: a single
 * key head, or those of all sequences, of all heads, or both.
 *
 * Threads process several chains concurrently, the first key blocks of each before the second ones,
 * so that a work item seldom waits for the previous one of its chain; and under a causal mask the
 * last ones are short. The order does not affect the bits: work items that add to the same memory
 * are in one chain, and those that add to dQ take turns.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_GRAD_ORDER_H
#define FV_KERNELS_SIMD_ATTENTION_GRAD_ORDER_H

#include "kernels/simd/attention_simd.h"

typedef struct backward_order {
    int64_t chains, members;         /* key heads per chain */
    int64_t chain_step, member_step; /* strides between key heads of [batch][kv_heads] */
    int64_t concurrent;              /* chains processed at the same time */
    int64_t blocks;                  /* of keys */
} backward_order;

typedef struct backward_item {
    int64_t chain, block;
} backward_item;

/* shares_bias: there is a gradient of the bias, with the layout of the bias. */
static inline backward_order backward_order_of(const fv_attn *a, bool shares_bias, int64_t blocks,
                                               int threads)
{
    const bool over_batch = shares_bias && a->bias.batch == 0,
               over_heads = shares_bias && a->bias.head == 0;
    backward_order o = {.chains = 1, .members = 1, .blocks = blocks};
    if (over_batch) {
        o.members *= a->batch;
        o.member_step = a->kv_heads;
    } else {
        o.chains *= a->batch;
        o.chain_step = a->kv_heads;
    }
    if (over_heads) {
        o.members *= a->kv_heads;
        o.member_step = 1;
    } else {
        o.chains *= a->kv_heads;
        o.chain_step = 1;
    }
    /* Shared over the keys too: all work items add to the same memory, in the order of one
     * thread. */
    const bool serial = shares_bias && a->bias.col == 0;
    o.concurrent = serial ? 1 : fv_attn_max(1, fv_attn_min(threads, o.chains));
    return o;
}

static inline int64_t backward_items_of(const backward_order *o) { return o->chains * o->blocks; }

static inline backward_item backward_item_at(const backward_order *o, int64_t index)
{
    const int64_t round = index / (o->concurrent * o->blocks), first = round * o->concurrent;
    const int64_t chains = fv_attn_min(o->concurrent, o->chains - first);
    const int64_t inside = index - first * o->blocks;
    return (backward_item){.chain = first + inside % chains, .block = inside / chains};
}

/* Number of a chain's member among [batch][kv_heads]. */
static inline int64_t backward_head_of(const backward_order *o, int64_t chain, int64_t member)
{
    return chain * o->chain_step + member * o->member_step;
}

#endif

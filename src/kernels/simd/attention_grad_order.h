/*
 * In what order the backward does its units. Each is one block of keys of a line; a line is the key
 * heads that one thread must do in turn, since their gradients of the bias are one: a key head, or
 * those of all sequences, of all heads, or both.
 *
 * Threads work on lines side by side, the first blocks of keys of each before the second ones, so
 * that a unit seldom has to wait for the one before it in its line; and what comes last, where the
 * rule is causal, is short. The order changes no bit: units that add to one place are in one line,
 * and those that add to dQ take turns.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_GRAD_ORDER_H
#define FV_KERNELS_SIMD_ATTENTION_GRAD_ORDER_H

#include "kernels/simd/attention_simd.h"

typedef struct backward_order {
    int64_t lines, members;         /* key heads of a line */
    int64_t line_step, member_step; /* from key head to key head of [batch][kv_heads] */
    int64_t side_by_side;           /* lines */
    int64_t blocks;                 /* of keys */
} backward_order;

typedef struct backward_unit {
    int64_t line, block;
} backward_unit;

/* shares: there is a gradient of the bias, which lies like the bias. */
static inline backward_order backward_order_of(const fv_attn *a, bool shares, int64_t blocks,
                                               int threads)
{
    const bool over_batch = shares && a->bias.batch == 0, over_heads = shares && a->bias.head == 0;
    backward_order o = {.lines = 1, .members = 1, .blocks = blocks};
    if (over_batch) {
        o.members *= a->batch;
        o.member_step = a->kv_heads;
    } else {
        o.lines *= a->batch;
        o.line_step = a->kv_heads;
    }
    if (over_heads) {
        o.members *= a->kv_heads;
        o.member_step = 1;
    } else {
        o.lines *= a->kv_heads;
        o.line_step = 1;
    }
    /* Over the keys too: all units add to one place, in the order of one thread. */
    const bool in_turn = shares && a->bias.col == 0;
    o.side_by_side = in_turn ? 1 : fv_attn_max(1, fv_attn_min(threads, o.lines));
    return o;
}

static inline int64_t backward_units_of(const backward_order *o) { return o->lines * o->blocks; }

static inline backward_unit backward_unit_at(const backward_order *o, int64_t index)
{
    const int64_t round = index / (o->side_by_side * o->blocks), first = round * o->side_by_side;
    const int64_t lines = fv_attn_min(o->side_by_side, o->lines - first);
    const int64_t inside = index - first * o->blocks;
    return (backward_unit){.line = first + inside % lines, .block = inside / lines};
}

/* Number of a line's member among [batch][kv_heads]. */
static inline int64_t backward_head_of(const backward_order *o, int64_t line, int64_t member)
{
    return line * o->line_step + member * o->member_step;
}

#endif

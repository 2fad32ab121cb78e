/*
 * Functions made of several ops, proved like ops: each has a descriptor with cases, so that the
 * gradient check, the sabotage, the comparison of devices and the failing memory need no line of
 * their own. The gradients of the parts are proved already; these prove that they are combined
 * correctly.
 */
#ifndef FV_TESTS_COMPOUND_H
#define FV_TESTS_COMPOUND_H

#include "support/opcase.h"

extern const fv_op_desc *const compound_table[];
extern const int compound_count;

/* Flattens and concatenates all results. NULL and integer ones are left out. */
fv_tensor *compound_join(fv_ctx *ctx, int n, fv_tensor *const *t);

/* Placeholder for a descriptor's backward: the ops inside have their own. */
void compound_backward(fv_op_back *back);

#define COMPOUND(number, called, about, function, list)                                            \
    {                                                                                              \
        .id = (fv_op_id)(FV_OP_COUNT + (number)), .name = (called), .formula = (about),            \
        .apply = (function), .backward = compound_backward, .simd_levels_differ = "see attend",    \
        FV_CASES(list),                                                                            \
    }

extern const fv_op_desc compound_scores, compound_masks, compound_local, compound_hard;
extern const fv_op_desc compound_absolute, compound_relative;
extern const fv_op_desc compound_free_heads, compound_fused_heads, compound_cross_heads;
extern const fv_op_desc compound_normed_heads;
extern const fv_op_desc compound_block, compound_grid, compound_lookup, compound_conv1d;
extern const fv_op_desc compound_sequence_nets, compound_guided;

#endif

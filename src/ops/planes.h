/* Ops that change the size of each plane of an image x [n, c, h, w], one input and one output:
 * pooling and resizing. */
#ifndef FV_OPS_PLANES_H
#define FV_OPS_PLANES_H

#include "ops/op.h"

/* The descriptor of one; the file has the functions infer, forward and backward and the array
 * `cases`. `term_count`: additive terms of the backward, 0 for one. */
#define FV_PLANES_OP(ID, op, text, params_type, term_count)                                        \
    const fv_op_desc fv_op_##op = {                                                                \
        .id = FV_OP_##ID,                                                                          \
        .name = #op,                                                                               \
        .formula = text,                                                                           \
        .min_in = 1,                                                                               \
        .max_in = 1,                                                                               \
        .params_bytes = sizeof(params_type),                                                       \
        .infer = infer,                                                                            \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .terms = (term_count),                                                                     \
        FV_CASES(cases),                                                                           \
    }

#endif

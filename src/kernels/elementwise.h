/*
 * Elementwise kernels over a broadcast shape. Every pointer has its own element strides (0 where it
 * is broadcast); the launch code merges axes first, so that the common contiguous case arrives as
 * rank 1 (or rank 0: one element) with strides 1. The output may be the same memory as an input
 * with the same strides.
 *
 * Shapes may contain zeros (then nothing is done). NaN follows IEEE unless stated otherwise.
 */
#ifndef FV_KERNELS_ELEMENTWISE_H
#define FV_KERNELS_ELEMENTWISE_H

#include "kernels/kernel.h"

typedef struct fv_elementwise_args {
    int op;    /* fv_unary, fv_binary or fv_compare */
    int which; /* BINARY_GRAD: 0 for df/da, 1 for df/db */
    int rank;
    int64_t shape[FV_MAX_RANK];
    int64_t stride[4][FV_MAX_RANK]; /* in pointer order */
    double alpha, beta;             /* op parameters; FILL's value is alpha */
    fv_dtype to, from;              /* COPY and FILL; `to` is the launch's dtype */
    unsigned bf16; /* launches with FV_BF16: bit p, pointer p is bf16; the others are f32 */
} fv_elementwise_args;

/*
 * COPY ptr: out, in.  Conversions: float -> narrower float rounds to nearest even;
 *   float -> integer truncates towards zero and saturates, NaN becomes 0;
 *   integer -> u8 saturates; bool semantics are the op's business.
 * FILL ptr: out.
 * UNARY ptr: y, x.            y = f(x)
 * UNARY_GRAD ptr: dx, g, x, y (x or y may be NULL where the formula does not use it)
 * BINARY ptr: c, a, b.
 * BINARY_GRAD ptr: out, g, a, b: g df/da (which 0) or g df/db (which 1); a and b may be NULL for
 *   ADD and SUB.
 * COMPARE ptr: out (u8), a, b.
 *
 * The functions and their derivatives are in kernels/elementwise.def.
 */
typedef enum fv_unary {
#define FV_UNARY(id, ...) FV_UNARY_##id,
#include "kernels/elementwise.def"
    FV_UNARY_COUNT
} fv_unary;

typedef enum fv_binary {
#define FV_BINARY(id, ...) FV_BINARY_##id,
#include "kernels/elementwise.def"
    FV_BINARY_COUNT
} fv_binary;

typedef enum fv_compare {
#define FV_COMPARE(id, ...) FV_COMPARE_##id,
#include "kernels/elementwise.def"
    FV_COMPARE_COUNT
} fv_compare;

/* SELECT ptr: c, cond (u8), a, b; a or b may be NULL for the constant alpha or beta in its place.
 */

#endif

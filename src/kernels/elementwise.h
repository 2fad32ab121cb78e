/*
 * Elementwise kernels over a broadcast shape. Every pointer has its own element
 * strides (0 where it is broadcast); the launch code merges axes first, so the
 * common contiguous case arrives as rank 1 (or rank 0: one element) with strides 1.
 * The output may be the very same memory as an input of the same strides.
 *
 * Shapes may hold zeros (then nothing is done). NaN follows IEEE except where said.
 */
#ifndef FV_KERNELS_ELEMENTWISE_H
#define FV_KERNELS_ELEMENTWISE_H

#include "kernels/kernel.h"

typedef struct fv_map_args {
    int op;    /* fv_unary, fv_binary or fv_compare */
    int which; /* BINARY_GRAD: 0 for df/da, 1 for df/db */
    int rank;
    int64_t shape[FV_MAX_RANK];
    int64_t stride[4][FV_MAX_RANK]; /* in pointer order */
    double alpha, beta;             /* op parameters; FILL's value is alpha */
    fv_dtype to, from;              /* COPY and FILL */
} fv_map_args;

/*
 * COPY ptr: out, in.  Conversions: float -> narrower float rounds to nearest even;
 *   float -> integer truncates towards zero and saturates, NaN becomes 0;
 *   integer -> u8 saturates; bool semantics are the op's business.
 * FILL ptr: out.
 * UNARY ptr: y, x.            y = f(x)
 * UNARY_GRAD ptr: dx, g, x, y (x or y may be NULL where the formula does not use it)
 *   Derivatives with two additive terms number them 0 and 1: tanh (1, -y^2), sigmoid (1, -y),
 *   GELU (Phi, x phi; both forms), SiLU (1, x (1 - s)).
 */
typedef enum fv_unary {
    FV_UNARY_NEG,        /* -x                                  grad uses -  */
    FV_UNARY_EXP,        /* e^x                                 y            */
    FV_UNARY_LOG,        /* ln x                                x            */
    FV_UNARY_SQRT,       /* sqrt x                              y            */
    FV_UNARY_RSQRT,      /* 1/sqrt x  : -g y^3/2                y            */
    FV_UNARY_TANH,       /*                                     y            */
    FV_UNARY_SIGMOID,    /* 1/(1+e^-x)                          y            */
    FV_UNARY_RELU,       /* max(x,0), NaN stays NaN             y            */
    FV_UNARY_GELU,       /* x Phi(x), erf form                  x            */
    FV_UNARY_GELU_TANH,  /* 0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3)))   x      */
    FV_UNARY_SILU,       /* x sigmoid(x)                        x            */
    FV_UNARY_SOFTPLUS,   /* ln(1+e^x) = max(x,0)+log1p(e^-|x|)  x            */
    FV_UNARY_ABS,        /* grad g sign(x), 0 at 0              x            */
    FV_UNARY_SQUARE,     /* x^2                                 x            */
    FV_UNARY_RECIPROCAL, /* 1/x : -g y^2                        y            */
    FV_UNARY_SIN,        /*                                     x            */
    FV_UNARY_COS,        /*                                     x            */
    FV_UNARY_ERF,        /*                                     x            */
    FV_UNARY_CLAMP,      /* to [alpha, beta]; grad g inside (bounds included), NaN stays NaN   x */
    FV_UNARY_POW,        /* x^alpha (C pow)  : g alpha x^(alpha-1)      x    */
    FV_UNARY_AFFINE,     /* alpha x + beta (one FMA)            -            */
    FV_UNARY_COUNT
} fv_unary;

/*
 * BINARY ptr: c, a, b.
 * BINARY_GRAD ptr: out, g, a, b: g df/da (which 0) or g df/db (which 1).
 */
typedef enum fv_binary {
    FV_BINARY_ADD,
    FV_BINARY_SUB,
    FV_BINARY_MUL,
    FV_BINARY_DIV, /* IEEE; integers: C truncation, x/0 = 0 */
    FV_BINARY_MAX, /* NaN if either is NaN; ties: the whole gradient to a */
    FV_BINARY_MIN, /* likewise */
    FV_BINARY_POW, /* C pow; df/da = b a^(b-1), df/db = a^b ln a (0 where a is 0 and b > 0) */
    FV_BINARY_COUNT
} fv_binary;

/* COMPARE ptr: out (u8), a, b. Unordered is false, except NE. */
typedef enum fv_compare {
    FV_COMPARE_EQ,
    FV_COMPARE_NE,
    FV_COMPARE_LT,
    FV_COMPARE_LE,
    FV_COMPARE_GT,
    FV_COMPARE_GE,
    FV_COMPARE_COUNT
} fv_compare;

/* SELECT ptr: c, cond (u8), a, b; a or b may be NULL for the constant alpha or beta in its place.
 */

#endif

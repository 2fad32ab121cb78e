/*
 * What an op is. ops.def lists every op once; each has one constant descriptor and a derivation
 * beside it: in a file of its own, or in the list of its family (kernels/elementwise.def,
 * ops/reduce.def). From the descriptor come the gradient check, the sabotage test, the comparison
 * of bits and the device coverage test: no op goes unchecked. docs/adding-an-op.md shows how to add
 * one.
 *
 * A call: apply() checks the inputs, infer() checks shapes and describes the results, apply()
 * makes them, forward() launches kernels, and, if an input needs a gradient, the call is recorded
 * on the tape with what forward saved. backward() gets the results' gradients and sends one to each
 * input.
 */
#ifndef FV_OPS_OP_H
#define FV_OPS_OP_H

#include "fovea/ops.h"
#include "tensor/launch.h"

typedef enum fv_op_id {
#define FV_OP(id, name) FV_OP_##id,
#include "ops/ops.def"
#undef FV_OP
    FV_OP_COUNT
} fv_op_id;

enum { FV_OP_MAX_OUT = 3, FV_OP_MAX_SAVED = 16, FV_CASE_INPUTS = 12, FV_OP_MAX_CAST = 16 };

typedef struct fv_op_desc fv_op_desc;

/* A result, as infer describes it. */
typedef struct fv_spec {
    fv_dtype dtype;
    int rank;
    int view_of;     /* -1: fresh memory; else the input whose memory it shares ... */
    int64_t offset;  /* ... from this element on, with these strides */
    bool is_strided; /* fresh memory has these strides too: without gaps, but in another order */
    int64_t shape[FV_MAX_RANK];
    int64_t stride[FV_MAX_RANK];
} fv_spec;

/* One call in forward. */
typedef struct fv_op_run {
    fv_ctx *ctx;
    const fv_op_desc *desc;
    const void *params;
    int n_in, n_out;      /* n_out is 1 unless infer says otherwise */
    fv_tensor *const *in; /* entries may be NULL where the op has optional inputs */
    fv_tensor *out[FV_OP_MAX_OUT];
    fv_spec spec[FV_OP_MAX_OUT];
    bool has_bf16;  /* an input is bf16 */
    bool recording; /* backward may follow: save what it needs */
    bool kept;      /* the results have their values already: forward only saves */
    int n_saved;
    fv_tensor *saved[FV_OP_MAX_SAVED];
} fv_op_run;

/* The same call in backward. */
typedef struct fv_op_back {
    fv_ctx *ctx;
    const fv_op_desc *desc;
    const void *params;
    int n_in, n_out;
    fv_tensor *const *saved; /* as forward saved them */
    fv_tensor *const *grad;  /* of each result; NULL where none arrived (n_out > 1 only) */
    struct fv_node *node;
} fv_op_back;

/* ---- inputs for the checks -------------------------------------------------------- */

typedef enum fv_gen {
    FV_GEN_NONE, /* an optional input left out (NULL); so are inputs that a case does not list */
    FV_GEN_NORMAL,
    FV_GEN_POSITIVE, /* 0.5 .. 2.5 */
    FV_GEN_UNIT,     /* 0.1 .. 0.9 */
    FV_GEN_OFFZERO,  /* normal, at least 0.2 from zero: kinks at 0 */
    FV_GEN_APART,    /* all different by at least 0.05: maxima, order */
    FV_GEN_INDEX,    /* i64 in [0, bound), not differentiated */
    FV_GEN_OFFSETS,  /* i64 ascending from 0 to bound, not differentiated */
    FV_GEN_LENGTHS,  /* i64 >= 1, descending, summing to bound, not differentiated */
    FV_GEN_MASK      /* u8 of 0 and 1, not differentiated */
} fv_gen;

typedef struct fv_case_input {
    fv_gen gen;
    int rank;
    int64_t shape[FV_MAX_RANK];
    int64_t bound; /* FV_GEN_INDEX, FV_GEN_OFFSETS, FV_GEN_LENGTHS */
    bool constant; /* real, but the op sends no gradient to it */
} fv_case_input;

/* One small input on which the op is checked. Every case is also run with strided and transposed
 * inputs. Keep them small: the check perturbs each element. */
typedef struct fv_op_case {
    const char *name;
    const void *params; /* desc->params_bytes of them, or NULL */
    int n_in;
    fv_case_input in[FV_CASE_INPUTS];
} fv_op_case;

#define FV_RANK_OF(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
/* FV_IN(NORMAL, 3, 4): a 3x4 input of normal numbers. FV_IN0(NORMAL): a scalar. */
#define FV_IN(kind, ...)                                                                           \
    {                                                                                              \
        .gen = FV_GEN_##kind, .rank = FV_RANK_OF(__VA_ARGS__), .shape = { __VA_ARGS__ }            \
    }
#define FV_IN0(kind)                                                                               \
    {                                                                                              \
        .gen = FV_GEN_##kind, .rank = 0                                                            \
    }
#define FV_IN_NONE                                                                                 \
    {                                                                                              \
        .gen = FV_GEN_NONE                                                                         \
    }
#define FV_INDEX(limit, ...)                                                                       \
    {                                                                                              \
        .gen = FV_GEN_INDEX, .bound = (limit), .rank = FV_RANK_OF(__VA_ARGS__), .shape = {         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
/* Offsets of the parts of `total` items; a test that enlarges the case enlarges both. */
#define FV_OFFSETS(total, entries)                                                                 \
    {                                                                                              \
        .gen = FV_GEN_OFFSETS, .bound = (total), .rank = 1, .shape = { entries }                   \
    }
/* Lengths of packed sequences with `total` steps in all; likewise. */
#define FV_LENGTHS(total, entries)                                                                 \
    {                                                                                              \
        .gen = FV_GEN_LENGTHS, .bound = (total), .rank = 1, .shape = { entries }                   \
    }
/* Two tensors that are broadcast: equal shapes, a row, a column, a scalar, an empty tensor. */
#define FV_BROADCAST_CASES(A, B)                                                                   \
    {.name = "3x4", .n_in = 2, .in = {FV_IN(A, 3, 4), FV_IN(B, 3, 4)}},                            \
        {.name = "row", .n_in = 2, .in = {FV_IN(A, 3, 4), FV_IN(B, 4)}},                           \
        {.name = "column", .n_in = 2, .in = {FV_IN(A, 3, 1), FV_IN(B, 2, 3, 4)}},                  \
        {.name = "scalar", .n_in = 2, .in = {FV_IN0(A), FV_IN(B, 5)}},                             \
    {                                                                                              \
        .name = "empty", .n_in = 2, .in = { FV_IN(A, 0, 4), FV_IN(B, 4) }                          \
    }

#define FV_CASES(array) .cases = (array), .n_cases = (int)(sizeof(array) / sizeof *(array))

/* How the members of a family (unary.c, binary.c, reduce.c) differ. */
typedef enum fv_op_traits {
    FV_SAVES_NONE = 0,
    FV_SAVES_X = 1 << 0,      /* backward reads the input ... */
    FV_SAVES_Y = 1 << 1,      /* ... the result */
    FV_SAVES_INPUTS = 1 << 2, /* ... both inputs */
    FV_PASSES_A = 1 << 3,     /* the gradient of the first input is that of the result ... */
    FV_PASSES_B = 1 << 4,     /* ... of the second */
    FV_NEGATES_B = 1 << 5,    /* the gradient of the second input is minus that of the result */
    FV_AVERAGES = 1 << 6      /* a sum is divided by the number of its elements */
} fv_op_traits;

/*
 * What an op does with bf16 tensors. Parameters, tables of angles, biases of scores and statistics
 * are f32 in every rule; so are the gradients of parameters. The gradient of a bf16 input is bf16.
 */
typedef enum fv_bf16_rule {
    FV_BF16_WIDENS,   /* has no bf16 form: bf16 inputs are cast to f32 first (and that recorded) */
    FV_BF16_MOVES,    /* moves elements of any dtype */
    FV_BF16_FOLLOWS,  /* the result is bf16 if one of bf16_inputs is */
    FV_BF16_COMPUTES, /* the result has the compute dtype: also bf16 if all inputs are f32 */
    FV_BF16_SUMS      /* reads bf16_inputs, and the result is f32 */
} fv_bf16_rule;

struct fv_op_desc {
    fv_op_id id;
    const char *name;
    const char *formula; /* one line for the documentation table */
    int min_in, max_in;
    int n_out; /* results; 0 means 1 */
    size_t params_bytes;
    fv_status (*infer)(fv_op_run *run);
    void (*forward)(fv_op_run *run);    /* NULL: every result is a view */
    void (*backward)(fv_op_back *back); /* NULL only together with no_backward */
    const char *no_backward;            /* why it is missing */
    /* How the checks call an op that does not go through fv_op_apply (checkpoint); else NULL. */
    fv_tensor *(*apply)(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params);
    int kernel_op; /* in a family whose kernel does several functions: which, e.g. FV_UNARY_TANH */
    unsigned traits; /* and which fv_op_traits this one has */
    int terms; /* additive terms inside backward (FV_TERM / fv_back_term); 0: a single product */
    /* Why results may differ between SIMD levels; NULL: they have equal bits. (They never differ
     * between threads, batches, layouts or devices.) */
    const char *simd_levels_differ;
    /* Bit i: levels have equal bits while input i is finite. A convolution's weights: whether their
     * products with zeros outside the image are computed or left out depends on the kernel, and
     * 0 x inf is NaN. */
    unsigned finite_inputs;
    /* Each element of a result that is a view is another one of the input: the tape may place its
     * gradient in the input's (fv_back_place). */
    bool is_view;
    /* Bit i: input i may be a packed-only weight (ops/linear_pack.c). */
    unsigned packed_only_inputs;
    fv_bf16_rule bf16;
    unsigned bf16_inputs; /* bit i: input i may be bf16; elsewhere bf16 is cast to f32 */
    bool bf16_uniform;    /* ... and so it is if another of these inputs is f32 */
    bool keepable;        /* fv_checkpoint_keeping may keep the results: forward obeys run->kept */
    const fv_op_case *cases;
    int n_cases;
};

extern const fv_op_desc *const fv_op_table[FV_OP_COUNT];

/* ---- inside infer ----------------------------------------------------------------- */

/* Sets the context's error to "name: text" and returns the status. */
fv_status fv_op_error(fv_op_run *run, fv_status status, const char *fmt, ...) FV_PRINTF(3, 4);
/* The error for inputs a and b whose shapes do not fit: names both shapes. */
fv_status fv_op_mismatch(fv_op_run *run, int a, int b, const char *why);

/* Result k like input i; with another dtype; with any shape; with the broadcast of inputs a, b. */
void fv_spec_like(fv_op_run *run, int k, int i);
void fv_spec_set(fv_op_run *run, int k, fv_dtype dtype, int rank, const int64_t *shape);
fv_status fv_spec_broadcast(fv_op_run *run, int k, int a, int b);

/* The dtype of a result by the op's rule for bf16; without bf16, that of input 0. */
fv_dtype fv_result_dtype(const fv_op_run *run);

/* Input checks that set the context's error and return it: f32, f64, or bf16 where the op's rule
 * takes it; one real dtype for all, where f32 and bf16 count as one. */
fv_status fv_need_real(fv_op_run *run, int i);
fv_status fv_need_same_real(fv_op_run *run); /* all non-NULL inputs */
fv_status fv_need_dtype(fv_op_run *run, int i, fv_dtype dtype);
fv_status fv_need_rank(fv_op_run *run, int i, int low, int high);
/* Turns a negative axis positive; fails outside the rank. */
fv_status fv_need_axis(fv_op_run *run, int i, int axis, int *out);

/* What the tape does for ops: fv_op_apply, fv_save, fv_back_send and the like. */
#include "ops/tape_interface.h"

#endif

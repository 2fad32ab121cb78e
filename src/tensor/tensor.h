/*
 * The fields of a tensor: a shape over a reference-counted buffer of device memory.
 *
 * References: the scope that a tensor belongs to holds one, every tape node that saved it holds
 * one, a parameter set holds one. A view holds the buffer, not the tensor it was made from.
 */
#ifndef FV_TENSOR_TENSOR_H
#define FV_TENSOR_TENSOR_H

#include "device/device.h"

struct fv_node;

typedef struct fv_buffer {
    int refs;
    bool owned; /* false: caller's memory (fv_wrap) */
    void *data;
    size_t bytes;
    unsigned version;      /* incremented by writes and optimizer steps, not by ops */
    void *bf16;            /* the rounded elements (tensor/bf16_copy.h), or NULL ... */
    unsigned bf16_version; /* ... of this version */
} fv_buffer;

enum fv_tensor_flags {
    FV_TENSOR_INVALID = 1,      /* what failed ops return; one per context */
    FV_TENSOR_RELEASED = 2,     /* its memory was freed by backward */
    FV_TENSOR_LEAF = 4,         /* collects a gradient */
    FV_TENSOR_RETAINED = 8,     /* value and gradient survive backward */
    FV_TENSOR_PACKED_ONLY = 16, /* released as well: only `packed` is left */
};

struct fv_tensor {
    fv_ctx *ctx;
    int refs;
    unsigned flags;
    fv_dtype dtype;
    int rank;
    int64_t count;
    int64_t shape[FV_MAX_RANK];
    int64_t stride[FV_MAX_RANK]; /* in elements */
    char *data;                  /* device address of element 0 */
    fv_buffer *buffer;

    struct fv_scope *scope; /* NULL: held by other references only */
    fv_tensor *prev, *next; /* in the scope's list */

    struct fv_node *node;    /* the recorded call that made it, while that is on the tape */
    int node_out;            /* which of the call's results */
    fv_tensor *grad;         /* leaves and retained tensors */
    fv_tensor *packed;       /* panels of this weight for GEMM, or NULL ... */
    unsigned packed_version; /* ... made from this version of its buffer */
    int packed_form;         /* fv_weight_form */
};

typedef struct fv_scope {
    struct fv_scope *parent;
    fv_tensor *first;
    int depth;
    bool kept_gradients; /* a tensor kept beyond this scope needs the calls recorded in it */
} fv_scope;

/* A new contiguous tensor in the innermost scope; the invalid tensor on failure (poisons). */
fv_tensor *fv_tensor_new(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape);
fv_tensor *fv_tensor_like(fv_ctx *ctx, const fv_tensor *t);

/* A view into base's buffer; the caller has checked that it stays inside. */
fv_tensor *fv_tensor_view(fv_ctx *ctx, const fv_tensor *base, int rank, const int64_t *shape,
                          const int64_t *stride, int64_t offset);

void fv_tensor_ref(fv_tensor *t);
void fv_tensor_unref(fv_tensor *t);       /* NULL is fine */
void fv_tensor_leave_scope(fv_tensor *t); /* drops the scope's reference, if any */
/* Frees the memory while handles stay valid: backward does this to results that are not retained.
 */
void fv_tensor_drop_memory(fv_tensor *t);

/* Whether it receives a gradient: made by a recorded op, or a leaf. */
static inline bool fv_tensor_tracked(const fv_tensor *t)
{
    return t->node != NULL || (t->flags & FV_TENSOR_LEAF);
}

/* The dtype of sums, statistics, tables and losses of a tensor: f32 for bf16. */
static inline fv_dtype fv_wide_dtype(fv_dtype dtype) { return dtype == FV_BF16 ? FV_F32 : dtype; }

/* Element count with overflow check; every size must be >= 0. */
bool fv_shape_count(int rank, const int64_t *shape, int64_t *count);
void fv_shape_strides(int rank, const int64_t *shape, int64_t *stride); /* row-major */
bool fv_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
bool fv_shape_contiguous(int rank, const int64_t *shape, const int64_t *stride);

/* "[2,3,4]" for messages. */
enum { FV_SHAPE_TEXT = 96 };
const char *fv_shape_text(char out[FV_SHAPE_TEXT], int rank, const int64_t *shape);

/* The outermost scope; the public calls are in fovea/tensor.h. */
fv_status fv_scope_push_root(fv_ctx *ctx);
void fv_scope_destroy_all(fv_ctx *ctx);

/* What the tape does when a scope or a recorded tensor ends. The tape is a layer above tensors, so
 * it puts these functions into the context (ctx->tape_hooks) when it is created. */
typedef struct fv_tape_hooks {
    /* The innermost scope, of this depth, is about to end. */
    void (*end_scope)(fv_ctx *ctx, int depth);
    /* A tensor with a node is about to be freed. */
    void (*forget_tensor)(fv_tensor *t);
} fv_tape_hooks;

#endif

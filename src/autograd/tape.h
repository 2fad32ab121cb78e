/*
 * The tape: recorded calls in the order they were made. A node owns what its backward needs and
 * knows where each input's gradient goes: to another node's result or to a leaf.
 *
 * Lifetimes: the tape holds a node; an edge from a later node holds it too, so that a node consumed
 * by one backward can still be recognised (not followed) by another. Results are weak references,
 * which a tensor clears when it is freed (fv_tape_hooks).
 */
#ifndef FV_AUTOGRAD_TAPE_H
#define FV_AUTOGRAD_TAPE_H

#include "ops/op.h"
#include "ops/product.h"

typedef struct fv_node fv_node;
typedef struct fv_pending fv_pending;
typedef struct fv_parts fv_parts;

typedef struct fv_tape_edge {
    fv_node *node;   /* the input came from this call ... */
    int out;         /* ... as this result */
    fv_tensor *leaf; /* or it is a leaf */
    bool wants;      /* neither: nothing to send */
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_tape_edge;

/* Where the result of a view lies in that of its root, the call that made the memory (parts.c). */
typedef struct fv_view {
    fv_node *root;
    int out; /* which of its results */
    int root_rank;
    int64_t root_shape[FV_MAX_RANK];
    int axis; /* it has the indices [begin, end) of this axis of the root; -1: all elements */
    int64_t begin, end;
    int64_t offset; /* of its first element */
    int rank;
    int64_t shape[FV_MAX_RANK], stride[FV_MAX_RANK];
} fv_view;

struct fv_node {
    fv_node *prev, *next;
    const fv_op_desc *desc;
    int refs;
    bool consumed;
    bool reachable; /* mark used by the check before backward; false otherwise */
    bool is_placed; /* its gradient, or a part of it, was written straight into its root's */
    int depth;      /* of the scope that recorded it */
    int n_in, n_out, n_saved;
    size_t bytes;
    const void *params;
    fv_tensor *out[FV_OP_MAX_OUT]; /* weak */
    fv_tensor *grad[FV_OP_MAX_OUT];
    fv_tensor *saved[FV_OP_MAX_SAVED];
    const fv_view *view; /* NULL: it is none, or one without a root */
    fv_parts *parts;     /* what of a gradient is written; NULL: each gradient is whole */
    fv_tape_edge edge[]; /* n_in, then the params, then the view */
};

typedef struct fv_tape {
    fv_node *first, *last;
    fv_pending *pending, *pending_last; /* deferred products, see below */
    size_t pending_bytes;
} fv_tape;

/*
 * Results of keepable ops, in the order of their calls: collected while a checkpoint runs its block
 * unrecorded, and handed out to the same calls when backward runs it again (ctx->kept).
 */
typedef struct fv_kept {
    bool replay;
    int room, count, next;
    fv_tensor *t[FV_OP_MAX_SAVED];
} fv_kept;

/* The results of this call, if they are kept: views of them in the innermost scope. */
bool fv_kept_take(fv_op_run *run);
/* Keeps the results of a finished call, if there is room. */
void fv_kept_add(fv_op_run *run);

/* Makes the context's tape and sets its hooks. Fails: MEMORY. */
fv_status fv_tape_create(fv_ctx *ctx);
void fv_tape_destroy(fv_ctx *ctx);

/* Records a finished call. Sets the context's error on failure. */
void fv_tape_record(fv_op_run *run);

/* Runs backward from y with its gradient (NULL: ones) down to the node `stop`, exclusive (NULL: to
 * the start of the tape). y must be the result of a recorded op. */
fv_status fv_tape_backward(fv_ctx *ctx, fv_tensor *y, fv_tensor *grad, const fv_node *stop);

/* Drops everything a node holds and removes it from the tape. */
void fv_node_consume(fv_ctx *ctx, fv_node *node);

/* Adds a b to the gradient of a leaf that has one. */
void fv_leaf_add_product(fv_ctx *ctx, fv_tensor *leaf, fv_matrix a, fv_matrix b);

/* Whether only its slot refers to this gradient and its memory, so that it may be changed in place.
 */
bool fv_gradient_is_exclusive(const fv_tensor *held);

/* Gradients written in place (parts.c). describe: false if the call's result is no view with a
 * root. place: the view's part of its root's gradient, for `writer` to write or, with *accumulate,
 * to add to; NULL if it has none. settle: makes the gradient whole; drop: forgets what is written.
 */
bool fv_view_describe(const fv_op_run *run, fv_view *view);
fv_tensor *fv_view_place(fv_ctx *ctx, const fv_view *view, fv_dtype dtype, const fv_node *writer,
                         bool *accumulate);
void fv_parts_settle(fv_ctx *ctx, fv_node *root);
void fv_parts_drop(fv_ctx *ctx, fv_node *root);

/* Products du^T x deferred to the end of backward (pending.c). add: false if the product is better
 * computed at once; flush: computes and adds them all; drop: discards them all. */
bool fv_pending_add(fv_ctx *ctx, fv_tensor *leaf, fv_tensor *du, fv_tensor *x);
void fv_pending_flush(fv_ctx *ctx);
void fv_pending_drop(fv_ctx *ctx);

#endif

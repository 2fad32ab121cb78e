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

typedef struct fv_edge {
    fv_node *node;   /* the input came from this call ... */
    int out;         /* ... as this result */
    fv_tensor *leaf; /* or it is a leaf */
    bool wants;      /* neither: nothing to send */
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
} fv_edge;

struct fv_node {
    fv_node *prev, *next;
    const fv_op_desc *desc;
    int refs;
    bool consumed;
    bool reachable; /* mark used by the check before backward; false otherwise */
    int depth;      /* of the scope that recorded it */
    int n_in, n_out, n_saved;
    size_t bytes;
    const void *params;
    fv_tensor *out[FV_OP_MAX_OUT]; /* weak */
    fv_tensor *grad[FV_OP_MAX_OUT];
    fv_tensor *saved[FV_OP_MAX_SAVED];
    fv_edge edge[]; /* n_in, then the params */
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

/* Products du^T x deferred to the end of backward (pending.c). add: false if the product is better
 * computed at once; flush: computes and adds them all; drop: discards them all. */
bool fv_pending_add(fv_ctx *ctx, fv_tensor *leaf, fv_tensor *du, fv_tensor *x);
void fv_pending_flush(fv_ctx *ctx);
void fv_pending_drop(fv_ctx *ctx);

#endif

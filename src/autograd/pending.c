/*
 * Deferred gradients of weights that many calls share, such as the steps of a recurrent layer. Each
 * is a product du^T x of few rows, which would spend most of its time on moving the sum and
 * packing. So all but the first wait for the end of backward, where one product over all their rows
 * adds them. An element is one chain of FMAs over the rows either way, so the bits are the same.
 */
#include "autograd/tape.h"

enum {
    MAX_ROWS = 1024,      /* a product of more rows is as fast on its own */
    MAX_BYTES = 64 << 20, /* of deferred operands: bounds the memory of long sequences */
};

struct fv_pending {
    fv_pending *next;
    fv_tensor *leaf, *du, *x;
};

static int64_t rows_of(const fv_tensor *t)
{
    const int64_t cols = t->shape[t->rank - 1];
    return cols ? t->count / cols : 0;
}

static fv_matrix dense(const fv_tensor *t)
{
    return fv_matrix_at(t->data, rows_of(t), t->shape[t->rank - 1]);
}

bool fv_pending_add(fv_ctx *ctx, fv_tensor *leaf, fv_tensor *du, fv_tensor *x)
{
    fv_tape *tape = ctx->tape;
    if (!leaf->grad || rows_of(du) > MAX_ROWS || !fv_tensor_contiguous(du) ||
        !fv_tensor_contiguous(x))
        return false;
    const size_t bytes = (size_t)(du->count + x->count) * fv_dtype_size(du->dtype);
    if (bytes > MAX_BYTES) return false;
    if (tape->pending_bytes > MAX_BYTES - bytes) fv_pending_flush(ctx);
    if (ctx->error != FV_OK) return true; /* after an error nothing is sent */
    fv_pending *p = fv_mem_alloc(&ctx->mem, sizeof *p);
    if (!p) {
        fv_poison(ctx, FV_ERR_MEMORY, "backward: no memory for a deferred product");
        return true;
    }
    *p = (fv_pending){.leaf = leaf, .du = du, .x = x};
    fv_tensor_ref(leaf);
    fv_tensor_ref(du);
    fv_tensor_ref(x);
    *(tape->pending_last ? &tape->pending_last->next : &tape->pending) = p;
    tape->pending_last = p;
    tape->pending_bytes += bytes;
    return true;
}

static void drop(fv_ctx *ctx, fv_pending *p)
{
    fv_tensor_unref(p->leaf);
    fv_tensor_unref(p->du);
    fv_tensor_unref(p->x);
    fv_mem_free(&ctx->mem, p, sizeof *p);
}

void fv_pending_drop(fv_ctx *ctx)
{
    fv_tape *tape = ctx->tape;
    while (tape->pending) {
        fv_pending *p = tape->pending;
        tape->pending = p->next;
        drop(ctx, p);
    }
    tape->pending_last = NULL;
    tape->pending_bytes = 0;
}

/* Moves the products of one leaf from the tape's list to *taken, in order; returns their rows. */
static int64_t take_leaf(fv_tape *tape, const fv_tensor *leaf, fv_pending **taken)
{
    fv_pending **from = &tape->pending, **to = taken;
    int64_t rows = 0;
    tape->pending_last = NULL;
    while (*from) {
        fv_pending *p = *from;
        if (p->leaf != leaf) {
            tape->pending_last = p;
            from = &p->next;
            continue;
        }
        *from = p->next;
        rows += rows_of(p->du);
        *to = p;
        to = &p->next;
    }
    *to = NULL;
    return rows;
}

/* Copies the rows of t into `all`, from row `at` on. */
static void copy_rows(fv_ctx *ctx, fv_tensor *all, int64_t at, fv_tensor *t)
{
    const int64_t cols = all->shape[1], shape[2] = {rows_of(t), cols}, stride[2] = {cols, 1};
    fv_tensor *to = fv_tensor_view(ctx, all, 2, shape, stride, at * cols);
    fv_tensor *from = fv_tensor_view(ctx, t, 2, shape, stride, 0);
    if (ctx->error == FV_OK) fv_copy_into(ctx, to, from);
    fv_tensor_free(ctx, &to);
    fv_tensor_free(ctx, &from);
}

/* Adds the products of a list, all of one leaf, to its gradient. */
static void multiply(fv_ctx *ctx, fv_pending *list, int64_t rows)
{
    const fv_tensor *one = list->du;
    const int64_t out = list->leaf->shape[0], in = list->leaf->shape[1];
    fv_tensor *du = list->du, *x = list->x;
    if (list->next) {
        du = fv_tensor_new(ctx, one->dtype, 2, (int64_t[]){rows, out});
        x = fv_tensor_new(ctx, one->dtype, 2, (int64_t[]){rows, in});
        int64_t at = 0;
        for (const fv_pending *p = list; p && ctx->error == FV_OK; p = p->next) {
            copy_rows(ctx, du, at, p->du);
            copy_rows(ctx, x, at, p->x);
            at += rows_of(p->du);
        }
    }
    if (ctx->error == FV_OK)
        fv_leaf_add_product(ctx, list->leaf, fv_matrix_transpose(dense(du)), dense(x));
    if (list->next) {
        fv_tensor_free(ctx, &du);
        fv_tensor_free(ctx, &x);
    }
}

void fv_pending_flush(fv_ctx *ctx)
{
    fv_tape *tape = ctx->tape;
    while (tape->pending && ctx->error == FV_OK) {
        fv_pending *list = NULL;
        const int64_t rows = take_leaf(tape, tape->pending->leaf, &list);
        multiply(ctx, list, rows);
        while (list) {
            fv_pending *next = list->next;
            drop(ctx, list);
            list = next;
        }
    }
    fv_pending_drop(ctx);
}

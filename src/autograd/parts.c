/*
 * Gradients written in place. The result of slice, permute and reshape is mostly a view: its
 * elements are some of another call's result, the root. The view's gradient then has a place in the
 * root's: the same offset and strides. An op that is given that place (fv_back_place) writes there,
 * and nothing is left to do for the views in between.
 *
 * So several slices of one tensor, such as q, k and v of one projection, fill one gradient. It
 * starts uninitialised. The root's parts say what has been written: ranges of one axis, which do
 * not overlap. Before the gradient is used as a whole, the rest is set to zero (settle).
 */
#include "autograd/tape.h"
#include "tensor/launch.h"

enum { MAX_PARTS = 8 };

typedef struct part {
    int64_t begin, end;
    const fv_node *writer; /* the call that wrote or added to it last */
} part;

struct fv_parts {
    int out;  /* of the root's results */
    int axis; /* -1: one part, all of it */
    int n;
    part part[MAX_PARTS];
};

/* ---- recording ----------------------------------------------------------------------- */

/* The range of x's axes that a slice has, if it is one of whole ranges with step 1. */
static bool find_range(const fv_tensor *x, const fv_spec *spec, fv_view *view)
{
    view->axis = -1;
    for (int i = 0; i < x->rank; i++) {
        if (spec->shape[i] == x->shape[i]) continue;
        if (view->axis >= 0 || (spec->shape[i] > 1 && spec->stride[i] != x->stride[i]))
            return false;
        view->axis = i;
        view->begin = spec->offset / x->stride[i];
        view->end = view->begin + spec->shape[i];
    }
    return true;
}

bool fv_view_describe(const fv_op_run *run, fv_view *view)
{
    const fv_spec *spec = &run->spec[0];
    if (!run->desc->is_view || spec->view_of != 0) return false;
    const fv_tensor *x = run->in[0], *y = run->out[0];
    if (!x->node || y->count == 0) return false;
    const fv_view *outer = x->node->view;
    if (outer) {
        if (y->count != x->count) return false; /* a slice of a view */
        *view = *outer;
    } else {
        if (!fv_tensor_contiguous(x)) return false;
        *view = (fv_view){.root = x->node, .out = x->node_out, .root_rank = x->rank, .axis = -1};
        for (int i = 0; i < x->rank; i++)
            view->root_shape[i] = x->shape[i];
        if (y->count != x->count && !find_range(x, spec, view)) return false;
    }
    view->offset += spec->offset;
    view->rank = spec->rank;
    for (int i = 0; i < spec->rank; i++) {
        view->shape[i] = spec->shape[i];
        view->stride[i] = spec->stride[i];
    }
    return true;
}

/* ---- places --------------------------------------------------------------------------- */

/* The first gradient of a root: nothing of it is written yet. */
static bool start(fv_ctx *ctx, const fv_view *view, fv_dtype dtype)
{
    fv_tensor *g = fv_tensor_new(ctx, dtype, view->root_rank, view->root_shape);
    if (ctx->error != FV_OK) return false;
    fv_parts *parts = fv_mem_alloc(&ctx->mem, sizeof *parts);
    if (!parts) {
        fv_poison(ctx, FV_ERR_MEMORY, "backward: no memory for the parts of a gradient");
        return false;
    }
    *parts = (fv_parts){.out = view->out, .axis = view->axis};
    fv_tensor_ref(g);
    view->root->grad[view->out] = g;
    view->root->parts = parts;
    return true;
}

/* Whether `writer` may write this part, or add to it. */
static bool claim(fv_parts *parts, const fv_view *view, const fv_node *writer, bool *accumulate)
{
    if (parts->out != view->out || parts->axis != view->axis) return false;
    for (int i = 0; i < parts->n; i++) {
        part *p = &parts->part[i];
        if (p->begin == view->begin && p->end == view->end) {
            if (p->writer == writer) return false; /* one launch would write it twice */
            p->writer = writer;
            *accumulate = true;
            return true;
        }
        if (p->begin < view->end && view->begin < p->end) return false;
    }
    if (parts->n == MAX_PARTS) return false;
    parts->part[parts->n++] = (part){view->begin, view->end, writer};
    return true;
}

fv_tensor *fv_view_place(fv_ctx *ctx, const fv_view *view, fv_dtype dtype, const fv_node *writer,
                         bool *accumulate)
{
    fv_node *root = view->root;
    fv_tensor *held = root->grad[view->out];
    *accumulate = false;
    if (root->consumed) return NULL;
    if (held && !root->parts) {
        if (!fv_gradient_is_exclusive(held)) return NULL;
        *accumulate = true;
    } else {
        if (!held && (root->parts || !start(ctx, view, dtype))) return NULL;
        if (!claim(root->parts, view, writer, accumulate)) return NULL;
    }
    return fv_tensor_view(ctx, root->grad[view->out], view->rank, view->shape, view->stride,
                          view->offset);
}

/* ---- completing a gradient ----------------------------------------------------------- */

/* Sets [begin, end) of the axis to zero. */
static void clear_range(fv_ctx *ctx, fv_tensor *g, int axis, int64_t begin, int64_t end)
{
    if (ctx->error != FV_OK || begin >= end) return;
    int64_t shape[FV_MAX_RANK];
    for (int i = 0; i < g->rank; i++)
        shape[i] = i == axis ? end - begin : g->shape[i];
    fv_tensor *gap = fv_tensor_view(ctx, g, g->rank, shape, g->stride, begin * g->stride[axis]);
    if (ctx->error == FV_OK) fv_fill(ctx, gap, 0.0);
    fv_tensor_free(ctx, &gap);
}

static void sort(fv_parts *parts)
{
    for (int i = 1; i < parts->n; i++)
        for (int k = i; k > 0 && parts->part[k].begin < parts->part[k - 1].begin; k--) {
            const part other = parts->part[k];
            parts->part[k] = parts->part[k - 1];
            parts->part[k - 1] = other;
        }
}

void fv_parts_settle(fv_ctx *ctx, fv_node *root)
{
    fv_parts *parts = root->parts;
    if (!parts) return;
    if (parts->axis >= 0) {
        fv_tensor *g = root->grad[parts->out];
        int64_t done = 0;
        sort(parts);
        for (int i = 0; i < parts->n; i++) {
            clear_range(ctx, g, parts->axis, done, parts->part[i].begin);
            done = parts->part[i].end;
        }
        clear_range(ctx, g, parts->axis, done, g->shape[parts->axis]);
    }
    fv_parts_drop(ctx, root);
}

void fv_parts_drop(fv_ctx *ctx, fv_node *root)
{
    if (root->parts) fv_mem_free(&ctx->mem, root->parts, sizeof *root->parts);
    root->parts = NULL;
}

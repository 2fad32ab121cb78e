/* Backward over the tape, and how gradients reach their inputs. */
#include <string.h>

#include "autograd/tape.h"
#include "fovea/autograd.h"
#include "kernels/reduce.h"

/* ---- queries for backward functions ----------------------------------------------- */

bool fv_back_wants(const fv_op_back *back, int i) { return back->node->edge[i].wants; }
int fv_back_rank(const fv_op_back *back, int i) { return back->node->edge[i].rank; }
const int64_t *fv_back_shape(const fv_op_back *back, int i) { return back->node->edge[i].shape; }
fv_dtype fv_back_dtype(const fv_op_back *back, int i) { return back->node->edge[i].dtype; }

fv_tensor *fv_back_new(fv_op_back *back, int i)
{
    const fv_tape_edge *edge = &back->node->edge[i];
    return fv_tensor_new(back->ctx, edge->dtype, edge->rank, edge->shape);
}

/* This call and perhaps the tensor's scope hold a reference; results of recorded ops are not
 * readable after backward. */
fv_tensor *fv_back_over(fv_op_back *back, int i, fv_tensor *saved)
{
    const bool is_kept = saved->flags & (FV_TENSOR_LEAF | FV_TENSOR_RETAINED);
    const bool is_ours = saved->refs == 1 + (saved->scope != NULL) && saved->buffer->refs == 1 &&
                         saved->buffer->owned;
    if (is_kept || !is_ours) return fv_back_new(back, i);
    return fv_tensor_view(back->ctx, saved, saved->rank, saved->shape, saved->stride, 0);
}

#ifdef FV_TEST_HOOKS
static bool is_sabotaged(const fv_op_back *back, int i)
{
    const fv_sabotage *s = &back->ctx->sabotage;
    return s->mode != FV_SABOTAGE_NONE && s->mode != FV_SABOTAGE_TERM &&
           s->op == (int)back->desc->id && s->input == i;
}

static fv_tensor *spoil(fv_op_back *back, fv_tensor *g)
{
    static const double factor[] = {
        [FV_SABOTAGE_NEGATE] = -1.0, [FV_SABOTAGE_ZERO] = 0.0, [FV_SABOTAGE_SCALE] = 1.001};
    fv_tensor *spoiled = fv_tensor_like(back->ctx, g);
    fv_elementwise_args args = {.op = FV_UNARY_AFFINE, .alpha = factor[back->ctx->sabotage.mode]};
    if (back->ctx->error == FV_OK)
        fv_launch_elementwise(back->ctx, FV_KERNEL_UNARY, g->dtype, &args, 2,
                              (fv_tensor *[]){spoiled, g});
    return spoiled;
}

bool fv_back_term(const fv_op_back *back, int k)
{
    const fv_sabotage *s = &back->ctx->sabotage;
    return !(s->mode == FV_SABOTAGE_TERM && s->op == (int)back->desc->id && s->term == k);
}
#else
bool fv_back_term(const fv_op_back *back, int k)
{
    (void)back;
    (void)k;
    return true;
}
#endif

/* ---- delivery --------------------------------------------------------------------- */

static fv_tensor **slot_of(fv_tape_edge *edge)
{
    return edge->leaf ? &edge->leaf->grad : &edge->node->grad[edge->out];
}

static bool is_sole_owner(const fv_tensor *t)
{
    return t->buffer->refs == 1 && t->buffer->owned && fv_tensor_contiguous(t);
}

/* The scope that backward opened does not count; any other scope belongs to a caller. */
bool fv_gradient_is_exclusive(const fv_tensor *held)
{
    return held->refs == 1 + (held->scope == held->ctx->scope) && is_sole_owner(held);
}

/* Whether a gradient being sent is not used again: its one reference is that of its scope or of the
 * node about to be consumed. */
static bool is_last_use(const fv_tensor *g) { return g->refs == 1 && is_sole_owner(g); }

static fv_tensor *fresh_copy(fv_ctx *ctx, const fv_tensor *g)
{
    fv_tensor *copy = fv_tensor_like(ctx, g);
    if (ctx->error == FV_OK) fv_copy_into(ctx, copy, g);
    return copy;
}

static void deliver(fv_ctx *ctx, fv_tape_edge *edge, fv_tensor *g)
{
    fv_tensor **slot = slot_of(edge);
    if (edge->node) fv_parts_settle(ctx, edge->node);
    if (*slot && fv_gradient_is_exclusive(*slot)) {
        fv_add_into(ctx, *slot, g);
        return;
    }
    if (*slot) {
        fv_tensor *sum = fresh_copy(ctx, *slot);
        if (ctx->error == FV_OK) fv_add_into(ctx, sum, g);
        g = sum;
    } else if (edge->leaf && !is_last_use(g)) {
        g = fresh_copy(ctx, g); /* a leaf's gradient shares no memory with other tensors */
    }
    if (ctx->error != FV_OK) return;
    fv_tensor_ref(g);
    fv_tensor_unref(*slot);
    *slot = g;
}

/* A gradient of f32 or bf16 as the other, if its input has that: a sum of bf16 and f32 tensors
 * sends one gradient to both. */
static fv_tensor *as_dtype(fv_ctx *ctx, fv_tensor *g, fv_dtype dtype)
{
    const bool converts =
        (g->dtype == FV_BF16 && dtype == FV_F32) || (g->dtype == FV_F32 && dtype == FV_BF16);
    if (!converts) return g;
    fv_tensor *other = fv_tensor_new(ctx, dtype, g->rank, g->shape);
    if (ctx->error == FV_OK) fv_copy_into(ctx, other, g);
    return other;
}

void fv_back_send(fv_op_back *back, int i, fv_tensor *g)
{
    fv_ctx *ctx = back->ctx;
    fv_tape_edge *edge = &back->node->edge[i];
    if (ctx->error != FV_OK || !edge->wants) return;
    g = as_dtype(ctx, g, edge->dtype);
    if (ctx->error != FV_OK) return;
    if (!fv_shape_equal(g->rank, g->shape, edge->rank, edge->shape) || g->dtype != edge->dtype) {
        char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_INTERNAL, "%s: gradient %s %s for input %d, which is %s %s",
                  back->desc->name, fv_dtype_name(g->dtype), fv_shape_text(a, g->rank, g->shape), i,
                  fv_dtype_name(edge->dtype), fv_shape_text(b, edge->rank, edge->shape));
        return;
    }
#ifdef FV_TEST_HOOKS
    if (is_sabotaged(back, i)) g = spoil(back, g);
    if (ctx->error != FV_OK) return;
#endif
    deliver(ctx, edge, g);
}

fv_tensor *fv_back_dest(fv_op_back *back, int i, bool *accumulate)
{
    *accumulate = false;
    fv_tape_edge *edge = &back->node->edge[i];
    if (edge->node) fv_parts_settle(back->ctx, edge->node);
    fv_tensor *held = *slot_of(edge);
#ifdef FV_TEST_HOOKS
    if (is_sabotaged(back, i)) held = NULL;
#endif
    if (!held || !fv_gradient_is_exclusive(held)) return fv_back_new(back, i);
    *accumulate = true;
    return held;
}

void fv_back_commit(fv_op_back *back, int i, fv_tensor *t, bool accumulated)
{
    if (!accumulated) fv_back_send(back, i, t);
}

/* Whether every view from this one to its root may be passed over: a retained one must get its
 * gradient. */
static bool can_pass_over(const fv_node *node)
{
    for (; node->view; node = node->edge[0].node)
        if (node->consumed || (node->out[0] && (node->out[0]->flags & FV_TENSOR_RETAINED)))
            return false;
    return true;
}

fv_tensor *fv_back_place(fv_op_back *back, int i, bool *accumulate)
{
    const fv_tape_edge *edge = &back->node->edge[i];
    const fv_view *view = edge->node ? edge->node->view : NULL;
    *accumulate = false;
    if (back->ctx->error != FV_OK || !edge->wants || !view) return NULL;
    const int last = view->rank - 1;
    if (last >= 0 && view->shape[last] > 1 && view->stride[last] != 1) return NULL;
#ifdef FV_TEST_HOOKS
    if (is_sabotaged(back, i)) return NULL;
#endif
    if (!can_pass_over(edge->node)) return NULL;
    fv_tensor *t = fv_view_place(back->ctx, view, edge->dtype, back->node, accumulate);
    for (fv_node *node = edge->node; t && node->view; node = node->edge[0].node)
        node->is_placed = true;
    return t;
}

fv_tensor *fv_back_place_own(fv_op_back *back, bool *accumulate)
{
    const fv_node *node = back->node;
    const fv_tape_edge *edge = &node->edge[0];
    *accumulate = false;
    if (back->ctx->error != FV_OK || !edge->wants || !node->view) return NULL;
#ifdef FV_TEST_HOOKS
    if (is_sabotaged(back, 0)) return NULL;
#endif
    if (edge->node->view) return NULL; /* only straight below the root: nothing is passed over */
    return fv_view_place(back->ctx, node->view, edge->dtype, node, accumulate);
}

void fv_back_send_product(fv_op_back *back, int i, fv_matrix a, fv_matrix b)
{
    fv_back_send_product_mixed(back, i, false, a, b);
}

void fv_back_send_product_mixed(fv_op_back *back, int i, bool bf16, fv_matrix a, fv_matrix b)
{
    bool accumulate;
    fv_tensor *dest = fv_back_dest(back, i, &accumulate);
    if (back->ctx->error != FV_OK) return;
    fv_matrix c = fv_matrix_at(dest->data, a.rows, b.cols);
    c.bf16 = dest->dtype == FV_BF16;
    fv_product_mixed(back->ctx, dest->dtype, bf16, c, a, b, accumulate);
    fv_back_commit(back, i, dest, accumulate);
}

void fv_leaf_add_product(fv_ctx *ctx, fv_tensor *leaf, fv_matrix a, fv_matrix b)
{
    const bool in_place = fv_gradient_is_exclusive(leaf->grad);
    fv_tensor *dest = in_place ? leaf->grad : fv_tensor_like(ctx, leaf);
    if (ctx->error != FV_OK) return;
    fv_product(ctx, dest->dtype, fv_matrix_at(dest->data, a.rows, b.cols), a, b, in_place);
    if (!in_place) deliver(ctx, &(fv_tape_edge){.leaf = leaf}, dest);
}

/* Whether du^T x for leaf i is deferred (pending.c). */
static bool defer_outer(fv_op_back *back, int i, bool bf16, fv_tensor *du, fv_tensor *x)
{
    fv_tensor *leaf = back->node->edge[i].leaf;
#ifdef FV_TEST_HOOKS
    if (is_sabotaged(back, i)) leaf = NULL;
#endif
    return leaf && !bf16 && fv_pending_add(back->ctx, leaf, du, x);
}

/* Sends du^T x to input i; sums, if not NULL, gets the sums of du's rows. */
static void send_outer_product(fv_op_back *back, int i, bool bf16, fv_matrix du, fv_matrix x,
                               fv_tensor *sums)
{
    bool accumulate;
    fv_tensor *dest = fv_back_dest(back, i, &accumulate);
    if (back->ctx->error != FV_OK) return;
    const fv_matrix c = fv_matrix_at(dest->data, du.cols, x.cols);
    fv_gemm gemm = fv_product_gemm(c, fv_matrix_transpose(du), x);
    gemm.accumulate = accumulate;
    gemm.bf16 = bf16 && dest->dtype == FV_F32;
    gemm.aux = sums ? FV_GEMM_AUX_ROW_SUMS : FV_GEMM_AUX_NONE;
    fv_product_launch(back->ctx, dest->dtype, &gemm,
                      (void *[6]){c.data, du.data, x.data, NULL, NULL, sums ? sums->data : NULL});
    fv_back_commit(back, i, dest, accumulate);
}

void fv_back_send_outer(fv_op_back *back, int i, int bias, bool bf16, fv_tensor *du, fv_tensor *x)
{
    fv_ctx *ctx = back->ctx;
    const bool wants_product = fv_back_wants(back, i);
    if (ctx->error != FV_OK) return;
    const bool launches = wants_product && !defer_outer(back, i, bf16, du, x);
    fv_tensor *sums = bias >= 0 ? fv_back_new(back, bias) : NULL;
    const fv_matrix a = fv_matrix_of(ctx, &du);
    /* Without columns of x there is no product to launch. */
    const bool together = sums && launches && fv_back_shape(back, i)[1] > 0;
    if (launches) {
        const fv_matrix b = fv_matrix_of(ctx, &x);
        if (ctx->error == FV_OK) send_outer_product(back, i, bf16, a, b, together ? sums : NULL);
    }
    if (sums && !together) fv_column_sum(ctx, sums->dtype, sums->data, a);
    if (sums) fv_back_send(back, bias, sums);
}

void fv_back_send_reduced(fv_op_back *back, int i, fv_tensor *g)
{
    const fv_tape_edge *edge = &back->node->edge[i];
    if (back->ctx->error != FV_OK || !edge->wants) return;
    if (fv_shape_equal(g->rank, g->shape, edge->rank, edge->shape)) {
        fv_back_send(back, i, g);
        return;
    }
    if (g->dtype == FV_BF16) g = as_dtype(back->ctx, g, FV_F32); /* sums are f32 */
    fv_tensor *sum = fv_tensor_new(back->ctx, g->dtype, edge->rank, edge->shape);
    if (back->ctx->error != FV_OK) return;
    fv_reduce_args args = {.op = FV_REDUCE_SUM, .alpha = 1.0};
    int lead = g->rank - edge->rank;
    for (int axis = 0; axis < g->rank; axis++) {
        bool reduced = axis < lead || (edge->shape[axis - lead] == 1 && g->shape[axis] != 1);
        if (reduced) {
            args.red_shape[args.red_rank] = g->shape[axis];
            args.red_stride[args.red_rank++] = g->stride[axis];
        } else {
            args.out_shape[args.out_rank] = g->shape[axis];
            args.out_stride[args.out_rank++] = g->stride[axis];
        }
    }
    if (sum->count > 0)
        fv_launch(back->ctx, FV_KERNEL_REDUCE, g->dtype, (void *[]){sum->data, NULL, g->data},
                  &args, sizeof args);
    fv_back_send(back, i, sum);
}

/* ---- backward over the tape ------------------------------------------------------- */

static void run_node(fv_ctx *ctx, fv_node *node)
{
    fv_op_back back = {.ctx = ctx,
                       .desc = node->desc,
                       .params = node->params,
                       .n_in = node->n_in,
                       .n_out = node->n_out,
                       .saved = node->saved,
                       .grad = node->grad,
                       .node = node};
#ifdef FV_TEST_HOOKS
    const fv_sabotage *s = &ctx->sabotage;
    bool drops = s->mode == FV_SABOTAGE_TERM && s->op == (int)node->desc->id;
    ctx->device->dropped = drops ? 1u << s->term : 0u;
#endif
    node->desc->backward(&back);
#ifdef FV_TEST_HOOKS
    ctx->device->dropped = 0;
#endif
}

/* Frees the memory of results that only their scope refers to; retained ones keep it and get their
 * gradient. */
static void finish_results(fv_ctx *ctx, fv_node *node, const fv_tensor *root)
{
    for (int k = 0; k < node->n_out; k++) {
        fv_tensor *t = node->out[k];
        if (!t) continue;
        if ((t->flags & FV_TENSOR_RETAINED) && node->grad[k]) {
            fv_tensor *g = fv_gradient_is_exclusive(node->grad[k]) ? node->grad[k]
                                                                   : fresh_copy(ctx, node->grad[k]);
            if (ctx->error != FV_OK) return;
            fv_tensor_ref(g);
            fv_tensor_unref(t->grad);
            t->grad = g;
        }
        bool unused = t->refs == 1 && t->scope && t != root;
        if (unused && !(t->flags & FV_TENSOR_RETAINED)) fv_tensor_drop_memory(t);
    }
}

static void drop_temporaries(fv_scope *scope)
{
    while (scope->first)
        fv_tensor_leave_scope(scope->first);
}

static bool has_gradient(const fv_node *node)
{
    for (int k = 0; k < node->n_out; k++)
        if (node->grad[k]) return true;
    return false;
}

static void run_nodes(fv_ctx *ctx, fv_node *from, const fv_node *stop, const fv_tensor *root)
{
    fv_scope *scope = ctx->scope;
    for (fv_node *node = from, *before; node != stop && ctx->error == FV_OK; node = before) {
        before = node->prev;
        if (!has_gradient(node) && !node->is_placed) continue;
        if (fv_cancelled(ctx)) {
            fv_poison(ctx, FV_ERR_CANCELLED, "backward: cancelled by the caller");
            return;
        }
        fv_parts_settle(ctx, node);
        if (has_gradient(node)) run_node(ctx, node);
        drop_temporaries(scope);
        if (ctx->error != FV_OK) return;
        /* Saved tensors go first, so that a result saved by its own op counts as unused. */
        for (int s = 0; s < node->n_saved; s++)
            fv_tensor_unref(node->saved[s]);
        node->n_saved = 0;
        finish_results(ctx, node, root);
        fv_node_consume(ctx, node);
    }
}

/* Gradients left in nodes by a failed backward must not leak into the next one. */
static void drop_gradients(fv_ctx *ctx)
{
    for (fv_node *node = ctx->tape->last; node; node = node->prev) {
        fv_parts_drop(ctx, node);
        node->is_placed = false;
        for (int k = 0; k < node->n_out; k++) {
            fv_tensor_unref(node->grad[k]);
            node->grad[k] = NULL;
        }
    }
}

fv_status fv_tape_backward(fv_ctx *ctx, fv_tensor *y, fv_tensor *grad, const fv_node *stop)
{
    fv_node *node = y->node;
    fv_no_grad_begin(ctx);
    fv_scope_begin(ctx);
    fv_tensor *seed = grad;
    if (!seed) {
        seed = fv_tensor_like(ctx, y);
        if (ctx->error == FV_OK) fv_fill(ctx, seed, 1.0);
    }
    if (ctx->error == FV_OK) {
        fv_tensor_ref(seed);
        fv_tensor_unref(node->grad[y->node_out]);
        node->grad[y->node_out] = seed;
        if (!grad) drop_temporaries(ctx->scope);
        run_nodes(ctx, node, stop, y);
        fv_pending_flush(ctx);
    }
    if (ctx->error != FV_OK) drop_gradients(ctx);
    fv_scope_end(ctx);
    fv_no_grad_end(ctx);
    return ctx->error;
}

/* An op that `from` depends on and whose input came from a consumed node, or NULL: running backward
 * would silently lose gradient there. Checked first, because backward adds to leaves as it runs. */
static const fv_op_desc *find_cut_off(fv_node *from)
{
    const fv_op_desc *found = NULL;
    from->reachable = true;
    for (fv_node *node = from; node; node = node->prev) {
        for (int i = 0; node->reachable && i < node->n_in; i++) {
            fv_node *source = node->edge[i].node;
            if (!source) continue;
            if (source->consumed)
                found = node->desc;
            else
                source->reachable = true;
        }
        node->reachable = false;
    }
    return found;
}

fv_status fv_backward_from(fv_ctx *ctx, fv_tensor *y, fv_tensor *grad)
{
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(!y || (y->flags & FV_TENSOR_INVALID), ctx, FV_ERR_STATE,
                 "backward: the tensor is not valid");
    FV_RETURN_IF(y->ctx != ctx || (grad && grad->ctx != ctx), ctx, FV_ERR_ARGUMENT,
                 "backward: the tensor belongs to another context");
    FV_RETURN_IF(
        !y->node, ctx, FV_ERR_STATE,
        "backward: the tensor is not the result of a recorded op (it depends on no leaf, was "
        "computed under no_grad, or backward was run already)");
    FV_RETURN_IF(grad && (grad->flags & (FV_TENSOR_INVALID | FV_TENSOR_RELEASED)), ctx,
                 FV_ERR_STATE, "backward: the given gradient is not valid or was released");
    FV_RETURN_IF(grad && (!fv_shape_equal(y->rank, y->shape, grad->rank, grad->shape) ||
                          grad->dtype != y->dtype),
                 ctx, FV_ERR_SHAPE,
                 "backward: the given gradient differs in shape or dtype from the tensor");
    const fv_op_desc *lost = find_cut_off(y->node);
    FV_RETURN_IF(lost, ctx, FV_ERR_STATE,
                 "backward: the inputs of %s were consumed by an earlier backward", lost->name);
    return fv_tape_backward(ctx, y, grad, NULL);
}

fv_status fv_backward(fv_ctx *ctx, fv_tensor *loss)
{
    char text[FV_SHAPE_TEXT];
    if (ctx->error == FV_OK && loss && !(loss->flags & FV_TENSOR_INVALID))
        FV_RETURN_IF(loss->count != 1, ctx, FV_ERR_SHAPE,
                     "backward: expected a loss with one element, got shape %s",
                     fv_shape_text(text, loss->rank, loss->shape));
    return fv_backward_from(ctx, loss, NULL);
}

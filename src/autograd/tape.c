#include "autograd/tape.h"

#include <string.h>

#include "base/checked_math.h"

void fv_tape_destroy(fv_ctx *ctx)
{
    while (ctx->tape->last)
        fv_node_consume(ctx, ctx->tape->last);
    fv_mem_free(&ctx->mem, ctx->tape, sizeof *ctx->tape);
    ctx->tape = NULL;
}

static void node_unref(fv_ctx *ctx, fv_node *node)
{
    if (node && --node->refs == 0) fv_mem_free(&ctx->mem, node, node->bytes);
}

/* An edge can only drop the last reference to a node that is consumed already and has no edges
 * left, so this does not recurse. */
void fv_node_consume(fv_ctx *ctx, fv_node *node)
{
    fv_tape *tape = ctx->tape;
    *(node->prev ? &node->prev->next : &tape->first) = node->next;
    *(node->next ? &node->next->prev : &tape->last) = node->prev;
    node->consumed = true;
    fv_parts_drop(ctx, node);
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k]) node->out[k]->node = NULL; /* the tensor may outlive the node */
        node->out[k] = NULL;
        fv_tensor_unref(node->grad[k]);
        node->grad[k] = NULL;
    }
    for (int s = 0; s < node->n_saved; s++)
        fv_tensor_unref(node->saved[s]);
    node->n_saved = 0;
    for (int i = 0; i < node->n_in; i++) {
        node_unref(ctx, node->edge[i].node);
        fv_tensor_unref(node->edge[i].leaf);
    }
    node->n_in = 0;
    node_unref(ctx, node);
}

static void connect(fv_tape_edge *edge, const fv_tensor *t)
{
    if (!t) {
        *edge = (fv_tape_edge){.wants = false};
        return;
    }
    edge->node = t->node;
    edge->out = t->node_out;
    edge->leaf = !t->node && (t->flags & FV_TENSOR_LEAF) ? (fv_tensor *)(uintptr_t)t : NULL;
    edge->wants = edge->node || edge->leaf;
    edge->dtype = t->dtype;
    edge->rank = t->rank;
    for (int i = 0; i < t->rank; i++)
        edge->shape[i] = t->shape[i];
    if (edge->node) edge->node->refs++;
    if (edge->leaf) fv_tensor_ref(edge->leaf);
}

/* Whether a result can have a gradient: indices and masks cannot. */
static bool is_differentiable(const fv_tensor *t)
{
    return t->dtype == FV_F32 || t->dtype == FV_F64 || t->dtype == FV_BF16 || t->dtype == FV_F16;
}

/* Whether the op created t only for its backward: such a tensor is freed with the node, not with
 * the scope. */
static bool is_private(const fv_op_run *run, const fv_tensor *t)
{
    for (int i = 0; i < run->n_in; i++)
        if (run->in[i] == t) return false;
    for (int k = 0; k < run->n_out; k++)
        if (run->out[k] == t) return false;
    return true;
}

void fv_tape_record(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_view view;
    const bool is_view = fv_view_describe(run, &view);
    const size_t align = sizeof(int64_t), params_bytes = run->desc->params_bytes;
    size_t params_at = sizeof(fv_node) + (size_t)run->n_in * sizeof(fv_tape_edge);
    size_t view_at = params_at + (params_bytes + align - 1) / align * align;
    size_t bytes = is_view ? view_at + sizeof view : params_at + params_bytes;
    fv_node *node = fv_mem_alloc(&ctx->mem, bytes);
    if (!node) {
        fv_poison(ctx, FV_ERR_MEMORY, "%s: no memory to record the call", run->desc->name);
        return;
    }
    node->desc = run->desc;
    node->refs = 1;
    node->consumed = false;
    node->reachable = false;
    node->is_placed = false;
    node->parts = NULL;
    node->view = is_view ? (fv_view *)(void *)((char *)node + view_at) : NULL;
    if (is_view) memcpy((char *)node + view_at, &view, sizeof view);
    node->depth = ctx->scope->depth;
    node->n_in = run->n_in;
    node->n_out = run->n_out;
    node->n_saved = run->n_saved;
    node->bytes = bytes;
    node->params = run->desc->params_bytes ? (char *)node + params_at : NULL;
    if (node->params) memcpy((char *)node + params_at, run->params, run->desc->params_bytes);
    for (int i = 0; i < run->n_in; i++)
        connect(&node->edge[i], run->in[i]);
    for (int s = 0; s < run->n_saved; s++) {
        node->saved[s] = run->saved[s];
        if (!run->saved[s]) continue;
        fv_tensor_ref(run->saved[s]);
        if (is_private(run, run->saved[s])) fv_tensor_leave_scope(run->saved[s]);
    }
    for (int k = 0; k < run->n_out; k++) {
        node->grad[k] = NULL;
        node->out[k] = NULL;
        if (!is_differentiable(run->out[k])) continue;
        node->out[k] = run->out[k];
        run->out[k]->node = node;
        run->out[k]->node_out = k;
    }
    fv_tape *tape = ctx->tape;
    node->prev = tape->last;
    node->next = NULL;
    *(tape->last ? &tape->last->next : &tape->first) = node;
    tape->last = node;
}

static void forget_tensor(fv_tensor *t) { t->node->out[t->node_out] = NULL; }

/* Nodes of an ending scope go with it, unless a tensor kept from it still needs them: then they
 * move to the enclosing scope. They are the newest ones, so they stand at the end of the tape. */
static void end_scope(fv_ctx *ctx, int depth)
{
    fv_tape *tape = ctx->tape;
    if (ctx->scope->kept_gradients) {
        for (fv_node *node = tape->last; node && node->depth >= depth; node = node->prev)
            node->depth = depth - 1;
        return;
    }
    while (tape->last && tape->last->depth >= depth)
        fv_node_consume(ctx, tape->last);
}

fv_status fv_tape_create(fv_ctx *ctx)
{
    static const fv_tape_hooks hooks = {.end_scope = end_scope, .forget_tensor = forget_tensor};
    ctx->tape_hooks = &hooks;
    ctx->tape = fv_mem_zalloc(&ctx->mem, sizeof *ctx->tape);
    return ctx->tape ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "no memory for the tape");
}

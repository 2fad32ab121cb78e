#include "train/grad_tree.h"

static size_t set_bytes(const fv_grad_tree *tree)
{
    return (size_t)tree->params->count * sizeof(fv_tensor *);
}

static void free_set(const fv_grad_tree *tree, fv_tensor **set)
{
    for (int i = 0; set && i < tree->params->count; i++)
        fv_tensor_unref(set[i]);
    fv_mem_free(&tree->params->ctx->mem, set, set ? set_bytes(tree) : 0);
}

/* left += right; frees right. */
static void add(const fv_grad_tree *tree, fv_tensor **left, fv_tensor **right)
{
    for (int i = 0; i < tree->params->count; i++) {
        if (left[i] && right[i]) {
            fv_add_into(tree->params->ctx, left[i], right[i]);
        } else if (right[i]) {
            left[i] = right[i];
            right[i] = NULL;
        }
    }
    free_set(tree, right);
}

fv_status fv_grad_tree_add(fv_grad_tree *tree, int64_t part)
{
    const fv_params *params = tree->params;
    fv_tensor **set = fv_mem_zalloc(&params->ctx->mem, set_bytes(tree));
    FV_RETURN_IF(!set, params->ctx, FV_ERR_MEMORY, "no memory for the gradients of a step's parts");
    for (int i = 0; i < params->count; i++) {
        set[i] = params->items[i].tensor->grad;
        params->items[i].tensor->grad = NULL;
    }
    int level = 0;
    for (; part >> level & 1; level++) {
        add(tree, tree->sum[level], set);
        set = tree->sum[level];
        tree->sum[level] = NULL;
    }
    tree->sum[level] = set;
    return params->ctx->error;
}

fv_status fv_grad_tree_finish(fv_grad_tree *tree)
{
    const fv_params *params = tree->params;
    fv_tensor **all = NULL;
    for (int level = 0; level < FV_GRAD_TREE_LEVELS; level++) {
        if (!tree->sum[level]) continue;
        if (all) add(tree, tree->sum[level], all);
        all = tree->sum[level];
        tree->sum[level] = NULL;
    }
    for (int i = 0; all && i < params->count; i++) {
        params->items[i].tensor->grad = all[i];
        all[i] = NULL;
    }
    free_set(tree, all);
    return params->ctx->error;
}

void fv_grad_tree_free(fv_grad_tree *tree)
{
    for (int level = 0; level < FV_GRAD_TREE_LEVELS; level++) {
        if (tree->sum[level]) free_set(tree, tree->sum[level]);
        tree->sum[level] = NULL;
    }
}

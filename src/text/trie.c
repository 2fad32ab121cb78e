#include "text/trie.h"

#include "base/checked_math.h"

static fv_status add_node(fv_ctx *ctx, fv_trie *t, uint32_t *node)
{
    FV_RETURN_IF(t->count >= UINT32_MAX, ctx, FV_ERR_LIMIT, "trie: too many nodes");
    int32_t *values = fv_mem_grow(&ctx->mem, t->values, &t->room, t->count + 1, sizeof *values);
    FV_RETURN_IF(!values, ctx, FV_ERR_MEMORY, "out of memory");
    t->values = values;
    values[t->count] = -1;
    *node = (uint32_t)t->count++;
    return FV_OK;
}

fv_status fv_trie_make(fv_ctx *ctx, fv_trie *t, size_t letters, size_t roots)
{
    size_t slots = 16, bytes;
    uint32_t node;
    while (slots / 2 < letters && slots <= SIZE_MAX / 4)
        slots *= 2;
    FV_RETURN_IF(!fv_checked_mul_size(slots, sizeof *t->edges, &bytes), ctx, FV_ERR_MEMORY,
                 "out of memory");
    t->edges = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!t->edges, ctx, FV_ERR_MEMORY, "out of memory");
    t->slots = slots;
    for (size_t i = 0; i <= roots; i++)
        FV_TRY(add_node(ctx, t, &node));
    return FV_OK;
}

void fv_trie_free(fv_ctx *ctx, fv_trie *t)
{
    fv_mem_free(&ctx->mem, t->edges, t->slots * sizeof *t->edges);
    fv_mem_free(&ctx->mem, t->values, t->room * sizeof *t->values);
    *t = (fv_trie){0};
}

fv_status fv_trie_add(fv_ctx *ctx, fv_trie *t, uint32_t root, const char *text, size_t bytes,
                      int32_t value)
{
    uint32_t node = root;
    for (size_t i = 0; i < bytes; i++) {
        fv_trie_edge *edge = &t->edges[fv_trie_slot(t, node, text[i])];
        if (!edge->key) {
            uint32_t child = 0;
            FV_TRY(add_node(ctx, t, &child));
            *edge = (fv_trie_edge){(uint64_t)node << 8 | (unsigned char)text[i], child};
        }
        node = edge->child;
    }
    if (t->values[node] < 0) t->values[node] = value;
    return FV_OK;
}

#include "io/toml_tree.h"

#include <string.h>

#include "base/checked_math.h"

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

static uint64_t hash(const toml_tree *tree, const toml_node *parent, const char *key, size_t bytes)
{
    uint64_t h = mix(tree->seed ^ (uintptr_t)parent);
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)key[i]) * 0x100000001B3u;
    return mix(h ^ bytes);
}

static bool matches(const toml_node *node, const toml_node *parent, const fv_member *item)
{
    return node->parent == parent && node->item.key_bytes == item->key_bytes &&
           memcmp(node->item.key, item->key, item->key_bytes) == 0;
}

toml_node *toml_tree_find(const toml_tree *tree, const toml_node *parent, const fv_member *item)
{
    size_t mask = tree->slot_count - 1;
    for (size_t i = hash(tree, parent, item->key, item->key_bytes) & mask; tree->slots[i];
         i = (i + 1) & mask)
        if (matches(tree->slots[i], parent, item)) return tree->slots[i];
    return NULL;
}

static void place(toml_tree *tree, toml_node *node)
{
    size_t mask = tree->slot_count - 1;
    size_t i = hash(tree, node->parent, node->item.key, node->item.key_bytes) & mask;
    while (tree->slots[i])
        i = (i + 1) & mask;
    tree->slots[i] = node;
}

/* Keeps at least half of the slots free. */
static bool make_room(toml_tree *tree)
{
    if (tree->used < tree->slot_count / 2) return true;
    fv_mem *mem = tree->scan->doc->arena.mem;
    toml_node **old = tree->slots;
    size_t old_count = tree->slot_count, count, bytes;
    if (!fv_checked_mul_size(old_count ? old_count : 32, 2, &count)) return false;
    if (!fv_checked_mul_size(count, sizeof *old, &bytes)) return false;
    toml_node **slots = fv_mem_zalloc(mem, bytes);
    if (!slots) return false;
    tree->slots = slots;
    tree->slot_count = count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i]) place(tree, old[i]);
    fv_mem_free(mem, old, old_count * sizeof *old);
    return true;
}

fv_status toml_tree_init(toml_tree *tree, fv_parser *scan)
{
    *tree = (toml_tree){.scan = scan};
    toml_node *root = fv_arena_alloc(&scan->doc->arena, sizeof *root);
    if (!root || !make_room(tree)) return fv_parser_out_of_memory(scan);
    /* The address differs from run to run, so no file can be crafted with colliding keys; results
     * never depend on it. */
    tree->seed = mix((uintptr_t)tree->slots);
    *root = (toml_node){.origin = TOML_HEADER};
    root->item.value = fv_parser_value(scan, FV_VALUE_OBJECT);
    tree->root = root;
    return FV_OK;
}

void toml_tree_free(toml_tree *tree)
{
    fv_mem_free(tree->scan->doc->arena.mem, tree->slots, tree->slot_count * sizeof *tree->slots);
    *tree = (toml_tree){.scan = tree->scan};
}

fv_status toml_tree_add(toml_tree *tree, toml_node *parent, const fv_member *item,
                        toml_origin origin, toml_node **out)
{
    toml_node *node = fv_arena_alloc(&tree->scan->doc->arena, sizeof *node);
    if (!node || !make_room(tree)) return fv_parser_out_of_memory(tree->scan);
    *node = (toml_node){.item = *item, .origin = origin, .parent = parent};
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    if (item->key) {
        place(tree, node);
        tree->used++;
    }
    *out = node;
    return FV_OK;
}

static bool is_container(const toml_node *node)
{
    return node->item.value.kind == FV_VALUE_ARRAY || node->item.value.kind == FV_VALUE_OBJECT;
}

static fv_status convert(const toml_tree *tree, fv_doc_builder *builder)
{
    const toml_node *node = tree->root;
    while (node) {
        if (is_container(node)) {
            FV_TRY(fv_doc_builder_open(builder, &node->item));
            if (node->first) {
                node = node->first;
                continue;
            }
            FV_TRY(fv_doc_builder_close(builder));
        } else {
            FV_TRY(fv_doc_builder_add(builder, &node->item));
        }
        /* Return to the closest ancestor with items left. */
        while (node && !node->next) {
            node = node->parent;
            if (node) FV_TRY(fv_doc_builder_close(builder));
        }
        if (node) node = node->next;
    }
    return FV_OK;
}

fv_status toml_tree_finish(toml_tree *tree)
{
    fv_doc_builder builder;
    fv_doc_builder_init(&builder, tree->scan);
    fv_status status = convert(tree, &builder);
    fv_doc_builder_free(&builder);
    return status;
}

/* The tree of a TOML document during parsing (toml_tree.h). */
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

static bool matches(const toml_node *node, const toml_node *parent, const fv_member *member)
{
    return node->parent == parent && node->member.key_bytes == member->key_bytes &&
           memcmp(node->member.key, member->key, member->key_bytes) == 0;
}

toml_node *toml_tree_find(const toml_tree *tree, const toml_node *parent, const fv_member *member)
{
    size_t mask = tree->slot_count - 1;
    for (size_t i = hash(tree, parent, member->key, member->key_bytes) & mask; tree->slots[i];
         i = (i + 1) & mask)
        if (matches(tree->slots[i], parent, member)) return tree->slots[i];
    return NULL;
}

static void place(toml_tree *tree, toml_node *node)
{
    size_t mask = tree->slot_count - 1;
    size_t i = hash(tree, node->parent, node->member.key, node->member.key_bytes) & mask;
    while (tree->slots[i])
        i = (i + 1) & mask;
    tree->slots[i] = node;
}

/* Keeps at least half of the slots free. */
static bool make_room(toml_tree *tree)
{
    if (tree->used < tree->slot_count / 2) return true;
    fv_mem *mem = tree->parser->doc->arena.mem;
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

fv_status toml_tree_init(toml_tree *tree, fv_parser *parser)
{
    *tree = (toml_tree){.parser = parser};
    toml_node *root = fv_arena_alloc(&parser->doc->arena, sizeof *root);
    if (!root || !make_room(tree)) return fv_parser_out_of_memory(parser);
    /* The address differs from run to run, so no file can be crafted with colliding keys; results
     * never depend on it. */
    tree->seed = mix((uintptr_t)tree->slots);
    *root = (toml_node){.origin = TOML_HEADER};
    root->member.value = fv_parser_value(parser, FV_VALUE_OBJECT);
    tree->root = root;
    return FV_OK;
}

void toml_tree_free(toml_tree *tree)
{
    fv_mem_free(tree->parser->doc->arena.mem, tree->slots, tree->slot_count * sizeof *tree->slots);
    *tree = (toml_tree){.parser = tree->parser};
}

fv_status toml_tree_add(toml_tree *tree, toml_node *parent, const fv_member *member,
                        toml_origin origin, toml_node **out)
{
    toml_node *node = fv_arena_alloc(&tree->parser->doc->arena, sizeof *node);
    if (!node || !make_room(tree)) return fv_parser_out_of_memory(tree->parser);
    *node = (toml_node){.member = *member, .origin = origin, .parent = parent};
    if (parent->last_child)
        parent->last_child->next_sibling = node;
    else
        parent->first_child = node;
    parent->last_child = node;
    if (member->key) {
        place(tree, node);
        tree->used++;
    }
    *out = node;
    return FV_OK;
}

static bool is_container(const toml_node *node)
{
    return node->member.value.kind == FV_VALUE_ARRAY || node->member.value.kind == FV_VALUE_OBJECT;
}

static fv_status convert(const toml_tree *tree, fv_doc_builder *builder)
{
    const toml_node *node = tree->root;
    while (node) {
        if (is_container(node)) {
            FV_TRY(fv_doc_builder_open(builder, &node->member));
            if (node->first_child) {
                node = node->first_child;
                continue;
            }
            FV_TRY(fv_doc_builder_close(builder));
        } else {
            FV_TRY(fv_doc_builder_add(builder, &node->member));
        }
        /* Return to the closest ancestor with children left. */
        while (node && !node->next_sibling) {
            node = node->parent;
            if (node) FV_TRY(fv_doc_builder_close(builder));
        }
        if (node) node = node->next_sibling;
    }
    return FV_OK;
}

fv_status toml_tree_finish(toml_tree *tree)
{
    fv_doc_builder builder;
    fv_doc_builder_init(&builder, tree->parser);
    fv_status status = convert(tree, &builder);
    fv_doc_builder_free(&builder);
    return status;
}

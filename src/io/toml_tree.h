/*
 * The tree during parsing. Tables stay open, because "[a]" and a later "[a.b]" extend the same
 * table. One hash table over (parent, key) finds children.
 */
#ifndef FV_IO_TOML_TREE_H
#define FV_IO_TOML_TREE_H

#include "io/parser.h"

/* How a node was defined; decides what may extend it. */
typedef enum toml_origin {
    TOML_CLOSED,  /* a value: nothing */
    TOML_INLINE,  /* an inline table or array, still being read */
    TOML_IMPLIED, /* the "a" of "[a.b]": may be defined by a later "[a]" */
    TOML_HEADER,  /* "[a]" */
    TOML_DOTTED   /* the "a" of "a.b = 1": may be extended by other dotted keys */
} toml_origin;

typedef struct toml_node {
    fv_member item; /* key and value; arrays and tables get their items when parsing ends */
    toml_origin origin;
    struct toml_node *parent, *first, *last, *next;
} toml_node;

typedef struct toml_tree {
    fv_parser *scan;
    toml_node *root;
    toml_node **slots; /* open addressing; the count is a power of two */
    size_t slot_count, used;
    uint64_t seed;
} toml_tree;

fv_status toml_tree_init(toml_tree *tree, fv_parser *scan);
void toml_tree_free(toml_tree *tree);

/* The child of `parent` with the key of `item`, or NULL. */
toml_node *toml_tree_find(const toml_tree *tree, const toml_node *parent, const fv_member *item);
/* Adds a child; in an array, `item` has no key. The key must be new. */
fv_status toml_tree_add(toml_tree *tree, toml_node *parent, const fv_member *item,
                        toml_origin origin, toml_node **out);

/* Converts the tree to the values of the document. */
fv_status toml_tree_finish(toml_tree *tree);

#endif

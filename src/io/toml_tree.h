/*
 * The tree while a TOML text is read: tables stay open, because "[a]" and later "[a.b]" add to
 * the same one. One hash table over (parent, key) finds children.
 */
#ifndef FV_IO_TOML_TREE_H
#define FV_IO_TOML_TREE_H

#include "io/parser.h"

/* How a node came to be decides who may add to it. */
typedef enum toml_origin {
    TOML_CLOSED,  /* a value: nobody */
    TOML_INLINE,  /* an inline table or array that is being read */
    TOML_IMPLIED, /* the "a" of "[a.b]": a later "[a]" may define it */
    TOML_HEADER,  /* "[a]" */
    TOML_DOTTED   /* the "a" of "a.b = 1": other dotted keys may add to it */
} toml_origin;

typedef struct toml_node {
    fv_member item; /* key and value; arrays and tables get their items at the end */
    toml_origin origin;
    struct toml_node *parent, *first, *last, *next;
} toml_node;

typedef struct toml_tree {
    fv_parser *scan;
    toml_node *root;
    toml_node **slots; /* open addressing, a power of two of them */
    size_t slot_count, used;
    uint64_t seed;
} toml_tree;

fv_status toml_tree_init(toml_tree *tree, fv_parser *scan);
void toml_tree_free(toml_tree *tree);

/* The child of `parent` under item's key, or NULL. */
toml_node *toml_tree_find(const toml_tree *tree, const toml_node *parent, const fv_member *item);
/* Adds a child; `item` has no key in an array. The key must be new. */
fv_status toml_tree_add(toml_tree *tree, toml_node *parent, const fv_member *item,
                        toml_origin origin, toml_node **out);

/* Turns the tree into the document's values. */
fv_status toml_tree_finish(toml_tree *tree);

#endif

/*
 * The TOML document while it is being parsed, before it becomes an fv_doc. Tables stay open: "[a]"
 * and a later "[a.b]" extend the same table. One hash table over (parent, key) finds children.
 * Arrays of tables ("[[a]]") are not supported.
 */
#ifndef FV_IO_TOML_TREE_H
#define FV_IO_TOML_TREE_H

#include "io/parser.h"

/* How a node was defined; decides what may extend it. */
typedef enum toml_origin {
    TOML_CLOSED,  /* a finished value: nothing may extend it */
    TOML_INLINE,  /* an inline table or array, still being read */
    TOML_IMPLIED, /* the "a" of "[a.b]": may be defined by a later "[a]" */
    TOML_HEADER,  /* "[a]" */
    TOML_DOTTED   /* the "a" of "a.b = 1": may be extended by other dotted keys */
} toml_origin;

typedef struct toml_node {
    fv_member member; /* key and value; arrays and tables get theirs when parsing ends */
    toml_origin origin;
    struct toml_node *parent, *first_child, *last_child, *next_sibling;
} toml_node;

typedef struct toml_tree {
    fv_parser *parser;
    toml_node *root;
    toml_node **slots; /* open addressing; the count is a power of two */
    size_t slot_count, used;
    uint64_t seed; /* of the hash, against crafted collisions */
} toml_tree;

fv_status toml_tree_init(toml_tree *tree, fv_parser *parser);
void toml_tree_free(toml_tree *tree);

/* The child of `parent` with the key of `member`, or NULL. */
toml_node *toml_tree_find(const toml_tree *tree, const toml_node *parent, const fv_member *member);
/* Adds a child; in an array, `member` has no key. The key must be new. */
fv_status toml_tree_add(toml_tree *tree, toml_node *parent, const fv_member *member,
                        toml_origin origin, toml_node **out);

/* Stores the tree in parser->doc. */
fv_status toml_tree_finish(toml_tree *tree);

#endif

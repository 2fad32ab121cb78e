/* A pattern as a tree, between its text and its program. */
#ifndef FV_TEXT_REGEX_PARSE_H
#define FV_TEXT_REGEX_PARSE_H

#include "text/regex.h"

typedef enum fv_regex_node_kind {
    FV_RE_NODE_STEP,     /* op and value of one step */
    FV_RE_NODE_SEQUENCE, /* its children one after the other */
    FV_RE_NODE_CHOICE,   /* one of its children */
    FV_RE_NODE_REPEAT,   /* its child, least to most times */
    FV_RE_NODE_INNER     /* its child as a pattern of its own: op says what for */
} fv_regex_node_kind;

typedef enum fv_regex_greed { FV_RE_GREEDY, FV_RE_LAZY, FV_RE_POSSESSIVE } fv_regex_greed;

enum { FV_RE_ENDLESS = UINT32_MAX };

typedef struct fv_regex_node {
    fv_regex_node_kind kind;
    fv_regex_op op;
    uint32_t value;
    int32_t child, last, next; /* first and last child, next of the same parent; -1: none */
    uint32_t min, max;
    fv_regex_greed greed;
    bool measured;
    uint32_t min_length, max_length; /* characters it can have, once measured */
} fv_regex_node;

typedef struct fv_regex_parser {
    fv_ctx *ctx;
    fv_arena *arena;
    const char *pattern; /* valid UTF-8 */
    size_t bytes, at;
    unsigned depth;
    bool fold, dot_all; /* flags in force */
    fv_regex_node *nodes;
    size_t node_count, node_room;
    fv_regex_class *classes;
    size_t class_count, class_room;
} fv_regex_parser;

/* The whole pattern. */
fv_status fv_regex_parse(fv_regex_parser *p, int32_t *root);

/* ---- between the files of the parser --------------------------------------------- */

/* "what" at the present place of the pattern, with the status. */
fv_status fv_regex_fail(const fv_regex_parser *p, fv_status status, const char *what);
bool fv_regex_at(const fv_regex_parser *p, const char *text);
/* Steps over the text if it stands here. */
bool fv_regex_accept(fv_regex_parser *p, const char *text);
/* The next character, which must be there. */
fv_status fv_regex_next(fv_regex_parser *p, uint32_t *code);

/* A class behind its '['; a class of one item. */
fv_status fv_regex_parse_class(fv_regex_parser *p, uint32_t *number);
fv_status fv_regex_make_class(fv_regex_parser *p, fv_regex_item item, uint32_t *number);
/* What stands behind a backslash as part of a class: *item, of one character if it is a range. */
fv_status fv_regex_parse_escape(fv_regex_parser *p, fv_regex_item *item);

#endif

/* The syntax tree of a pattern. */
#ifndef FV_TEXT_REGEX_PARSE_H
#define FV_TEXT_REGEX_PARSE_H

#include "text/regex.h"

typedef enum fv_regex_node_kind {
    FV_RE_NODE_STEP,     /* one step: op and value */
    FV_RE_NODE_SEQUENCE, /* its children in sequence */
    FV_RE_NODE_CHOICE,   /* one of its children */
    FV_RE_NODE_REPEAT,   /* its child, min to max times */
    FV_RE_NODE_INNER     /* its child as a nested pattern; op is its kind */
} fv_regex_node_kind;

typedef enum fv_regex_greed { FV_RE_GREEDY, FV_RE_LAZY, FV_RE_POSSESSIVE } fv_regex_greed;

enum { FV_RE_ENDLESS = UINT32_MAX };

typedef struct fv_regex_node {
    fv_regex_node_kind kind;
    fv_regex_op op;
    uint32_t value;
    int32_t child, last, next; /* first and last child, next sibling; -1: none */
    uint32_t min, max;
    fv_regex_greed greed;
    bool measured;
    uint32_t min_length, max_length; /* in characters, once measured */
} fv_regex_node;

typedef struct fv_regex_parser {
    fv_ctx *ctx;
    fv_arena *arena;
    const char *pattern; /* valid UTF-8 */
    size_t bytes, at;
    unsigned depth;
    bool fold, dot_all; /* current flags */
    fv_regex_node *nodes;
    size_t node_count, node_room;
    fv_regex_class *classes;
    size_t class_count, class_room;
    size_t item_count; /* of all classes */
} fv_regex_parser;

/* Parses the whole pattern. */
fv_status fv_regex_parse(fv_regex_parser *p, int32_t *root);

/* ---- shared by the parser's files ------------------------------------------------ */

/* Fails with `status` and a message: `what`, with the current position in the pattern. */
fv_status fv_regex_fail(const fv_regex_parser *p, fv_status status, const char *what);
bool fv_regex_at(const fv_regex_parser *p, const char *text);
/* Skips the text if it is next. */
bool fv_regex_accept(fv_regex_parser *p, const char *text);
/* Reads the next character; fails at the end. */
fv_status fv_regex_next(fv_regex_parser *p, uint32_t *code);

/* Parses a class after its '['; makes a class of one item. */
fv_status fv_regex_parse_class(fv_regex_parser *p, uint32_t *number);
fv_status fv_regex_make_class(fv_regex_parser *p, fv_regex_item item, uint32_t *number);
/* Parses the rest of an escape after its backslash; a single character becomes a range of one. */
fv_status fv_regex_parse_escape(fv_regex_parser *p, fv_regex_item *item);

#endif

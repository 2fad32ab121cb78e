#include "io/toml.h"

#include "io/file.h"
#include "io/toml_lexer.h"
#include "io/toml_tree.h"
#include "io/utf8.h"

static fv_status fail_duplicate(const fv_parser *s, const fv_member *item)
{
    char key[FV_QUOTED_BYTES];
    return fv_doc_fail(s->doc, &item->value, FV_ERR_FORMAT, "duplicate key \"%s\"",
                       fv_quote(item->key, item->key_bytes, key));
}

static fv_status fail_closed(const fv_parser *s, const fv_member *item)
{
    char key[FV_QUOTED_BYTES];
    return fv_doc_fail(s->doc, &item->value, FV_ERR_FORMAT,
                       "\"%s\" is already defined and cannot be extended",
                       fv_quote(item->key, item->key_bytes, key));
}

/* Descends from *at into the table `item`, creating it if needed. `origin` is TOML_IMPLIED for
 * parts of a header and TOML_DOTTED for parts of a dotted key. */
static fv_status enter(toml_tree *tree, fv_member *item, toml_origin origin, toml_node **at)
{
    toml_node *child = toml_tree_find(tree, *at, item);
    if (!child) {
        item->value.kind = FV_VALUE_OBJECT;
        return toml_tree_add(tree, *at, item, origin, at);
    }
    bool open =
        child->origin == TOML_DOTTED ||
        (origin == TOML_IMPLIED && (child->origin == TOML_IMPLIED || child->origin == TOML_HEADER));
    if (!open) return fail_closed(tree->parser, item);
    *at = child;
    return FV_OK;
}

/* Reads a dotted key below *at: descends into all parts except the last, which goes to `item`. */
static fv_status read_path(toml_tree *tree, toml_origin origin, toml_node **at, fv_member *item)
{
    fv_parser *s = tree->parser;
    for (;;) {
        FV_TRY(toml_read_key(s, item));
        toml_skip_space(s);
        if (fv_parser_peek(s, 0) != '.') return FV_OK;
        FV_TRY(enter(tree, item, origin, at));
        s->pos++;
        toml_skip_space(s);
    }
}

/* Reads "[a.b.c]", starting at the bracket. */
static fv_status read_header(toml_tree *tree, toml_node **table)
{
    fv_parser *s = tree->parser;
    toml_node *at = tree->root;
    fv_member item;
    if (fv_parser_peek(s, 1) == '[')
        return fv_parser_fail(s, FV_ERR_UNSUPPORTED,
                              "arrays of tables ([[...]]) are not supported");
    s->pos++;
    toml_skip_space(s);
    FV_TRY(read_path(tree, TOML_IMPLIED, &at, &item));
    if (fv_parser_peek(s, 0) != ']') return fv_parser_expected(s, "'.' or ']'");
    s->pos++;
    toml_node *old = toml_tree_find(tree, at, &item);
    if (old && old->origin != TOML_IMPLIED) return fail_duplicate(s, &item);
    if (old) {
        old->origin = TOML_HEADER;
        *table = old;
    } else {
        item.value.kind = FV_VALUE_OBJECT;
        FV_TRY(toml_tree_add(tree, at, &item, TOML_HEADER, table));
    }
    return toml_expect_end_of_line(s);
}

/* Reads "a.b =" below `table`; *slot is the node for its value. */
static fv_status read_assignment(toml_tree *tree, toml_node *table, toml_node **slot)
{
    fv_parser *s = tree->parser;
    fv_member item;
    FV_TRY(read_path(tree, TOML_DOTTED, &table, &item));
    if (fv_parser_peek(s, 0) != '=') return fv_parser_expected(s, "'.' or '='");
    s->pos++;
    toml_skip_space(s);
    if (toml_tree_find(tree, table, &item)) return fail_duplicate(s, &item);
    return toml_tree_add(tree, table, &item, TOML_CLOSED, slot);
}

/* The array or inline table that contains the value `node`. */
static toml_node *container_of(toml_node *node)
{
    node = node->parent;
    while (node->origin == TOML_DOTTED)
        node = node->parent;
    return node;
}

/*
 * Values nest, so reading one is a loop: descend into a container when it opens, return to its
 * parent when it closes, until the first slot is filled.
 */
typedef struct value_reader {
    toml_tree *tree;
    toml_node *slot; /* the value being read, or the innermost open container */
    enum { AT_VALUE, AT_FIRST, AT_NEXT, AT_COMMA } state;
    uint64_t depth;
} value_reader;

static fv_status open_container(value_reader *w, fv_value_kind kind)
{
    fv_parser *s = w->tree->parser;
    uint64_t limit = s->doc->ctx->limits.json_depth;
    if (++w->depth > limit)
        return fv_parser_fail(s, FV_ERR_LIMIT, "nested deeper than %llu levels",
                              (unsigned long long)limit);
    w->slot->member.value = fv_parser_value(s, kind);
    w->slot->origin = TOML_INLINE;
    w->state = AT_FIRST;
    s->pos++;
    return FV_OK;
}

/* Skips white space between items; in arrays, line ends and comments too. */
static fv_status skip_between(const value_reader *w)
{
    if (w->slot->member.value.kind == FV_VALUE_ARRAY) return toml_skip_lines(w->tree->parser);
    toml_skip_space(w->tree->parser);
    return FV_OK;
}

/* Starts the next item of the container w->slot and makes it the slot. */
static fv_status next_item(value_reader *w)
{
    w->state = AT_VALUE;
    if (w->slot->member.value.kind == FV_VALUE_OBJECT)
        return read_assignment(w->tree, w->slot, &w->slot);
    fv_member item = {0};
    return toml_tree_add(w->tree, w->slot, &item, TOML_CLOSED, &w->slot);
}

/* One step of the loop; sets *filled when w->slot has its complete value. */
static fv_status step(value_reader *w, bool *filled)
{
    fv_parser *s = w->tree->parser;
    if (w->state == AT_VALUE) {
        int c = fv_parser_peek(s, 0);
        if (c == '[') return open_container(w, FV_VALUE_ARRAY);
        if (c == '{') return open_container(w, FV_VALUE_OBJECT);
        *filled = true;
        return toml_read_scalar(s, &w->slot->member.value);
    }
    FV_TRY(skip_between(w));
    bool array = w->slot->member.value.kind == FV_VALUE_ARRAY;
    int c = fv_parser_peek(s, 0);
    bool may_close = w->state != AT_NEXT || array; /* only arrays may end in a comma */
    if (may_close && c == (array ? ']' : '}')) {
        s->pos++;
        w->slot->origin = TOML_CLOSED;
        w->depth--;
        *filled = true;
        return FV_OK;
    }
    if (w->state != AT_COMMA) return next_item(w);
    if (c != ',') return fv_parser_expected(s, array ? "',' or ']'" : "',' or '}'");
    s->pos++;
    w->state = AT_NEXT;
    return FV_OK;
}

static fv_status read_value(toml_tree *tree, toml_node *slot)
{
    value_reader w = {.tree = tree, .slot = slot};
    for (;;) {
        bool filled = false;
        FV_TRY(step(&w, &filled));
        if (!filled) continue;
        if (w.slot == slot) return FV_OK;
        w.slot = container_of(w.slot);
        w.state = AT_COMMA;
    }
}

static fv_status read_text(toml_tree *tree)
{
    fv_parser *s = tree->parser;
    toml_node *table = tree->root;
    for (;;) {
        FV_TRY(toml_skip_lines(s));
        int c = fv_parser_peek(s, 0);
        if (c < 0) return toml_tree_finish(tree);
        if (c == '[') {
            FV_TRY(read_header(tree, &table));
            continue;
        }
        toml_node *slot = NULL;
        FV_TRY(read_assignment(tree, table, &slot));
        FV_TRY(read_value(tree, slot));
        FV_TRY(toml_expect_end_of_line(s));
    }
}

fv_status fv_toml_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes, fv_doc **out)
{
    fv_parser scan;
    toml_tree tree;
    FV_TRY(fv_parser_init(&scan, ctx, name, text, bytes));
    fv_status status = toml_tree_init(&tree, &scan);
    if (status == FV_OK) status = read_text(&tree);
    toml_tree_free(&tree);
    if (status == FV_OK)
        *out = scan.doc;
    else
        fv_doc_free(&scan.doc);
    return status;
}

fv_status fv_toml_load(fv_ctx *ctx, const char *path, fv_doc **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    fv_status status = fv_toml_parse(ctx, path, text, bytes, out);
    fv_mem_free(&ctx->mem, text, bytes);
    return status;
}

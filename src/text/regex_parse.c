#include "text/regex_parse.h"

#include <string.h>

#include "io/utf8.h"
#include "text/codepoints.h"

/* ---- input ----------------------------------------------------------------------- */

fv_status fv_regex_fail(const fv_regex_parser *p, fv_status status, const char *what)
{
    char quoted[FV_QUOTED_BYTES];
    return fv_fail(p->ctx, status, "pattern \"%s\", byte %zu: %s",
                   fv_quote(p->pattern, p->bytes, quoted), p->at, what);
}

bool fv_regex_at(const fv_regex_parser *p, const char *text)
{
    const size_t n = strlen(text);
    return p->bytes - p->at >= n && memcmp(p->pattern + p->at, text, n) == 0;
}

bool fv_regex_accept(fv_regex_parser *p, const char *text)
{
    if (!fv_regex_at(p, text)) return false;
    p->at += strlen(text);
    return true;
}

fv_status fv_regex_next(fv_regex_parser *p, uint32_t *code)
{
    if (p->at >= p->bytes) return fv_regex_fail(p, FV_ERR_FORMAT, "unexpected end");
    const size_t length = fv_lead_length(p->pattern[p->at]);
    *code = fv_code_of(p->pattern + p->at, length);
    p->at += length;
    return FV_OK;
}

/* ---- nodes ----------------------------------------------------------------------- */

static fv_status new_node(fv_regex_parser *p, fv_regex_node node, int32_t *number)
{
    enum { MAX_COUNT = 4096 };
    if (p->node_count == MAX_COUNT) return fv_regex_fail(p, FV_ERR_LIMIT, "too long");
    fv_regex_node *nodes =
        fv_mem_grow(&p->ctx->mem, p->nodes, &p->node_room, p->node_count + 1, sizeof *nodes);
    FV_RETURN_IF(!nodes, p->ctx, FV_ERR_MEMORY, "pattern: out of memory");
    p->nodes = nodes;
    node.child = node.last = node.next = -1;
    nodes[p->node_count] = node;
    *number = (int32_t)p->node_count++;
    return FV_OK;
}

static void adopt(fv_regex_parser *p, int32_t parent, int32_t child)
{
    fv_regex_node *mother = &p->nodes[parent];
    if (mother->child < 0)
        mother->child = child;
    else
        p->nodes[mother->last].next = child;
    mother->last = child;
}

static fv_status step_node(fv_regex_parser *p, fv_regex_op op, uint32_t value, int32_t *out)
{
    return new_node(p, (fv_regex_node){.kind = FV_RE_NODE_STEP, .op = op, .value = value}, out);
}

static fv_status char_node(fv_regex_parser *p, uint32_t code, int32_t *out)
{
    return p->fold ? step_node(p, FV_RE_FOLD, fv_regex_fold(code), out)
                   : step_node(p, FV_RE_CHAR, code, out);
}

static fv_status item_node(fv_regex_parser *p, fv_regex_item item, int32_t *out)
{
    uint32_t number = 0;
    if (item.kind == FV_RE_ITEM_RANGE && item.low == item.high && !item.negated)
        return char_node(p, item.low, out);
    FV_TRY(fv_regex_make_class(p, item, &number));
    return step_node(p, FV_RE_CLASS, number, out);
}

/* ---- atoms ----------------------------------------------------------------------- */

static fv_status parse_choice(fv_regex_parser *p, int32_t *out);

/* Parses the rest of a group as a nested pattern. */
static fv_status parse_inner(fv_regex_parser *p, fv_regex_op op, int32_t *out)
{
    int32_t child = -1;
    FV_TRY(new_node(p, (fv_regex_node){.kind = FV_RE_NODE_INNER, .op = op}, out));
    FV_TRY(parse_choice(p, &child));
    adopt(p, *out, child);
    return FV_OK;
}

/* (?i), (?-i), (?i: etc.; *rest: the flags apply to the rest of the enclosing group. */
static fv_status parse_flags(fv_regex_parser *p, bool *rest)
{
    bool on = true;
    for (;;) {
        uint32_t c = 0;
        FV_TRY(fv_regex_next(p, &c));
        if (c == ':' || c == ')') {
            *rest = c == ')';
            return FV_OK;
        }
        if (c == '-')
            on = false;
        else if (c == 'i')
            p->fold = on;
        else if (c == 'm')
            p->dot_all = on;
        else
            return fv_regex_fail(p, FV_ERR_UNSUPPORTED, "group is not supported");
    }
}

/* What follows "(". */
static fv_status parse_group_body(fv_regex_parser *p, int32_t *out)
{
    static const struct {
        const char *mark;
        fv_regex_op op;
    } inner[] = {{"?=", FV_RE_AHEAD},
                 {"?!", FV_RE_NOT_AHEAD},
                 {"?<=", FV_RE_BEHIND},
                 {"?<!", FV_RE_NOT_BEHIND},
                 {"?>", FV_RE_ATOMIC}};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        if (fv_regex_accept(p, inner[i].mark)) return parse_inner(p, inner[i].op, out);
    if (fv_regex_accept(p, "?<")) {
        uint32_t c = 0;
        while (c != '>')
            FV_TRY(fv_regex_next(p, &c));
    } else if (fv_regex_accept(p, "?") && !fv_regex_accept(p, ":")) {
        bool rest = false;
        FV_TRY(parse_flags(p, &rest));
        if (rest)
            return fv_regex_fail(p, FV_ERR_UNSUPPORTED,
                                 "flags are only supported at the start of the pattern");
    }
    return parse_choice(p, out);
}

static fv_status parse_group(fv_regex_parser *p, int32_t *out)
{
    enum { MAX_DEPTH = 32 };
    const bool fold = p->fold, dot_all = p->dot_all;
    if (p->depth == MAX_DEPTH) return fv_regex_fail(p, FV_ERR_LIMIT, "nested too deeply");
    p->depth++;
    FV_TRY(parse_group_body(p, out));
    p->depth--;
    p->fold = fold;
    p->dot_all = dot_all;
    if (!fv_regex_accept(p, ")")) return fv_regex_fail(p, FV_ERR_FORMAT, "missing ')'");
    return FV_OK;
}

static fv_status parse_atom(fv_regex_parser *p, int32_t *out)
{
    static const struct {
        const char *text;
        fv_regex_op op;
    } places[] = {{"^", FV_RE_LINE_BEGIN},      {"$", FV_RE_LINE_END},
                  {"\\A", FV_RE_BEGIN},         {"\\z", FV_RE_END},
                  {"\\Z", FV_RE_LAST_LINE_END}, {"\\b", FV_RE_WORD_EDGE},
                  {"\\B", FV_RE_NO_WORD_EDGE}};
    uint32_t c = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (fv_regex_accept(p, places[i].text)) return step_node(p, places[i].op, 0, out);
    if (fv_regex_accept(p, "(")) return parse_group(p, out);
    if (fv_regex_accept(p, "[")) {
        FV_TRY(fv_regex_parse_class(p, &c));
        return step_node(p, FV_RE_CLASS, c, out);
    }
    if (fv_regex_accept(p, ".")) {
        const fv_regex_item any = {
            .kind = FV_RE_ITEM_RANGE, .negated = !p->dot_all, .low = '\n', .high = '\n'};
        const fv_regex_item all = {.kind = FV_RE_ITEM_RANGE, .low = 0, .high = 0x10FFFF};
        return item_node(p, p->dot_all ? all : any, out);
    }
    if (fv_regex_accept(p, "\\")) {
        fv_regex_item item;
        FV_TRY(fv_regex_parse_escape(p, &item));
        return item_node(p, item, out);
    }
    if (fv_regex_at(p, "*") || fv_regex_at(p, "+") || fv_regex_at(p, "?"))
        return fv_regex_fail(p, FV_ERR_FORMAT, "nothing to repeat");
    FV_TRY(fv_regex_next(p, &c));
    return char_node(p, c, out);
}

/* ---- repeats --------------------------------------------------------------------- */

/* Reads a number if there is one. */
static bool take_number(fv_regex_parser *p, uint32_t *out)
{
    enum { MAX_COUNT = 1000 };
    const size_t begin = p->at;
    uint32_t value = 0;
    for (; p->at < p->bytes && p->pattern[p->at] >= '0' && p->pattern[p->at] <= '9'; p->at++)
        value = value <= MAX_COUNT ? value * 10 + (uint32_t)(p->pattern[p->at] - '0') : value;
    *out = value;
    return p->at > begin;
}

/* {n} {n,} {,m} {n,m}; anything else is literal text. */
static bool take_braces(fv_regex_parser *p, uint32_t *min, uint32_t *max)
{
    const size_t begin = p->at;
    p->at++;
    const bool first = take_number(p, min);
    bool second = true;
    if (fv_regex_accept(p, ","))
        second = take_number(p, max);
    else
        *max = *min;
    if (!second) *max = FV_RE_ENDLESS;
    if ((first || second) && fv_regex_accept(p, "}")) return true;
    p->at = begin;
    return false;
}

static bool take_repeat(fv_regex_parser *p, uint32_t *min, uint32_t *max, bool *braces)
{
    *min = 0;
    *max = FV_RE_ENDLESS;
    *braces = false;
    if (fv_regex_accept(p, "*")) return true;
    if (fv_regex_accept(p, "+")) {
        *min = 1;
        return true;
    }
    if (fv_regex_accept(p, "?")) {
        *max = 1;
        return true;
    }
    *braces = true;
    return fv_regex_at(p, "{") && take_braces(p, min, max);
}

static fv_status parse_repeats(fv_regex_parser *p, int32_t *node)
{
    enum { MAX_COUNT = 1000, STACKED = 4 };
    uint32_t min, max;
    bool braces;
    for (int i = 0; take_repeat(p, &min, &max, &braces); i++) {
        fv_regex_node repeat = {.kind = FV_RE_NODE_REPEAT, .min = min, .max = max};
        int32_t number = -1;
        if (i == STACKED) return fv_regex_fail(p, FV_ERR_LIMIT, "too many repeats");
        if (min > max) return fv_regex_fail(p, FV_ERR_FORMAT, "repeat range is reversed");
        if (min > MAX_COUNT || (max > MAX_COUNT && max != FV_RE_ENDLESS))
            return fv_regex_fail(p, FV_ERR_LIMIT, "more than 1000 repetitions");
        if (fv_regex_accept(p, "?"))
            repeat.greed = FV_RE_LAZY;
        else if (!braces && fv_regex_accept(p, "+"))
            repeat.greed = FV_RE_POSSESSIVE;
        FV_TRY(new_node(p, repeat, &number));
        adopt(p, number, *node);
        *node = number;
    }
    return FV_OK;
}

/* ---- entry point ----------------------------------------------------------------- */

static fv_status parse_sequence(fv_regex_parser *p, int32_t *out)
{
    FV_TRY(new_node(p, (fv_regex_node){.kind = FV_RE_NODE_SEQUENCE}, out));
    while (p->at < p->bytes && !fv_regex_at(p, "|") && !fv_regex_at(p, ")")) {
        int32_t node = -1;
        FV_TRY(parse_atom(p, &node));
        FV_TRY(parse_repeats(p, &node));
        adopt(p, *out, node);
    }
    return FV_OK;
}

static fv_status parse_choice(fv_regex_parser *p, int32_t *out)
{
    FV_TRY(new_node(p, (fv_regex_node){.kind = FV_RE_NODE_CHOICE}, out));
    do {
        int32_t sequence = -1;
        FV_TRY(parse_sequence(p, &sequence));
        adopt(p, *out, sequence);
    } while (fv_regex_accept(p, "|"));
    return FV_OK;
}

fv_status fv_regex_parse(fv_regex_parser *p, int32_t *root)
{
    /* Leading flags apply to the whole pattern. */
    while (fv_regex_at(p, "(?i)") || fv_regex_at(p, "(?m)")) {
        if (p->pattern[p->at + 2] == 'i')
            p->fold = true;
        else
            p->dot_all = true;
        p->at += 4;
    }
    FV_TRY(parse_choice(p, root));
    if (p->at < p->bytes) return fv_regex_fail(p, FV_ERR_FORMAT, "missing '('");
    return FV_OK;
}

/* Compiles the syntax tree of a pattern to a program. */
#include "text/regex.h"

#include <string.h>

#include "io/utf8.h"
#include "text/regex_parse.h"

typedef struct emitter {
    fv_regex_parser *p;
    fv_regex_step *steps;
    size_t count, room;
    unsigned visits; /* visited nodes: nested repeats of nothing emit no steps */
} emitter;

static fv_status put(emitter *e, fv_regex_op op, uint32_t value, uint32_t other)
{
    enum { MAX_COUNT = 16384 };
    if (e->count == MAX_COUNT) return fv_regex_fail(e->p, FV_ERR_LIMIT, "too long");
    fv_regex_step *steps =
        fv_mem_grow(&e->p->ctx->mem, e->steps, &e->room, e->count + 1, sizeof *steps);
    FV_RETURN_IF(!steps, e->p->ctx, FV_ERR_MEMORY, "pattern: out of memory");
    e->steps = steps;
    steps[e->count++] = (fv_regex_step){op, value, other, 0};
    return FV_OK;
}

static bool is_one_char(fv_regex_op op)
{
    return op == FV_RE_CHAR || op == FV_RE_FOLD || op == FV_RE_CLASS;
}

/* Lengths from here on count as unbounded. */
enum { MANY = 1 << 20 };

static uint32_t at_most(uint64_t value) { return value < MANY ? (uint32_t)value : MANY; }

/* Computes the minimum and maximum length of a node in characters. */
static void measure(fv_regex_parser *p, int32_t number)
{
    fv_regex_node *n = &p->nodes[number];
    const bool choice = n->kind == FV_RE_NODE_CHOICE;
    uint64_t min = choice ? MANY : 0, max = 0;
    if (n->measured) return;
    if (n->kind == FV_RE_NODE_STEP) min = max = is_one_char(n->op);
    for (int32_t c = n->child; c >= 0; c = p->nodes[c].next) {
        measure(p, c);
        const uint64_t low = p->nodes[c].min_length, high = p->nodes[c].max_length;
        if (n->kind == FV_RE_NODE_REPEAT) {
            min = low * n->min;
            max = n->max == FV_RE_ENDLESS ? MANY : high * n->max;
        } else if (choice) {
            min = low < min ? low : min;
            max = high > max ? high : max;
        } else if (n->kind == FV_RE_NODE_SEQUENCE || n->op == FV_RE_ATOMIC) {
            min += low;
            max += high;
        }
    }
    n->min_length = at_most(min);
    n->max_length = at_most(max);
    n->measured = true;
}

static fv_status emit(emitter *e, int32_t number);

static fv_status emit_choice(emitter *e, const fv_regex_node *n)
{
    /* Pending jumps to the end form a chain through their values. */
    uint32_t chain = UINT32_MAX;
    for (int32_t c = n->child; c >= 0; c = e->p->nodes[c].next) {
        const bool last = e->p->nodes[c].next < 0;
        const size_t split = e->count;
        if (!last) FV_TRY(put(e, FV_RE_SPLIT, (uint32_t)split + 1, 0));
        FV_TRY(emit(e, c));
        if (last) break;
        FV_TRY(put(e, FV_RE_JUMP, chain, 0));
        chain = (uint32_t)e->count - 1;
        e->steps[split].other = (uint32_t)e->count;
    }
    while (chain != UINT32_MAX) {
        const uint32_t next = e->steps[chain].value;
        e->steps[chain].value = (uint32_t)e->count;
        chain = next;
    }
    return FV_OK;
}

/* Sets the targets of a split: the body, which follows it, and the exit; a lazy one prefers the
 * exit. */
static void aim(emitter *e, size_t split, size_t out, bool lazy)
{
    const uint32_t in = (uint32_t)split + 1;
    e->steps[split].value = lazy ? (uint32_t)out : in;
    e->steps[split].other = lazy ? in : (uint32_t)out;
}

static fv_status emit_repeat(emitter *e, const fv_regex_node *n)
{
    const bool lazy = n->greed == FV_RE_LAZY, endless = n->max == FV_RE_ENDLESS;
    const int32_t body = n->child;
    const uint32_t min = n->min, max = n->max;
    measure(e->p, body);
    if (endless && e->p->nodes[body].min_length == 0)
        return fv_regex_fail(e->p, FV_ERR_UNSUPPORTED,
                             "a repeat of something that can be empty is not supported");
    for (uint32_t i = 0; i < min; i++)
        FV_TRY(emit(e, body));
    if (endless) {
        const size_t split = e->count;
        FV_TRY(put(e, FV_RE_SPLIT, 0, 0));
        FV_TRY(emit(e, body));
        FV_TRY(put(e, FV_RE_JUMP, (uint32_t)split, 0));
        aim(e, split, e->count, lazy);
        return FV_OK;
    }
    /* Each further repetition is optional; the pending exits form a chain. */
    size_t chain = SIZE_MAX;
    for (uint32_t i = min; i < max; i++) {
        FV_TRY(put(e, FV_RE_SPLIT, 0, chain == SIZE_MAX ? UINT32_MAX : (uint32_t)chain));
        chain = e->count - 1;
        FV_TRY(emit(e, body));
    }
    while (chain != SIZE_MAX) {
        const uint32_t next = e->steps[chain].other;
        aim(e, chain, e->count, lazy);
        chain = next == UINT32_MAX ? SIZE_MAX : next;
    }
    return FV_OK;
}

/* A nested pattern: its steps and a match; the outer pattern continues after them. */
static fv_status emit_inner(emitter *e, fv_regex_op op, uint32_t back, int32_t child, bool repeat)
{
    const size_t at = e->count;
    FV_TRY(put(e, op, 0, back));
    FV_TRY(repeat ? emit_repeat(e, &e->p->nodes[child]) : emit(e, child));
    FV_TRY(put(e, FV_RE_MATCH, 0, 0));
    e->steps[at].value = (uint32_t)e->count;
    return FV_OK;
}

static fv_status emit_look(emitter *e, const fv_regex_node *n)
{
    uint32_t back = 0;
    if (n->op == FV_RE_BEHIND || n->op == FV_RE_NOT_BEHIND) {
        measure(e->p, n->child);
        back = e->p->nodes[n->child].min_length;
        if (back != e->p->nodes[n->child].max_length || back == MANY)
            return fv_regex_fail(e->p, FV_ERR_UNSUPPORTED,
                                 "lookbehind of variable length is not supported");
    }
    return emit_inner(e, n->op, back, n->child, false);
}

/* Recursion is bounded by the nesting of the pattern, which the parser limits. */
static fv_status emit(emitter *e, int32_t number)
{
    enum { MAX_COUNT = 1 << 16 };
    const fv_regex_node *n = &e->p->nodes[number];
    if (++e->visits > MAX_COUNT) return fv_regex_fail(e->p, FV_ERR_LIMIT, "too many repeats");
    switch (n->kind) {
    case FV_RE_NODE_STEP:
        return put(e, n->op, n->value, 0);
    case FV_RE_NODE_CHOICE:
        return emit_choice(e, n);
    case FV_RE_NODE_REPEAT:
        if (n->greed == FV_RE_POSSESSIVE) return emit_inner(e, FV_RE_ATOMIC, 0, number, true);
        return emit_repeat(e, n);
    case FV_RE_NODE_INNER:
        return emit_look(e, n);
    case FV_RE_NODE_SEQUENCE:
        break;
    }
    for (int32_t c = n->child; c >= 0; c = e->p->nodes[c].next)
        FV_TRY(emit(e, c));
    return FV_OK;
}

/* Items to look at for one code point, the other case included. */
static uint32_t class_cost(const fv_regex *re, const fv_regex_class *c)
{
    enum { MAX_COST = 1 << 20 };
    uint64_t cost = c->count / 8;
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].kind == FV_RE_ITEM_CLASS) cost += 1 + re->classes[c->items[i].low].cost;
    if (c->fold) cost *= 3;
    if (c->intersection >= 0) cost += 1 + re->classes[c->intersection].cost;
    return (uint32_t)(cost < MAX_COST ? cost : MAX_COST);
}

static fv_status finish(emitter *e, const fv_regex **out)
{
    fv_arena *arena = e->p->arena;
    fv_regex *re = fv_arena_alloc(arena, sizeof *re);
    fv_regex_step *steps = fv_arena_array(arena, e->count, sizeof *steps);
    fv_regex_class *classes = fv_arena_array(arena, e->p->class_count + 1, sizeof *classes);
    FV_RETURN_IF(!re || !steps || !classes, e->p->ctx, FV_ERR_MEMORY, "pattern: out of memory");
    memcpy(steps, e->steps, e->count * sizeof *steps);
    if (e->p->class_count) memcpy(classes, e->p->classes, e->p->class_count * sizeof *classes);
    *re = (fv_regex){.steps = steps,
                     .step_count = e->count,
                     .classes = classes,
                     .class_count = e->p->class_count};
    for (size_t i = 0; i < e->count; i++)
        if (steps[i].op == FV_RE_SPLIT) steps[i].number = (uint32_t)re->split_count++;
    /* A class comes before those inside it. */
    for (size_t i = re->class_count; i > 0; i--)
        classes[i - 1].cost = class_cost(re, &classes[i - 1]);
    for (size_t i = 0; i < re->class_count; i++)
        for (uint32_t c = 0; c < 128; c++)
            if (fv_regex_class_has(re, &classes[i], c))
                classes[i].ascii[c >> 6] |= (uint64_t)1 << (c & 63);
    *out = re;
    return FV_OK;
}

fv_status fv_regex_compile(fv_ctx *ctx, fv_arena *arena, const char *pattern, size_t bytes,
                           const fv_regex **out)
{
    fv_regex_parser p = {.ctx = ctx, .arena = arena, .pattern = pattern, .bytes = bytes};
    emitter e = {.p = &p};
    int32_t root = -1;
    fv_status s = fv_regex_parse(&p, &root);
    if (s == FV_OK) s = emit(&e, root);
    if (s == FV_OK) s = put(&e, FV_RE_MATCH, 0, 0);
    if (s == FV_OK) s = finish(&e, out);
    fv_mem_free(&ctx->mem, e.steps, e.room * sizeof *e.steps);
    fv_mem_free(&ctx->mem, p.nodes, p.node_room * sizeof *p.nodes);
    fv_mem_free(&ctx->mem, p.classes, p.class_room * sizeof *p.classes);
    return s;
}

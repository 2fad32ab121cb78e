#include "io/pickle.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/pickle_machine.h"
#include "io/utf8.h"

/* ---- the machine ----------------------------------------------------------------------------- */

fv_status fv_pickle_fail(const fv_pickle *p, const char *what)
{
    return fv_fail(p->ctx, FV_ERR_FORMAT, "%s: pickle: %s at byte %zu", p->path, what, p->op_at);
}

void *fv_pickle_add(fv_pickle *p, pool *to)
{
    if (to->count == to->room) {
        size_t room = to->room ? 2 * to->room : 64, bytes;
        void *more = room <= UINT32_MAX && fv_checked_mul_size(room, to->element, &bytes)
                         ? fv_mem_alloc(&p->ctx->mem, bytes)
                         : NULL;
        if (!more) {
            (void)fv_fail(p->ctx, FV_ERR_MEMORY, "%s: out of memory", p->path);
            return NULL;
        }
        if (to->count > 0) memcpy(more, to->data, to->count * to->element);
        fv_mem_free(&p->ctx->mem, to->data, to->room * to->element);
        to->data = more;
        to->room = room;
    }
    void *last = (char *)to->data + to->count++ * to->element;
    memset(last, 0, to->element);
    return last;
}

static fv_status add_index(fv_pickle *p, pool *to, uint32_t index)
{
    uint32_t *last = fv_pickle_add(p, to);
    if (!last) return FV_ERR_MEMORY;
    *last = index;
    return FV_OK;
}

fv_status fv_pickle_create(fv_ctx *ctx, const char *path, const char *text, size_t bytes,
                           fv_pickle **out)
{
    fv_pickle *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    *p = (fv_pickle){.ctx = ctx, .path = path, .text = text, .bytes = bytes};
    p->values.element = sizeof(value);
    p->links.element = sizeof(chain_link);
    p->storages.element = sizeof(storage);
    p->tensors.element = sizeof(fv_pickle_tensor);
    p->items.element = p->stack.element = p->marks.element = p->memo.element = sizeof(uint32_t);
    const bool made = fv_pickle_add(p, &p->links) != NULL;
    if (made)
        *out = p;
    else
        fv_pickle_free(&p);
    return made ? FV_OK : FV_ERR_MEMORY;
}

void fv_pickle_free(fv_pickle **pickle)
{
    fv_pickle *p = *pickle;
    if (!p) return;
    pool *const pools[] = {&p->values, &p->links, &p->items,    &p->stack,
                           &p->marks,  &p->memo,  &p->storages, &p->tensors};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        fv_mem_free(&p->ctx->mem, pools[i]->data, pools[i]->room * pools[i]->element);
    fv_mem_free(&p->ctx->mem, p, sizeof *p);
    *pickle = NULL;
}

size_t fv_pickle_done(const fv_pickle *p) { return p->at; }

/* ---- reading the text ------------------------------------------------------------------------ */

static fv_status take(fv_pickle *p, size_t n, const unsigned char **out)
{
    if (n > p->bytes - p->at) return fv_pickle_fail(p, "the text ends inside an opcode");
    *out = (const unsigned char *)p->text + p->at;
    p->at += n;
    return FV_OK;
}

/* A little-endian number of at most eight bytes. */
static fv_status take_number(fv_pickle *p, size_t n, uint64_t *out)
{
    const unsigned char *raw = NULL;
    FV_TRY(take(p, n, &raw));
    *out = 0;
    for (size_t i = n; i-- > 0;)
        *out = *out << 8 | raw[i];
    return FV_OK;
}

static fv_status take_text(fv_pickle *p, uint64_t n, fv_pickle_text *out)
{
    const unsigned char *raw = NULL;
    FV_RETURN_IF(n > p->ctx->limits.string_bytes, p->ctx, FV_ERR_LIMIT,
                 "%s: pickle: a string has %llu bytes, the limit is %llu", p->path,
                 (unsigned long long)n, (unsigned long long)p->ctx->limits.string_bytes);
    FV_TRY(take(p, (size_t)n, &raw));
    *out = (fv_pickle_text){(const char *)raw, (size_t)n};
    return FV_OK;
}

static fv_status take_line(fv_pickle *p, fv_pickle_text *out)
{
    const char *start = p->text + p->at, *end = memchr(start, '\n', p->bytes - p->at);
    if (!end) return fv_pickle_fail(p, "the text ends inside an opcode");
    *out = (fv_pickle_text){start, (size_t)(end - start)};
    p->at += out->bytes + 1;
    return FV_OK;
}

/* ---- the stack ------------------------------------------------------------------------------- */

fv_status fv_pickle_push(fv_pickle *p, const value *v)
{
    const value copy = *v; /* it may be one of those that move */
    value *kept = fv_pickle_add(p, &p->values);
    if (!kept) return FV_ERR_MEMORY;
    *kept = copy;
    return add_index(p, &p->stack, (uint32_t)(p->values.count - 1));
}

/* Values above the last MARK. */
static size_t height(const fv_pickle *p)
{
    return p->stack.count - (p->marks.count ? index_at(&p->marks, p->marks.count - 1) : 0);
}

fv_status fv_pickle_pop(fv_pickle *p, uint32_t *out)
{
    if (height(p) == 0) return fv_pickle_fail(p, "the stack is empty");
    *out = index_at(&p->stack, --p->stack.count);
    return FV_OK;
}

fv_status fv_pickle_peek(const fv_pickle *p, size_t n, value **out)
{
    if (height(p) <= n) return fv_pickle_fail(p, "the stack is empty");
    *out = value_at(p, index_at(&p->stack, p->stack.count - 1 - n));
    return FV_OK;
}

static fv_status mark(fv_pickle *p)
{
    FV_RETURN_IF(p->marks.count >= p->ctx->limits.json_depth, p->ctx, FV_ERR_LIMIT,
                 "%s: pickle: more than %llu values are nested", p->path,
                 (unsigned long long)p->ctx->limits.json_depth);
    return add_index(p, &p->marks, (uint32_t)p->stack.count);
}

/* Forgets the last MARK; *count values are above it. */
static fv_status unmark(fv_pickle *p, size_t *count)
{
    if (p->marks.count == 0) return fv_pickle_fail(p, "a MARK is missing");
    *count = height(p);
    p->marks.count--;
    return FV_OK;
}

/* ---- constants ------------------------------------------------------------------------------- */

static fv_status push_integer(fv_pickle *p, size_t bytes, bool is_signed)
{
    uint64_t raw = 0;
    FV_TRY(take_number(p, bytes, &raw));
    const unsigned unused = (unsigned)(64 - 8 * bytes);
    int64_t number = (int64_t)raw;
    if (is_signed && bytes > 0 && raw >> (8 * bytes - 1))
        number = (int64_t)(raw | ~(~0ull >> unused));
    return fv_pickle_push(p, &(value){.kind = INTEGER, .as.integer = number});
}

/* LONG1: sizes of 2 GiB and more. Wider numbers than 64 bits cannot be sizes. */
static fv_status push_long(fv_pickle *p)
{
    uint64_t bytes = 0;
    FV_TRY(take_number(p, 1, &bytes));
    if (bytes > 8) return fv_pickle_fail(p, "an integer has more than 64 bits");
    return push_integer(p, (size_t)bytes, true);
}

static fv_status push_text(fv_pickle *p, size_t length_bytes)
{
    uint64_t n = 0;
    fv_pickle_text text = {0};
    FV_TRY(take_number(p, length_bytes, &n));
    FV_TRY(take_text(p, n, &text));
    return fv_pickle_push(
        p, &(value){.kind = TEXT, .count = (uint32_t)text.bytes, .as.text = text.text});
}

static fv_status push_named(fv_pickle *p, fv_pickle_text module, fv_pickle_text name)
{
    char quoted[2][FV_QUOTED_BYTES];
    const fv_pickle_global *global =
        fv_pickle_global_find(module.text, module.bytes, name.text, name.bytes);
    FV_RETURN_IF(!global, p->ctx, FV_ERR_FORMAT,
                 "%s: pickle: \"%s.%s\" at byte %zu is not allowed, only tensors are; nothing was "
                 "executed",
                 p->path, fv_quote(module.text, module.bytes, quoted[0]),
                 fv_quote(name.text, name.bytes, quoted[1]), p->op_at);
    return fv_pickle_push(p, &(value){.kind = GLOBAL, .as.global = global});
}

static fv_status push_global(fv_pickle *p)
{
    fv_pickle_text module = {0}, name = {0};
    FV_TRY(take_line(p, &module));
    FV_TRY(take_line(p, &name));
    return push_named(p, module, name);
}

/* The same with both names from the stack. */
static fv_status push_stack_global(fv_pickle *p)
{
    value *module = NULL, *name = NULL;
    uint32_t unused;
    FV_TRY(fv_pickle_peek(p, 1, &module));
    FV_TRY(fv_pickle_peek(p, 0, &name));
    if (module->kind != TEXT || name->kind != TEXT)
        return fv_pickle_fail(p, "a global's name is not a string");
    const fv_pickle_text m = {module->as.text, module->count}, n = {name->as.text, name->count};
    FV_TRY(fv_pickle_pop(p, &unused));
    FV_TRY(fv_pickle_pop(p, &unused));
    return push_named(p, m, n);
}

/* ---- memo ------------------------------------------------------------------------------------ */

/* Picklers number what they keep from 0 on; a gap would only make the table large. */
static fv_status memo_put(fv_pickle *p, uint64_t i)
{
    if (height(p) == 0) return fv_pickle_fail(p, "the stack is empty");
    if (i > p->memo.count) return fv_pickle_fail(p, "a memo number is out of order");
    const uint32_t top = index_at(&p->stack, p->stack.count - 1);
    if (i == p->memo.count) return add_index(p, &p->memo, top);
    ((uint32_t *)p->memo.data)[i] = top;
    return FV_OK;
}

static fv_status memo_get(fv_pickle *p, uint64_t i)
{
    if (i >= p->memo.count) return fv_pickle_fail(p, "a memo number is not known");
    return add_index(p, &p->stack, index_at(&p->memo, (size_t)i));
}

static fv_status memo_by(fv_pickle *p, size_t bytes, fv_status (*call)(fv_pickle *, uint64_t))
{
    uint64_t i = 0;
    FV_TRY(take_number(p, bytes, &i));
    return call(p, i);
}

/* ---- tuples, lists and dictionaries ---------------------------------------------------------- */

/* The top `count` values become a tuple. */
static fv_status make_tuple(fv_pickle *p, size_t count)
{
    if (height(p) < count) return fv_pickle_fail(p, "the stack is empty");
    const size_t first = p->items.count, base = p->stack.count - count;
    for (size_t i = 0; i < count; i++)
        FV_TRY(add_index(p, &p->items, index_at(&p->stack, base + i)));
    p->stack.count = base;
    return fv_pickle_push(
        p, &(value){.kind = TUPLE, .count = (uint32_t)count, .as.first = (uint32_t)first});
}

static fv_status make_marked_tuple(fv_pickle *p)
{
    size_t count = 0;
    FV_TRY(unmark(p, &count));
    return make_tuple(p, count);
}

static fv_status append(fv_pickle *p, value *to, uint32_t key, uint32_t item)
{
    chain_link *last = fv_pickle_add(p, &p->links);
    if (!last) return FV_ERR_MEMORY;
    const uint32_t i = (uint32_t)(p->links.count - 1);
    *last = (chain_link){.key = key, .value = item};
    if (to->as.chain.tail)
        link_at(p, to->as.chain.tail)->next = i;
    else
        to->as.chain.head = i;
    to->as.chain.tail = i;
    to->count++;
    return FV_OK;
}

/* Moves the top `count` values into the list or dictionary below them. */
static fv_status put_items(fv_pickle *p, value_kind kind, size_t count)
{
    const size_t each = kind == DICT ? 2 : 1;
    value *to = NULL;
    FV_TRY(fv_pickle_peek(p, count, &to));
    if (to->kind != kind) return fv_pickle_fail(p, "items are added to something else");
    if (count % each != 0) return fv_pickle_fail(p, "a key has no value");
    const size_t base = p->stack.count - count;
    for (size_t i = 0; i < count; i += each)
        FV_TRY(
            append(p, to, index_at(&p->stack, base + i), index_at(&p->stack, base + i + each - 1)));
    p->stack.count = base;
    return FV_OK;
}

static fv_status put_marked_items(fv_pickle *p, value_kind kind)
{
    size_t count = 0;
    FV_TRY(unmark(p, &count));
    return put_items(p, kind, count);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the three functions that are allowed would return. */
static fv_status reduce(fv_pickle *p)
{
    uint32_t args_index = 0, function_index = 0;
    FV_TRY(fv_pickle_pop(p, &args_index));
    FV_TRY(fv_pickle_pop(p, &function_index));
    const value *args = value_at(p, args_index), *function = value_at(p, function_index);
    if (function->kind != GLOBAL || args->kind != TUPLE)
        return fv_pickle_fail(p, "something else is called");
    const value kept = *args; /* what follows may move the values */
    switch (function->as.global->call) {
    case FV_PICKLE_ORDERED_DICT:
        return kept.count == 0 ? fv_pickle_push(p, &(value){.kind = DICT})
                               : fv_pickle_fail(p, "an OrderedDict has arguments");
    case FV_PICKLE_TENSOR:
        return fv_pickle_rebuild_tensor(p, &kept);
    case FV_PICKLE_PARAMETER:
        return fv_pickle_rebuild_parameter(p, &kept);
    default:
        return fv_pickle_fail(p, "a storage's type is called");
    }
}

/* Attributes of a dictionary: "_metadata" of a state_dict, which holds versions of modules. */
static fv_status build(fv_pickle *p)
{
    value *to = NULL;
    uint32_t state;
    FV_TRY(fv_pickle_peek(p, 1, &to));
    if (to->kind != DICT) return fv_pickle_fail(p, "attributes are set on something else");
    return fv_pickle_pop(p, &state);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static fv_status begin(fv_pickle *p)
{
    uint64_t version = 0;
    FV_TRY(take_number(p, 1, &version));
    FV_RETURN_IF(version < 2 || version > 5, p->ctx, FV_ERR_FORMAT,
                 "%s: pickle: protocol %llu is not supported, expected 2 to 5", p->path,
                 (unsigned long long)version);
    return FV_OK;
}

static fv_status skip_frame(fv_pickle *p)
{
    uint64_t bytes = 0;
    return take_number(p, 8, &bytes);
}

static fv_status refuse(const fv_pickle *p, unsigned char op)
{
    const char *name = fv_pickle_opcode_name(op);
    return fv_fail(p->ctx, FV_ERR_FORMAT,
                   "%s: pickle: opcode %s (0x%02x) at byte %zu is not allowed, only a dictionary "
                   "of tensors is; nothing was executed",
                   p->path, name ? name : "that does not exist", op, p->op_at);
}

/* The opcodes that are allowed, all but STOP. */
static fv_status step(fv_pickle *p, unsigned char op)
{
    switch (op) {
    case 0x80: /* PROTO */
        return begin(p);
    case 0x95: /* FRAME */
        return skip_frame(p);
    case '(': /* MARK */
        return mark(p);
    case 'N': /* NONE */
        return fv_pickle_push(p, &(value){.kind = NONE});
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return fv_pickle_push(p, &(value){.kind = BOOLEAN, .as.integer = op == 0x88});
    case 'K': /* BININT1 */
        return push_integer(p, 1, false);
    case 'M': /* BININT2 */
        return push_integer(p, 2, false);
    case 'J': /* BININT */
        return push_integer(p, 4, true);
    case 0x8A: /* LONG1 */
        return push_long(p);
    case 'X': /* BINUNICODE */
        return push_text(p, 4);
    case 0x8C: /* SHORT_BINUNICODE */
        return push_text(p, 1);
    case 'c': /* GLOBAL */
        return push_global(p);
    case 0x93: /* STACK_GLOBAL */
        return push_stack_global(p);
    case 'q': /* BINPUT */
        return memo_by(p, 1, memo_put);
    case 'r': /* LONG_BINPUT */
        return memo_by(p, 4, memo_put);
    case 0x94: /* MEMOIZE */
        return memo_put(p, p->memo.count);
    case 'h': /* BINGET */
        return memo_by(p, 1, memo_get);
    case 'j': /* LONG_BINGET */
        return memo_by(p, 4, memo_get);
    case ')': /* EMPTY_TUPLE */
        return make_tuple(p, 0);
    case 't': /* TUPLE */
        return make_marked_tuple(p);
    case 0x85: /* TUPLE1 */
    case 0x86: /* TUPLE2 */
    case 0x87: /* TUPLE3 */
        return make_tuple(p, op - 0x84u);
    case ']': /* EMPTY_LIST */
        return fv_pickle_push(p, &(value){.kind = LIST});
    case 'a': /* APPEND */
        return put_items(p, LIST, 1);
    case 'e': /* APPENDS */
        return put_marked_items(p, LIST);
    case '}': /* EMPTY_DICT */
        return fv_pickle_push(p, &(value){.kind = DICT});
    case 's': /* SETITEM */
        return put_items(p, DICT, 2);
    case 'u': /* SETITEMS */
        return put_marked_items(p, DICT);
    case 'Q': /* BINPERSID */
        return fv_pickle_make_storage(p);
    case 'R': /* REDUCE */
        return reduce(p);
    case 'b': /* BUILD */
        return build(p);
    default:
        return refuse(p, op);
    }
}

fv_status fv_pickle_run(fv_pickle *p, uint32_t *root)
{
    p->stack.count = p->marks.count = p->memo.count = 0;
    p->op_at = p->at;
    FV_RETURN_IF(p->at == p->bytes || (unsigned char)p->text[p->at] != 0x80, p->ctx, FV_ERR_FORMAT,
                 "%s: pickle: does not begin with PROTO", p->path);
    for (;;) {
        const unsigned char *op = NULL;
        p->op_at = p->at;
        if (p->at == p->bytes) return fv_pickle_fail(p, "STOP is missing");
        FV_TRY(take(p, 1, &op));
        if (*op == '.') break;
        FV_TRY(step(p, *op));
    }
    if (p->marks.count > 0 || p->stack.count != 1)
        return fv_pickle_fail(p, "STOP leaves several values");
    return fv_pickle_pop(p, root);
}

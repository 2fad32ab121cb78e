/* Character classes and escapes. */
#include <string.h>

#include "fovea/unicode.h"
#include "text/regex_parse.h"

/* ---- lists ----------------------------------------------------------------------- */

static fv_status new_class(fv_regex_parser *p, uint32_t *number)
{
    enum { MAX_COUNT = 512 };
    if (p->class_count == MAX_COUNT) return fv_regex_fail(p, FV_ERR_LIMIT, "too many classes");
    fv_regex_class *classes =
        fv_mem_grow(&p->ctx->mem, p->classes, &p->class_room, p->class_count + 1, sizeof *classes);
    FV_RETURN_IF(!classes, p->ctx, FV_ERR_MEMORY, "pattern: out of memory");
    p->classes = classes;
    classes[p->class_count] = (fv_regex_class){.intersection = -1, .fold = p->fold};
    *number = (uint32_t)p->class_count++;
    return FV_OK;
}

static fv_status put_item(fv_regex_parser *p, uint32_t number, fv_regex_item item)
{
    enum { MAX_COUNT = 8192 };
    fv_regex_class *c = &p->classes[number];
    if (p->item_count++ == MAX_COUNT)
        return fv_regex_fail(p, FV_ERR_LIMIT, "too many characters in classes");
    if (c->count == c->room) {
        const size_t room = c->room ? 2 * c->room : 4;
        fv_regex_item *items = fv_arena_array(p->arena, room, sizeof *items);
        FV_RETURN_IF(!items, p->ctx, FV_ERR_MEMORY, "pattern: out of memory");
        if (c->count) memcpy(items, c->items, c->count * sizeof *items);
        c->items = items;
        c->room = room;
    }
    c->items[c->count++] = item;
    return FV_OK;
}

fv_status fv_regex_make_class(fv_regex_parser *p, fv_regex_item item, uint32_t *number)
{
    FV_TRY(new_class(p, number));
    return put_item(p, *number, item);
}

/* ---- escapes --------------------------------------------------------------------- */

static fv_status read_hex(fv_regex_parser *p, size_t min, size_t max, uint32_t *out)
{
    size_t n = 0;
    *out = 0;
    for (; n < max && p->at < p->bytes; n++, p->at++) {
        const char c = p->pattern[p->at];
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out << 4 | (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            *out = *out << 4 | (uint32_t)(c - 'A' + 10);
        else
            break;
    }
    if (n < min || *out > 0x10FFFF || (*out >= 0xD800 && *out < 0xE000))
        return fv_regex_fail(p, FV_ERR_FORMAT, "invalid code point");
    return FV_OK;
}

/* \p{Name}: a category by one or two letters, or one of a few words. */
static fv_status read_property(fv_regex_parser *p, bool negated, fv_regex_item *item)
{
    static const struct {
        const char *word, *letters;
    } words[] = {{"Letter", "L"}, {"Mark", "M"},   {"Number", "N"},    {"Punctuation", "P"},
                 {"Symbol", "S"}, {"Digit", "Nd"}, {"Separator", "Z"}, {"Upper", "Lu"}};
    if (!fv_regex_accept(p, "{")) return fv_regex_fail(p, FV_ERR_FORMAT, "expected '{' after \\p");
    if (fv_regex_accept(p, "^")) negated = !negated;
    const char *name = p->pattern + p->at;
    size_t n = 0;
    while (p->at + n < p->bytes && name[n] != '}')
        n++;
    *item = (fv_regex_item){.kind = FV_RE_ITEM_CATEGORIES, .negated = negated};
    const char *letters = name;
    size_t letter_count = n;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, name, n) == 0) {
            letters = words[i].letters;
            letter_count = strlen(letters);
        }
    for (int c = 0; c < FV_CATEGORY_COUNT && letter_count > 0 && letter_count < 3; c++)
        if (memcmp(fv_category_name((fv_category)c), letters, letter_count) == 0)
            item->low |= 1u << c;
    if (item->low == 0)
        return fv_regex_fail(p, FV_ERR_UNSUPPORTED,
                             "property is not supported, expected a general category");
    p->at += n;
    return fv_regex_accept(p, "}") ? FV_OK : fv_regex_fail(p, FV_ERR_FORMAT, "missing '}'");
}

static fv_regex_item one(uint32_t code)
{
    return (fv_regex_item){.kind = FV_RE_ITEM_RANGE, .low = code, .high = code};
}

static fv_status read_hex_class(fv_regex_parser *p, bool negated, fv_regex_item *item)
{
    uint32_t number = 0;
    FV_TRY(new_class(p, &number));
    static const char ranges[] = "09afAF";
    for (int i = 0; i < 6; i += 2) {
        const fv_regex_item range = {.kind = FV_RE_ITEM_RANGE,
                                     .low = (unsigned char)ranges[i],
                                     .high = (unsigned char)ranges[i + 1]};
        FV_TRY(put_item(p, number, range));
    }
    *item = (fv_regex_item){.kind = FV_RE_ITEM_CLASS, .negated = negated, .low = number};
    return FV_OK;
}

/* The control character of a letter, or 0. */
static uint32_t control_of(uint32_t c)
{
    static const char letters[] = "ntrfvae", controls[] = "\n\t\r\f\v\a\033";
    const char *found = c > 0 && c < 128 ? strchr(letters, (int)c) : NULL;
    return found ? (uint32_t)controls[found - letters] : 0;
}

fv_status fv_regex_parse_escape(fv_regex_parser *p, fv_regex_item *item)
{
    uint32_t c = 0;
    FV_TRY(fv_regex_next(p, &c));
    const bool upper = c >= 'A' && c <= 'Z';
    switch (upper ? c - 'A' + 'a' : c) {
    case 'd':
        *item = (fv_regex_item){
            .kind = FV_RE_ITEM_CATEGORIES, .negated = upper, .low = 1u << FV_CATEGORY_ND};
        return FV_OK;
    case 'w':
        *item = (fv_regex_item){.kind = FV_RE_ITEM_WORD, .negated = upper};
        return FV_OK;
    case 's':
        *item = (fv_regex_item){.kind = FV_RE_ITEM_SPACE, .negated = upper};
        return FV_OK;
    case 'h':
        return read_hex_class(p, upper, item);
    case 'p':
        return read_property(p, upper, item);
    default:
        break;
    }
    if (c == 'x' || c == 'u') {
        const bool braces = c == 'x' && fv_regex_accept(p, "{");
        FV_TRY(read_hex(p, c == 'u' ? 4 : 1, braces ? 8 : c == 'u' ? 4 : 2, &c));
        if (braces && !fv_regex_accept(p, "}"))
            return fv_regex_fail(p, FV_ERR_FORMAT, "missing '}'");
        *item = one(c);
        return FV_OK;
    }
    const bool plain = c >= 128 || !(upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'));
    if (!plain) c = control_of(c);
    if (!plain && c == 0) return fv_regex_fail(p, FV_ERR_UNSUPPORTED, "escape is not supported");
    *item = one(c);
    return FV_OK;
}

/* ---- classes --------------------------------------------------------------------- */

/* A character, an escape or a nested class. */
static fv_status read_item(fv_regex_parser *p, fv_regex_item *item)
{
    uint32_t c = 0;
    if (fv_regex_at(p, "[:"))
        return fv_regex_fail(p, FV_ERR_UNSUPPORTED, "[:name:] is not supported");
    if (fv_regex_accept(p, "[")) {
        FV_TRY(fv_regex_parse_class(p, &c));
        *item = (fv_regex_item){.kind = FV_RE_ITEM_CLASS, .low = c};
        return FV_OK;
    }
    if (fv_regex_accept(p, "\\b")) {
        *item = one('\b');
        return FV_OK;
    }
    if (fv_regex_accept(p, "\\")) {
        FV_TRY(fv_regex_parse_escape(p, item));
        if (item->kind == FV_RE_ITEM_WORD) item->low = 1;
        return FV_OK;
    }
    FV_TRY(fv_regex_next(p, &c));
    *item = one(c);
    return FV_OK;
}

static fv_status read_range(fv_regex_parser *p, fv_regex_item *item)
{
    fv_regex_item high;
    const bool single = item->kind == FV_RE_ITEM_RANGE;
    if (!single || !fv_regex_at(p, "-") || fv_regex_at(p, "-]") || fv_regex_at(p, "-["))
        return FV_OK;
    p->at++;
    FV_TRY(read_item(p, &high));
    if (high.kind != FV_RE_ITEM_RANGE || high.high < item->low)
        return fv_regex_fail(p, FV_ERR_FORMAT, "range ends before it begins");
    item->high = high.high;
    return FV_OK;
}

static fv_status read_items(fv_regex_parser *p, uint32_t number)
{
    /* A leading ']' is literal if another one ends the class. */
    bool first = true, literal = fv_regex_at(p, "]") &&
                                 memchr(p->pattern + p->at + 1, ']', p->bytes - p->at - 1) != NULL;
    for (; literal || !fv_regex_accept(p, "]"); first = literal = false) {
        fv_regex_item item = one(']');
        if (p->at >= p->bytes) return fv_regex_fail(p, FV_ERR_FORMAT, "missing ']'");
        if (!first && fv_regex_accept(p, "&&")) {
            /* The rest of the class is the right side of the intersection. */
            uint32_t rest = 0;
            FV_TRY(new_class(p, &rest));
            p->classes[number].intersection = (int32_t)rest;
            return read_items(p, rest);
        }
        FV_TRY(read_item(p, &item));
        FV_TRY(read_range(p, &item));
        FV_TRY(put_item(p, number, item));
    }
    if (first) return fv_regex_fail(p, FV_ERR_FORMAT, "empty class");
    return FV_OK;
}

fv_status fv_regex_parse_class(fv_regex_parser *p, uint32_t *number)
{
    enum { MAX_DEPTH = 32 };
    if (p->depth == MAX_DEPTH) return fv_regex_fail(p, FV_ERR_LIMIT, "nested too deeply");
    FV_TRY(new_class(p, number));
    p->depth++;
    p->classes[*number].negated = fv_regex_accept(p, "^");
    FV_TRY(read_items(p, *number));
    p->depth--;
    return FV_OK;
}

#include "text/graphemes.h"

typedef enum kind { OTHER, CONTROL, MARK, LEAD } kind;

static bool is_between(uint32_t code, uint32_t first, uint32_t last)
{
    return code >= first && code <= last;
}

/* Prefixes: they join the letter after them. */
static bool is_lead(uint32_t c)
{
    return is_between(c, 0x600, 0x605) || c == 0x6DD || c == 0x70F || c == 0x890 || c == 0x891 ||
           c == 0x8E2 || c == 0xD4E || c == 0x110BD || c == 0x110CD;
}

/* Spacing marks that do not extend a cluster. */
static bool breaks_cluster(uint32_t c)
{
    return c == 0x102B || c == 0x102C || c == 0x1038 || is_between(c, 0x1062, 0x1064) ||
           is_between(c, 0x1067, 0x106D) || c == 0x1083 || is_between(c, 0x1087, 0x108C) ||
           c == 0x108F || is_between(c, 0x109A, 0x109C) || c == 0x1A61 || c == 0x1A63 ||
           c == 0x1A64 || c == 0xAA7B || c == 0xAA7D || c == 0x11720 || c == 0x11721;
}

/* Code points that extend a cluster though they are not marks: joiners, tags, skin tones, sound
 * marks and two vowels. */
static bool is_other_mark(uint32_t c)
{
    return c == 0x200C || c == 0x200D || is_between(c, 0xE0020, 0xE007F) ||
           is_between(c, 0x1F3FB, 0x1F3FF) || c == 0xFF9E || c == 0xFF9F || c == 0xE33 ||
           c == 0xEB3;
}

static kind kind_of(uint32_t c)
{
    if (is_between(c, 0x20, 0x7E)) return OTHER;
    if (is_other_mark(c)) return MARK;
    if (is_lead(c)) return LEAD;
    switch (fv_unicode_category(c)) {
    case FV_CATEGORY_MN:
    case FV_CATEGORY_ME:
        return MARK;
    case FV_CATEGORY_MC:
        return breaks_cluster(c) ? OTHER : MARK;
    case FV_CATEGORY_CC:
    case FV_CATEGORY_CF:
    case FV_CATEGORY_ZL:
    case FV_CATEGORY_ZP:
        return CONTROL;
    default:
        return OTHER;
    }
}

size_t fv_grapheme_end(const fv_codepoints *r, size_t begin, size_t *bytes)
{
    size_t i = begin;
    kind last = kind_of(r->items[i].code);
    *bytes = fv_code_bytes(r->items[i++].code);
    if (last == CONTROL) {
        const bool pair = r->items[begin].code == '\r' && i < r->count && r->items[i].code == '\n';
        if (pair) *bytes = 2;
        return i + pair;
    }
    for (; i < r->count; i++) {
        const kind next = kind_of(r->items[i].code);
        if (next != MARK && (last != LEAD || next == CONTROL)) break;
        *bytes += fv_code_bytes(r->items[i].code);
        last = next;
    }
    return i;
}

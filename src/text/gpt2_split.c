/*
 * GPT-2's way to split text, the pattern
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * as a scanner: at each place the first alternative that fits wins.
 */
#include <string.h>

#include "text/work.h"

typedef enum kind { LETTER, NUMBER, SPACE, OTHER } kind;

static const uint8_t ascii_kinds[128] = {
#define O OTHER
#define S SPACE
#define N NUMBER
#define L LETTER
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
#undef O
#undef S
#undef N
#undef L
};

static kind kind_at(const char *text, size_t *length)
{
    unsigned char c = (unsigned char)text[0];
    if (c < 0x80) {
        *length = 1;
        return (kind)ascii_kinds[c];
    }
    *length = fv_lead_length(text[0]);
    uint32_t code = fv_code_of(text, *length);
    if (fv_unicode_is_letter(code)) return LETTER;
    if (fv_unicode_is_number(code)) return NUMBER;
    return fv_unicode_is_space(code) ? SPACE : OTHER;
}

/* Bytes of a contraction after the apostrophe at text[0], that included; 0: none. */
static size_t contraction(const char *text, size_t left)
{
    if (left < 2) return 0;
    char c = text[1], d = left > 2 ? text[2] : '\0';
    if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
    if ((c == 'r' && d == 'e') || (c == 'v' && d == 'e') || (c == 'l' && d == 'l')) return 3;
    return 0;
}

static size_t run_end(const char *text, size_t at, size_t end, kind wanted)
{
    size_t length;
    while (at < end && kind_at(text + at, &length) == wanted)
        at += length;
    return at;
}

/* White space up to a word leaves its last character to it, unless it has only one. */
static size_t space_end(const char *text, size_t at, size_t end)
{
    size_t stop = run_end(text, at, end, SPACE);
    if (stop == end) return stop;
    size_t last = stop - 1;
    while ((text[last] & 0xC0) == 0x80)
        last--;
    return last > at ? last : stop;
}

static size_t next_end(const char *text, size_t at, size_t end)
{
    size_t length, skip = 0;
    if (text[at] == '\'') {
        size_t n = contraction(text + at, end - at);
        if (n) return at + n;
    }
    kind first = kind_at(text + at, &length);
    if (text[at] == ' ' && at + 1 < end) {
        kind second = kind_at(text + at + 1, &length);
        if (second != SPACE) {
            skip = 1;
            first = second;
        }
    }
    if (first == SPACE) return space_end(text, at, end);
    return run_end(text, at + skip + length, end, first);
}

fv_status fv_split_gpt2(fv_work *w, size_t begin, size_t end)
{
    while (begin < end) {
        size_t stop = next_end(w->text, begin, end);
        FV_FORWARD(fv_work_put(w, begin, stop, false));
        begin = stop;
    }
    return FV_OK;
}

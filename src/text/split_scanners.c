/*
 * Scanners for the split patterns of GPT-2 and its successors: at each position, the first
 * alternative of the pattern that matches wins.
 */
#include "text/split_scanners.h"

#include <string.h>

#include "text/codepoints.h"

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

/* ---- GPT-2 ----------------------------------------------------------------------- */

/* Length of the contraction at text[0], including the apostrophe; 0: none. */
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

/* White space before a word excludes its last character, unless it is only one. */
static size_t space_end(const char *text, size_t at, size_t end)
{
    size_t stop = run_end(text, at, end, SPACE);
    if (stop == end) return stop;
    size_t last = stop - 1;
    while ((text[last] & 0xC0) == 0x80)
        last--;
    return last > at ? last : stop;
}

size_t fv_split_gpt2(const char *text, size_t at, size_t end)
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

/* ---- cl100k and Qwen ------------------------------------------------------------- */

/* The same in any case; a long s matches s. */
static size_t any_contraction(const char *text, size_t left)
{
    if (left < 2) return 0;
    if (left > 2 && text[1] == '\xC5' && text[2] == '\xBF') return 3;
    char lower[3] = {'\'', 0, 0};
    for (size_t i = 1; i < 3 && i < left; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    return contraction(lower, left < 3 ? left : 3);
}

static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

/* White space up to its last line end; otherwise as in GPT-2. */
static size_t lines_end(const char *text, size_t at, size_t end)
{
    const size_t stop = run_end(text, at, end, SPACE);
    for (size_t i = stop; i > at; i--)
        if (is_line_end(text[i - 1])) return i;
    return space_end(text, at, end);
}

static size_t digits_end(const char *text, size_t at, size_t end, int max)
{
    size_t length;
    for (; max > 0 && at < end && kind_at(text + at, &length) == NUMBER; max--)
        at += length;
    return at;
}

static size_t scan_modern(const char *text, size_t at, size_t end, int digits)
{
    size_t length, next_length;
    if (text[at] == '\'') {
        const size_t n = any_contraction(text + at, end - at);
        if (n) return at + n;
    }
    const kind first = kind_at(text + at, &length);
    if (first == LETTER) return run_end(text, at + length, end, LETTER);
    if (first == NUMBER) return digits_end(text, at, end, digits);
    const size_t next = at + length;
    const kind second = next < end ? kind_at(text + next, &next_length) : SPACE;
    if (second == LETTER && !is_line_end(text[at])) return run_end(text, next, end, LETTER);
    if (first == SPACE && !(text[at] == ' ' && next < end && second == OTHER))
        return lines_end(text, at, end);
    size_t stop = run_end(text, first == SPACE ? next : at, end, OTHER);
    while (stop < end && is_line_end(text[stop]))
        stop++;
    return stop;
}

size_t fv_split_cl100k(const char *text, size_t at, size_t end)
{
    return scan_modern(text, at, end, 3);
}

size_t fv_split_qwen2(const char *text, size_t at, size_t end)
{
    return scan_modern(text, at, end, 1);
}

/* ---- SentencePiece --------------------------------------------------------------- */

size_t fv_split_metaspace(const char *text, size_t at, size_t end)
{
    for (size_t i = at + 1; i + 3 <= end; i++) {
        const char *found = memchr(text + i, '\xE2', end - i);
        if (!found) break;
        i = (size_t)(found - text);
        if (i + 3 <= end && memcmp(found, "\xE2\x96\x81", 3) == 0) return i;
    }
    return end;
}

/* ---- lookup ---------------------------------------------------------------------- */

fv_split_scanner fv_split_scanner_find(fv_string pattern)
{
#define LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    static const struct {
        const char *pattern;
        fv_split_scanner scan;
    } known[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
         fv_split_gpt2},
        {LETTERS "\\p{N}{1,3}" OTHERS, fv_split_cl100k},
        {LETTERS "\\p{N}" OTHERS, fv_split_qwen2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].pattern) == pattern.bytes &&
            memcmp(known[i].pattern, pattern.text, pattern.bytes) == 0)
            return known[i].scan;
    return NULL;
#undef LETTERS
#undef OTHERS
}

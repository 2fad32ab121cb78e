/* Words instead of tokens: which tokens form a word, and a map between words. */
#include <stdlib.h>
#include <string.h>

#include "fovea/unicode.h"
#include "look_model.h"
#include "output.h"

/* ---- characters ------------------------------------------------------------------------------ */

/* The code point at *at, which moves past it; 0 at the end. Invalid bytes count one each. */
static uint32_t next_code(const char **at, const char *end)
{
    const unsigned char *s = (const unsigned char *)*at;
    if (*at >= end) return 0;
    const int length = s[0] < 0xC0 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (end - *at < length) {
        *at += 1;
        return s[0];
    }
    static const unsigned char lead[] = {0, 0xFF, 0x1F, 0x0F, 0x07};
    uint32_t code = s[0] & lead[length];
    for (int i = 1; i < length; i++)
        code = code << 6 | (s[i] & 0x3Fu);
    *at += length;
    return code;
}

static uint32_t code_after(const char *at, const char *end) { return next_code(&at, end); }

/* The code point that ends at `at`; 0 at the beginning. */
static uint32_t code_before(const char *text, const char *at)
{
    if (at <= text) return 0;
    const char *begin = at - 1;
    while (begin > text && ((unsigned char)*begin & 0xC0) == 0x80)
        begin--;
    return code_after(begin, at);
}

static bool is_word_code(uint32_t code)
{
    return fv_unicode_is_letter(code) || fv_unicode_is_mark(code) || fv_unicode_is_number(code);
}

/* Han, Kana, Thai, Lao, Burmese and Khmer put no blanks between words: each token stands alone. */
static bool is_unspaced(uint32_t code)
{
    static const uint32_t blocks[][2] = {{0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF},
                                         {0x3040, 0x30FF}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF},
                                         {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFD}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code >= blocks[i][0] && code <= blocks[i][1]) return true;
    return false;
}

/* Punctuation that belongs to a word between two letters or digits: didn't, well-known, 3.5. */
static bool joins(uint32_t code)
{
    return code == 0x2019 || (code < 0x80 && strchr("'-.,:/_@&", (int)code));
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Whether a word ends at `at` between two characters of the text. */
static bool is_boundary(const char *text, const char *at)
{
    const char *end = at + strnlen(at, 8); /* two characters are enough */
    const uint32_t a = code_before(text, at), b = code_after(at, end);
    if (!a || !b || is_unspaced(a) || is_unspaced(b)) return true;
    if (is_word_code(a) && is_word_code(b)) return false;
    if (is_word_code(a) && joins(b)) {
        next_code(&at, end);
        return !is_word_code(code_after(at, end));
    }
    if (joins(a) && is_word_code(b)) {
        do
            at--;
        while (at > text && ((unsigned char)*at & 0xC0) == 0x80);
        return !is_word_code(code_before(text, at));
    }
    return true;
}

static bool has_space(const char *from, const char *to)
{
    for (uint32_t code; (code = next_code(&from, to)) != 0;)
        if (fv_unicode_is_space(code)) return true;
    return false;
}

/* Whether token i, not the first, begins a word. */
static bool begins_word(const look_words *words, int64_t i)
{
    const look_range last = words->spans[i - 1], now = words->spans[i];
    if (words->special[i] || words->special[i - 1] || !last.count || !now.count) return true;
    const int64_t end = last.first + last.count;
    if (now.first < end) return false; /* parts of one character */
    const char *text = words->text, *at = text + now.first;
    if (fv_unicode_is_space(code_after(at, at + now.count)) || has_space(text + end, at) ||
        fv_unicode_is_space(code_before(text, text + end)))
        return true;
    return is_boundary(text, at);
}

/* Whether every token is one character, as in models of characters. Words would hide what such a
 * model does. */
static bool are_characters(const look_words *words)
{
    for (int64_t i = 0; i < words->count; i++) {
        const char *at = words->labels[i], *end = at + strlen(at);
        if (words->special[i]) continue;
        next_code(&at, end);
        if (at < end) return false;
    }
    return true;
}

void look_words_align(look_words *words, const char *text)
{
    const char *at = text;
    for (int64_t i = 0; i < words->count; i++) {
        const char *label = words->labels[i], *from = at;
        words->spans[i] = (look_range){0, 0};
        while (fv_unicode_is_space((unsigned char)*label))
            label++;
        while (fv_unicode_is_space((unsigned char)*from))
            from++;
        const size_t bytes = strlen(label);
        if (words->special[i] || bytes == 0 || strncmp(from, label, bytes) != 0) continue;
        words->spans[i] = (look_range){from - text, (int64_t)bytes};
        at = from + bytes;
    }
}

/* ---- axes ------------------------------------------------------------------------------------ */

void look_axis_free(look_axis *axis)
{
    for (int64_t i = 0; axis->labels && i < axis->count; i++)
        free(axis->labels[i]);
    free(axis->labels);
    free(axis->tokens);
    *axis = (look_axis){0};
}

/* An entry's part of the text without blanks before it. Marks after it belong to it, even where the
 * tokenizer drops them as BERT's does; a token without a place in the text has its own spelling. */
static char *label_of(const look_words *words, look_range tokens, bool piece)
{
    if (tokens.first >= words->count) { /* tokens without text: their index */
        char *number = malloc(24);
        if (number) cli_format(number, 24, "%lld", (long long)tokens.first);
        return number;
    }
    if (piece || words->spans[tokens.first].count == 0 || words->special[tokens.first])
        return strdup(words->labels[tokens.first]);
    const look_range a = words->spans[tokens.first],
                     b = words->spans[tokens.first + tokens.count - 1];
    const char *from = words->text + a.first, *end = words->text + b.first + b.count;
    while (from < end && fv_unicode_is_space((unsigned char)*from))
        from++;
    for (const char *next = end; fv_unicode_is_mark(next_code(&next, next + strnlen(next, 4)));)
        end = next;
    return strndup(from, (size_t)(end - from));
}

bool look_axis_make(const look_words *words, int64_t tokens, bool pieces, bool no_special,
                    look_axis *out)
{
    const bool join = !pieces && words->count > 0 && !are_characters(words);
    look_axis axis = {.tokens = calloc((size_t)tokens + 1, sizeof *axis.tokens),
                      .labels = calloc((size_t)tokens + 1, sizeof *axis.labels)};
    bool made = axis.tokens && axis.labels;
    for (int64_t i = 0; made && i < tokens; i++) {
        if (no_special && words->count && words->special[i]) continue;
        look_range *last = axis.count ? &axis.tokens[axis.count - 1] : NULL;
        if (join && last && last->first + last->count == i && !begins_word(words, i))
            last->count++;
        else
            axis.tokens[axis.count++] = (look_range){i, 1};
    }
    for (int64_t i = 0; made && i < axis.count; i++) {
        axis.labels[i] = label_of(words, axis.tokens[i], !join);
        made = axis.labels[i] != NULL;
    }
    if (made)
        *out = axis;
    else
        look_axis_free(&axis);
    return made;
}

double look_axis_row(const look_axis *rows, int64_t r, const look_axis *cols, const float *x,
                     int64_t stride, bool renormalise, float *out)
{
    const int64_t count = rows->tokens[r].count;
    double total = 0, kept = 0;
    for (int64_t j = 0; j < cols->count; j++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < cols->tokens[j].count; k++)
                sum += (double)x[i * stride + cols->tokens[j].first + k];
        kept += sum;
        out[j] = (float)(sum / (double)count);
    }
    if (!renormalise) return 0;
    for (int64_t i = 0; i < count * stride; i++)
        total += (double)x[i];
    for (int64_t j = 0; j < cols->count && kept > 0; j++)
        out[j] = (float)((double)out[j] * (total / kept));
    return total > 0 ? 1 - kept / total : 0;
}

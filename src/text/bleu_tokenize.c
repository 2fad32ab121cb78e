/*
 * Words as BLEU counts them. The rules of "13a" are those of the WMT script mteval-v13a.pl in the
 * form sacreBLEU gives them: four replacements, one after the other, each from left to right and
 * never looking at a byte twice. All bytes they look for are ASCII, so they work on UTF-8 as it is.
 */
#include <string.h>

#include "text/scorer.h"

bool fv_score_is_space(uint32_t code)
{
    return fv_unicode_is_space(code) || (code >= 0x1C && code <= 0x1F);
}

fv_status fv_symbols_put(fv_scorer *scorer, uint32_t symbol)
{
    fv_symbols *s = &scorer->symbols;
    if (s->count == s->room) {
        uint32_t *items =
            fv_mem_grow(&scorer->ctx->mem, s->items, &s->room, s->count + 1, sizeof *items);
        FV_RETURN_IF(!items, scorer->ctx, FV_ERR_MEMORY, "out of memory");
        s->items = items;
    }
    s->items[s->count++] = symbol;
    return FV_OK;
}

static fv_status put_word(fv_scorer *scorer, const char *text, size_t bytes)
{
    uint32_t symbol = 0;
    if (bytes == 0) return FV_OK;
    FV_FORWARD(fv_ngrams_word(&scorer->words, text, bytes, &symbol));
    return fv_symbols_put(scorer, symbol);
}

fv_status fv_score_words(fv_scorer *scorer, const char *text, size_t bytes)
{
    scorer->symbols.count = 0;
    size_t begin = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_lead_length(text[i]);
        if (fv_score_is_space(fv_code_of(text + i, length))) {
            FV_FORWARD(put_word(scorer, text + begin, i - begin));
            begin = i + length;
        }
        i += length;
    }
    return put_word(scorer, text + begin, bytes - begin);
}

static fv_status characters(fv_scorer *scorer, const char *text, size_t bytes)
{
    scorer->symbols.count = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_lead_length(text[i]);
        uint32_t code = fv_code_of(text + i, length);
        if (!fv_score_is_space(code)) FV_FORWARD(fv_symbols_put(scorer, code));
        i += length;
    }
    return FV_OK;
}

/* ---- 13a ------------------------------------------------------------------------- */

/* Replaces in place; `to` is not longer than `from`. */
static size_t replace(char *text, size_t bytes, const char *from, const char *to)
{
    size_t n = strlen(from), m = strlen(to), used = 0;
    for (size_t i = 0; i < bytes;) {
        if (text[i] == from[0] && bytes - i >= n && memcmp(text + i, from, n) == 0) {
            memcpy(text + used, to, m);
            used += m;
            i += n;
        } else {
            text[used++] = text[i++];
        }
    }
    return used;
}

static size_t read_entities(char *text, size_t bytes)
{
    bytes = replace(text, bytes, "<skipped>", "");
    bytes = replace(text, bytes, "-\n", "");
    bytes = replace(text, bytes, "\n", " ");
    bytes = replace(text, bytes, "&quot;", "\"");
    bytes = replace(text, bytes, "&amp;", "&");
    bytes = replace(text, bytes, "&lt;", "<");
    return replace(text, bytes, "&gt;", ">");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_stop(char c) { return c == '.' || c == ','; }

/* ASCII punctuation and symbols but ' , - and the stop */
static bool stands_apart(char c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* One replacement: at `in`, reads one or two bytes and writes up to four. Returns how many it read,
 * and adds to *used what it wrote. */
typedef size_t (*pass_fn)(const char *in, size_t left, char *out, size_t *used);

static size_t copy_byte(const char *in, char *out, size_t *used)
{
    out[(*used)++] = in[0];
    return 1;
}

static size_t write_pass(const char *text, size_t bytes, char *out, size_t *used)
{
    memcpy(out + *used, text, bytes);
    *used += bytes;
    return 2;
}

static size_t pass_symbols(const char *in, size_t left, char *out, size_t *used)
{
    (void)left;
    if (!stands_apart(in[0])) return copy_byte(in, out, used);
    write_pass((const char[]){' ', in[0], ' '}, 3, out, used);
    return 1;
}

/* A stop or comma behind anything but a digit. */
static size_t pass_stop_after(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || is_digit(in[0]) || !is_stop(in[1])) return copy_byte(in, out, used);
    return write_pass((const char[]){in[0], ' ', in[1], ' '}, 4, out, used);
}

/* A stop or comma before anything but a digit. */
static size_t pass_stop_before(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || !is_stop(in[0]) || is_digit(in[1])) return copy_byte(in, out, used);
    return write_pass((const char[]){' ', in[0], ' ', in[1]}, 4, out, used);
}

/* A dash behind a digit. */
static size_t pass_dash(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || !is_digit(in[0]) || in[1] != '-') return copy_byte(in, out, used);
    return write_pass((const char[]){in[0], ' ', '-', ' '}, 4, out, used);
}

static fv_status tokenize_13a(fv_scorer *scorer, const char *text, size_t bytes)
{
    static const pass_fn passes[] = {pass_symbols, pass_stop_after, pass_stop_before, pass_dash};
    fv_text *from = &scorer->tokens, *to = &scorer->spare;
    from->bytes = 0;
    FV_FORWARD(fv_text_append(scorer->ctx, from, " ", 1));
    FV_FORWARD(fv_text_append(scorer->ctx, from, text, bytes));
    from->bytes = 1 + read_entities(from->data + 1, bytes);
    FV_FORWARD(fv_text_append(scorer->ctx, from, " ", 1));
    for (size_t p = 0; p < sizeof passes / sizeof passes[0]; p++) {
        /* A byte becomes at most three. The text is below 4 GiB: no overflow. */
        FV_FORWARD(fv_text_reserve(scorer->ctx, to, 3 * from->bytes));
        to->bytes = 0;
        for (size_t i = 0; i < from->bytes;)
            i += passes[p](from->data + i, from->bytes - i, to->data, &to->bytes);
        fv_text *swap = from;
        from = to;
        to = swap;
    }
    return fv_score_words(scorer, from->data, from->bytes);
}

fv_status fv_score_tokenize(fv_scorer *scorer, const char *text, size_t bytes)
{
    switch (scorer->cfg.tokenizer) {
    case FV_SCORE_CHAR:
        return characters(scorer, text, bytes);
    case FV_SCORE_SPLIT:
        return fv_score_words(scorer, text, bytes);
    default:
        return tokenize_13a(scorer, text, bytes);
    }
}

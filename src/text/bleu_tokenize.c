/*
 * BLEU tokenizers. "13a" follows the WMT script mteval-v13a.pl as implemented in sacreBLEU: four
 * replacement passes, each from left to right without overlaps. They only match ASCII bytes, so
 * they work on UTF-8 directly.
 */
#include <string.h>

#include "text/text_metric.h"

bool fv_text_metric_is_space(uint32_t code)
{
    return fv_unicode_is_space(code) || (code >= 0x1C && code <= 0x1F);
}

fv_status fv_symbols_put(fv_text_metric *metric, uint32_t symbol)
{
    fv_symbols *s = &metric->symbols;
    if (s->count == s->room) {
        uint32_t *items =
            fv_mem_grow(&metric->ctx->mem, s->items, &s->room, s->count + 1, sizeof *items);
        FV_RETURN_IF(!items, metric->ctx, FV_ERR_MEMORY, "out of memory");
        s->items = items;
    }
    s->items[s->count++] = symbol;
    return FV_OK;
}

static fv_status put_word(fv_text_metric *metric, const char *text, size_t bytes)
{
    uint32_t symbol = 0;
    if (bytes == 0) return FV_OK;
    FV_TRY(fv_ngrams_word(&metric->words, text, bytes, &symbol));
    return fv_symbols_put(metric, symbol);
}

fv_status fv_text_metric_split_words(fv_text_metric *metric, const char *text, size_t bytes)
{
    metric->symbols.count = 0;
    size_t begin = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_lead_length(text[i]);
        if (fv_text_metric_is_space(fv_code_of(text + i, length))) {
            FV_TRY(put_word(metric, text + begin, i - begin));
            begin = i + length;
        }
        i += length;
    }
    return put_word(metric, text + begin, bytes - begin);
}

static fv_status characters(fv_text_metric *metric, const char *text, size_t bytes)
{
    metric->symbols.count = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_lead_length(text[i]);
        uint32_t code = fv_code_of(text + i, length);
        if (!fv_text_metric_is_space(code)) FV_TRY(fv_symbols_put(metric, code));
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

/* ASCII punctuation and symbols except ' , - . */
static bool is_separated(char c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* One replacement: reads one or two bytes at `in` and writes up to four. Returns the bytes read,
 * and adds the bytes written to *used. */
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
    if (!is_separated(in[0])) return copy_byte(in, out, used);
    write_pass((const char[]){' ', in[0], ' '}, 3, out, used);
    return 1;
}

/* A period or comma after a non-digit. */
static size_t pass_stop_after(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || is_digit(in[0]) || !is_stop(in[1])) return copy_byte(in, out, used);
    return write_pass((const char[]){in[0], ' ', in[1], ' '}, 4, out, used);
}

/* A period or comma before a non-digit. */
static size_t pass_stop_before(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || !is_stop(in[0]) || is_digit(in[1])) return copy_byte(in, out, used);
    return write_pass((const char[]){' ', in[0], ' ', in[1]}, 4, out, used);
}

/* A dash after a digit. */
static size_t pass_dash(const char *in, size_t left, char *out, size_t *used)
{
    if (left < 2 || !is_digit(in[0]) || in[1] != '-') return copy_byte(in, out, used);
    return write_pass((const char[]){in[0], ' ', '-', ' '}, 4, out, used);
}

static fv_status tokenize_13a(fv_text_metric *metric, const char *text, size_t bytes)
{
    static const pass_fn passes[] = {pass_symbols, pass_stop_after, pass_stop_before, pass_dash};
    fv_text *from = &metric->tokens, *to = &metric->scratch_text;
    from->bytes = 0;
    FV_TRY(fv_text_append(metric->ctx, from, " ", 1));
    FV_TRY(fv_text_append(metric->ctx, from, text, bytes));
    from->bytes = 1 + read_entities(from->data + 1, bytes);
    FV_TRY(fv_text_append(metric->ctx, from, " ", 1));
    for (size_t p = 0; p < sizeof passes / sizeof passes[0]; p++) {
        /* A byte becomes at most three; texts are below 4 GiB, so this cannot overflow. */
        FV_TRY(fv_text_reserve(metric->ctx, to, 3 * from->bytes));
        to->bytes = 0;
        for (size_t i = 0; i < from->bytes;)
            i += passes[p](from->data + i, from->bytes - i, to->data, &to->bytes);
        fv_text *swap = from;
        from = to;
        to = swap;
    }
    return fv_text_metric_split_words(metric, from->data, from->bytes);
}

fv_status fv_bleu_tokenize(fv_text_metric *metric, const char *text, size_t bytes)
{
    switch (metric->cfg.tokenizer) {
    case FV_BLEU_TOKENIZER_CHAR:
        return characters(metric, text, bytes);
    case FV_BLEU_TOKENIZER_NONE:
        return fv_text_metric_split_words(metric, text, bytes);
    default:
        return tokenize_13a(metric, text, bytes);
    }
}

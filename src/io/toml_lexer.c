#include "io/toml_lexer.h"

#include <math.h>
#include <string.h>

#include "io/decimal.h"
#include "io/utf8.h"

/* ---- white space------------------------------------------------------------------- */

void toml_skip_space(fv_parser *s)
{
    while (fv_parser_peek(s, 0) == ' ' || fv_parser_peek(s, 0) == '\t')
        s->pos++;
}

/* Length of the line end at pos: 1, 2, or 0 if there is none. A lone carriage return is not one. */
static size_t line_end(const fv_parser *s)
{
    if (fv_parser_peek(s, 0) == '\n') return 1;
    return fv_parser_peek(s, 0) == '\r' && fv_parser_peek(s, 1) == '\n' ? 2 : 0;
}

static bool accept_line_end(fv_parser *s)
{
    size_t n = line_end(s);
    if (n == 0) return false;
    s->pos += n;
    fv_parser_new_line(s);
    return true;
}

/* Checks one character of a string or comment; *length is its length in bytes. */
static fv_status check_character(const fv_parser *s, size_t *length)
{
    int c = fv_parser_peek(s, 0);
    *length = fv_utf8_length(s->text + s->pos, s->bytes - s->pos);
    if (*length == 0) return fv_parser_fail(s, FV_ERR_FORMAT, "invalid UTF-8");
    if ((c < ' ' && c != '\t') || c == 0x7F)
        return fv_parser_fail(s, FV_ERR_FORMAT, "invalid control character 0x%02X", (unsigned)c);
    return FV_OK;
}

static fv_status skip_comment(fv_parser *s)
{
    if (fv_parser_peek(s, 0) != '#') return FV_OK;
    while (fv_parser_peek(s, 0) >= 0 && line_end(s) == 0) {
        size_t length;
        FV_TRY(check_character(s, &length));
        s->pos += length;
    }
    return FV_OK;
}

fv_status toml_skip_lines(fv_parser *s)
{
    do {
        toml_skip_space(s);
        FV_TRY(skip_comment(s));
    } while (accept_line_end(s));
    return FV_OK;
}

fv_status toml_expect_end_of_line(fv_parser *s)
{
    toml_skip_space(s);
    FV_TRY(skip_comment(s));
    if (fv_parser_peek(s, 0) < 0 || accept_line_end(s)) return FV_OK;
    return fv_parser_expected(s, "the end of the line");
}

/* ---- strings --------------------------------------------------------------------- */

/* The number of consecutive `quote` characters at pos + ahead. */
static size_t quote_run(const fv_parser *s, size_t ahead, int quote)
{
    size_t n = 0;
    while (fv_parser_peek(s, ahead + n) == quote)
        n++;
    return n;
}

/* Bytes from pos to the closing quotes: an upper bound for the decoded string. */
static fv_status raw_length(const fv_parser *s, int quote, bool many, size_t *out)
{
    size_t n = 0;
    for (;; n++) {
        int c = fv_parser_peek(s, n);
        if (c < 0 || (!many && c == '\n'))
            return fv_parser_fail(s, FV_ERR_FORMAT, "unterminated string");
        if (c == '\\' && quote == '"') {
            n++;
        } else if (c == quote && !many) {
            break;
        } else if (c == quote) {
            size_t run = quote_run(s, n, quote);
            if (run > 5)
                return fv_parser_fail(s, FV_ERR_FORMAT, "too many quotes at the end of a string");
            n += run >= 3 ? run - 3 : run - 1;
            if (run >= 3) break; /* the first one or two may belong to the string */
        }
    }
    uint64_t limit = s->doc->ctx->limits.string_bytes;
    if (n > limit)
        return fv_parser_fail(s, FV_ERR_LIMIT, "string longer than %llu bytes",
                              (unsigned long long)limit);
    *out = n;
    return FV_OK;
}

/* A backslash at the end of a line removes the line end and all white space after it. */
static bool accept_line_joint(fv_parser *s)
{
    fv_parser ahead = *s;
    toml_skip_space(&ahead);
    if (!accept_line_end(&ahead)) return false;
    do
        toml_skip_space(&ahead);
    while (accept_line_end(&ahead));
    *s = ahead;
    return true;
}

static fv_status escape(fv_parser *s, bool many, char *out, size_t *used)
{
    static const char from[] = "\"\\bfnrt", to[] = "\"\\\b\f\n\r\t";
    s->pos++;
    if (many && accept_line_joint(s)) return FV_OK;
    int c = fv_parser_peek(s, 0);
    if (c == 'u' || c == 'U') {
        uint32_t code;
        s->pos++;
        FV_TRY(fv_parser_hex(s, c == 'u' ? 4 : 8, &code));
        if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return fv_parser_fail(s, FV_ERR_FORMAT, "U+%04X is not a valid code point", code);
        *used += fv_utf8_put(code, out + *used);
        return FV_OK;
    }
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (!at) return fv_parser_expected(s, "one of \" \\ b f n r t u U after a backslash");
    out[(*used)++] = to[at - from];
    s->pos++;
    return FV_OK;
}

/* Decodes up to `end`, the position of the closing quotes. */
static fv_status decode(fv_parser *s, size_t end, int quote, bool many, char *out, size_t *used)
{
    while (s->pos < end) {
        if (quote == '"' && fv_parser_peek(s, 0) == '\\') {
            FV_TRY(escape(s, many, out, used));
        } else if (many && accept_line_end(s)) {
            out[(*used)++] = '\n';
        } else {
            size_t length;
            FV_TRY(check_character(s, &length));
            memcpy(out + *used, s->text + s->pos, length);
            *used += length;
            s->pos += length;
        }
    }
    return FV_OK;
}

/* Starts at the opening quote. Only values may span lines. */
static fv_status read_string(fv_parser *s, bool may_span, const char **text, uint32_t *bytes)
{
    int quote = fv_parser_peek(s, 0);
    bool many = may_span && quote_run(s, 0, quote) >= 3;
    size_t raw = 0, used = 0;
    s->pos += many ? 3 : 1;
    if (many) accept_line_end(s); /* the first line end is not part of the string */
    FV_TRY(raw_length(s, quote, many, &raw));
    char *out = fv_arena_alloc(&s->doc->arena, raw + 1);
    if (!out) return fv_parser_out_of_memory(s);
    size_t end = s->pos + raw;
    FV_TRY(decode(s, end, quote, many, out, &used));
    s->pos += many ? 3 : 1;
    out[used] = '\0';
    *text = out;
    *bytes = (uint32_t)used;
    return FV_OK;
}

/* ---- keys ------------------------------------------------------------------------ */

static bool is_bare(int c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

fv_status toml_read_key(fv_parser *s, fv_member *item)
{
    *item = (fv_member){.value = fv_parser_value(s, FV_VALUE_NULL)};
    int c = fv_parser_peek(s, 0);
    if (c == '"' || c == '\'') return read_string(s, false, &item->key, &item->key_bytes);
    size_t n = 0;
    while (is_bare(fv_parser_peek(s, n)))
        n++;
    if (n == 0) return fv_parser_expected(s, "a key");
    uint64_t limit = s->doc->ctx->limits.string_bytes;
    if (n > limit)
        return fv_parser_fail(s, FV_ERR_LIMIT, "key longer than %llu bytes",
                              (unsigned long long)limit);
    item->key = fv_arena_text(&s->doc->arena, s->text + s->pos, n);
    if (!item->key) return fv_parser_out_of_memory(s);
    item->key_bytes = (uint32_t)n;
    s->pos += n;
    return FV_OK;
}

/* ---- numbers and literals -------------------------------------------------------- */

enum { NUMBER_BYTES = 400 };

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* Copies a number without its underscores; each must be between two digits. */
static bool strip(const char *text, size_t n, char *out, size_t *used)
{
    *used = 0;
    for (size_t i = 0; i < n; i++) {
        bool hex = n > 2 && text[0] == '0' && text[1] == 'x';
        if (text[i] == '_') {
            bool fits = i > 0 && i + 1 < n && text[i - 1] != '_' && text[i + 1] != '_';
            if (!fits) return false;
            if (!hex && (!is_digit(text[i - 1]) || !is_digit(text[i + 1]))) return false;
            if (hex && i == 2) return false;
        } else {
            out[(*used)++] = text[i];
        }
    }
    return true;
}

/* 0x, 0o or 0b and digits of that base, without a sign. */
static bool based_integer(const char *text, size_t n, int64_t *out)
{
    int bits = text[1] == 'x' ? 4 : text[1] == 'o' ? 3 : text[1] == 'b' ? 1 : 0;
    uint64_t value = 0;
    if (bits == 0 || n == 2) return false;
    for (size_t i = 2; i < n; i++) {
        int c = text[i], digit = 99;
        if (is_digit(c))
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        if (digit >= 1 << bits || value >> (63 - bits)) return false;
        value = value << bits | (uint64_t)digit;
    }
    *out = (int64_t)value;
    return true;
}

/* The number of consecutive digits at text + i. */
static size_t digit_run(const char *text, size_t n, size_t i)
{
    size_t start = i;
    while (i < n && is_digit(text[i]))
        i++;
    return i - start;
}

/* [+-]digits[.digits][e[+-]digits] without leading zeros; *whole: it is an integer. */
static bool is_decimal(const char *text, size_t n, bool *whole)
{
    size_t i = text[0] == '+' || text[0] == '-', run = digit_run(text, n, i);
    if (run == 0 || (run > 1 && text[i] == '0')) return false;
    i += run;
    *whole = i == n;
    if (i < n && text[i] == '.') {
        run = digit_run(text, n, ++i);
        if (run == 0) return false;
        i += run;
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        if (i < n && (text[i] == '+' || text[i] == '-')) i++;
        run = digit_run(text, n, i);
        if (run == 0) return false;
        i += run;
    }
    return i == n;
}

/* 1979-05-27..., 07:32:00... */
static bool is_date(const char *text, size_t n)
{
    return (n > 4 && digit_run(text, n, 0) == 4 && text[4] == '-') ||
           (n > 2 && digit_run(text, n, 0) == 2 && text[2] == ':');
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool special_real(const char *text, size_t n, double *out)
{
    bool sign = text[0] == '+' || text[0] == '-';
    bool inf = is_word(text + sign, n - sign, "inf"), nan = is_word(text + sign, n - sign, "nan");
    if (!inf && !nan) return false;
    *out = copysign(inf ? INFINITY : NAN, text[0] == '-' ? -1.0 : 1.0);
    return true;
}

static fv_status read_number(const fv_parser *s, const char *raw, size_t raw_bytes, fv_value *v)
{
    char text[NUMBER_BYTES];
    size_t n = 0;
    bool whole = false;
    if (raw_bytes == 0) return fv_parser_expected(s, "a value");
    if (is_date(raw, raw_bytes))
        return fv_parser_fail(s, FV_ERR_UNSUPPORTED,
                              "dates and times are not supported, use a string");
    if (raw_bytes > NUMBER_BYTES)
        return fv_parser_fail(s, FV_ERR_LIMIT, "number longer than %d characters", NUMBER_BYTES);
    bool clean = strip(raw, raw_bytes, text, &n);
    v->kind = FV_VALUE_REAL;
    if (special_real(raw, raw_bytes, &v->as.real)) return FV_OK;
    v->kind = FV_VALUE_INT;
    if (clean && n > 1 && text[0] == '0' && based_integer(text, n, &v->as.integer)) return FV_OK;
    char quoted[FV_QUOTED_BYTES];
    if (!clean || !is_decimal(text, n, &whole))
        return fv_parser_fail(s, FV_ERR_FORMAT, "'%s' is not a value (strings need quotes)",
                              fv_quote(raw, raw_bytes, quoted));
    if (whole && fv_decimal_to_i64(text, n, &v->as.integer)) return FV_OK;
    v->kind = FV_VALUE_REAL;
    if (!whole && fv_decimal_to_double(text, n, &v->as.real)) return FV_OK;
    return fv_parser_fail(s, FV_ERR_FORMAT, "'%s' does not fit in 64 bits",
                          fv_quote(raw, raw_bytes, quoted));
}

fv_status toml_read_scalar(fv_parser *s, fv_value *v)
{
    int c = fv_parser_peek(s, 0);
    *v = fv_parser_value(s, FV_VALUE_STRING);
    if (c == '"' || c == '\'') return read_string(s, true, &v->as.text, &v->count);

    const char *text = s->text + s->pos;
    size_t n = 0;
    for (; (c = fv_parser_peek(s, n)) >= 0 && (is_bare(c) || strchr("+.:", c)); n++)
        if (c == 0) break;
    v->kind = FV_VALUE_BOOL;
    v->as.boolean = is_word(text, n, "true");
    if (!v->as.boolean && !is_word(text, n, "false")) FV_TRY(read_number(s, text, n, v));
    s->pos += n;
    return FV_OK;
}

#include "io/json.h"

#include <string.h>

#include "io/decimal.h"
#include "io/file.h"
#include "io/parser.h"
#include "io/utf8.h"

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static void skip_space(fv_parser *s)
{
    for (;;) {
        int c = fv_parser_peek(s, 0);
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
        s->pos++;
        if (c == '\n') fv_parser_new_line(s);
    }
}

/* ---- strings --------------------------------------------------------------------- */

/* Bytes up to the closing quote: an upper bound for the decoded string, so that it is allocated
 * once. */
static fv_status raw_length(const fv_parser *s, size_t *out)
{
    uint64_t limit = s->doc->ctx->limits.string_bytes;
    size_t n = 0;
    for (;; n++) {
        int c = fv_parser_peek(s, n);
        if (c < 0) return fv_parser_fail(s, FV_ERR_FORMAT, "unterminated string");
        if (c == '"') break;
        if (c == '\\') n++;
    }
    /* An escape takes up to six bytes for one; the exact length is checked after decoding. */
    if (n / 6 > limit)
        return fv_parser_fail(s, FV_ERR_LIMIT, "string longer than %llu bytes",
                              (unsigned long long)limit);
    *out = n;
    return FV_OK;
}

static fv_status unicode_escape(fv_parser *s, char *out, size_t *used)
{
    uint32_t code, low;
    FV_TRY(fv_parser_hex(s, 4, &code));
    if (code >= 0xDC00 && code <= 0xDFFF)
        return fv_parser_fail(s, FV_ERR_FORMAT, "low surrogate without a high surrogate before it");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (fv_parser_peek(s, 0) != '\\' || fv_parser_peek(s, 1) != 'u')
            return fv_parser_fail(s, FV_ERR_FORMAT,
                                  "high surrogate without a low surrogate after it");
        s->pos += 2;
        FV_TRY(fv_parser_hex(s, 4, &low));
        if (low < 0xDC00 || low > 0xDFFF)
            return fv_parser_fail(s, FV_ERR_FORMAT,
                                  "high surrogate without a low surrogate after it");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *used += fv_utf8_put(code, out + *used);
    return FV_OK;
}

static fv_status escape(fv_parser *s, char *out, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    s->pos++;
    int c = fv_parser_peek(s, 0);
    if (c == 'u') {
        s->pos++;
        return unicode_escape(s, out, used);
    }
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (!at) return fv_parser_expected(s, "one of \" \\ / b f n r t u after a backslash");
    out[(*used)++] = to[at - from];
    s->pos++;
    return FV_OK;
}

/* At the opening quote. */
static fv_status read_string(fv_parser *s, const char **text, uint32_t *bytes)
{
    fv_parser start = *s;
    size_t raw = 0, used = 0;
    s->pos++;
    FV_TRY(raw_length(s, &raw));
    char *out = fv_arena_alloc(&s->doc->arena, raw + 1);
    if (!out) return fv_parser_out_of_memory(s);
    for (;;) {
        int c = fv_parser_peek(s, 0);
        if (c == '"') break;
        if (c == '\\') {
            FV_TRY(escape(s, out, &used));
            continue;
        }
        if (c < ' ') return fv_parser_fail(s, FV_ERR_FORMAT, "control character in a string");
        size_t length = fv_utf8_length(s->text + s->pos, s->bytes - s->pos);
        if (length == 0) return fv_parser_fail(s, FV_ERR_FORMAT, "invalid UTF-8");
        memcpy(out + used, s->text + s->pos, length);
        used += length;
        s->pos += length;
    }
    s->pos++;
    uint64_t limit = s->doc->ctx->limits.string_bytes;
    if (used > limit)
        return fv_parser_fail(&start, FV_ERR_LIMIT, "string longer than %llu bytes",
                              (unsigned long long)limit);
    out[used] = '\0';
    *text = out;
    *bytes = (uint32_t)used;
    return FV_OK;
}

/* ---- numbers and literals -------------------------------------------------------- */

static fv_status digits(fv_parser *s)
{
    if (!is_digit(fv_parser_peek(s, 0))) return fv_parser_expected(s, "a digit");
    while (is_digit(fv_parser_peek(s, 0)))
        s->pos++;
    return FV_OK;
}

static fv_status read_number(fv_parser *s, fv_value *v)
{
    fv_parser start = *s;
    bool whole = true;
    if (fv_parser_peek(s, 0) == '-') s->pos++;
    if (fv_parser_peek(s, 0) == '0' && is_digit(fv_parser_peek(s, 1)))
        return fv_parser_fail(s, FV_ERR_FORMAT, "number with a leading zero");
    FV_TRY(digits(s));
    if (fv_parser_peek(s, 0) == '.') {
        whole = false;
        s->pos++;
        FV_TRY(digits(s));
    }
    if (fv_parser_peek(s, 0) == 'e' || fv_parser_peek(s, 0) == 'E') {
        whole = false;
        s->pos++;
        if (fv_parser_peek(s, 0) == '+' || fv_parser_peek(s, 0) == '-') s->pos++;
        FV_TRY(digits(s));
    }
    const char *text = start.text + start.pos;
    size_t n = s->pos - start.pos;
    bool minus_zero =
        n == 2 && text[0] == '-' && text[1] == '0'; /* only a double has a negative zero */
    if (whole && !minus_zero && fv_decimal_to_i64(text, n, &v->as.integer)) return FV_OK;
    v->kind = FV_VALUE_REAL;
    if (!fv_decimal_to_double(text, n, &v->as.real))
        return fv_parser_fail(&start, FV_ERR_FORMAT, "number too large for a double");
    return FV_OK;
}

static bool accept_word(fv_parser *s, const char *word)
{
    size_t n = strlen(word);
    if (n > s->bytes - s->pos || memcmp(s->text + s->pos, word, n) != 0) return false;
    s->pos += n;
    return true;
}

/* Any value except arrays and objects. */
static fv_status read_scalar(fv_parser *s, fv_value *v)
{
    int c = fv_parser_peek(s, 0);
    *v = fv_parser_value(s, FV_VALUE_NULL);
    if (c == '"') {
        v->kind = FV_VALUE_STRING;
        return read_string(s, &v->as.text, &v->count);
    }
    if (c == '-' || is_digit(c)) {
        v->kind = FV_VALUE_INT;
        return read_number(s, v);
    }
    if (accept_word(s, "null")) return FV_OK;
    v->kind = FV_VALUE_BOOL;
    if (accept_word(s, "true")) {
        v->as.boolean = true;
        return FV_OK;
    }
    if (accept_word(s, "false")) return FV_OK;
    return fv_parser_expected(s, "a value");
}

/* ---- document -------------------------------------------------------------------- */

/* A key and the colon after it. */
static fv_status read_key(fv_parser *s, fv_member *item)
{
    if (fv_parser_peek(s, 0) != '"') return fv_parser_expected(s, "a key in double quotes");
    FV_TRY(read_string(s, &item->key, &item->key_bytes));
    skip_space(s);
    if (fv_parser_peek(s, 0) != ':') return fv_parser_expected(s, "':'");
    s->pos++;
    skip_space(s);
    return FV_OK;
}

/* What the grammar allows next. */
typedef enum need { NEED_ITEM, NEED_ITEM_OR_CLOSE, NEED_COMMA_OR_CLOSE } need;

static fv_status read_item(fv_parser *s, fv_doc_builder *b, need *next)
{
    fv_member item = {0};
    if (fv_doc_builder_container(b) == FV_VALUE_OBJECT) FV_TRY(read_key(s, &item));
    int c = fv_parser_peek(s, 0);
    if (c == '[' || c == '{') {
        item.value = fv_parser_value(s, c == '[' ? FV_VALUE_ARRAY : FV_VALUE_OBJECT);
        s->pos++;
        *next = NEED_ITEM_OR_CLOSE;
        return fv_doc_builder_open(b, &item);
    }
    FV_TRY(read_scalar(s, &item.value));
    *next = NEED_COMMA_OR_CLOSE;
    return fv_doc_builder_add(b, &item);
}

static fv_status read_text(fv_parser *s, fv_doc_builder *b)
{
    need next = NEED_ITEM;
    do {
        skip_space(s);
        int c = fv_parser_peek(s, 0);
        bool object = fv_doc_builder_container(b) == FV_VALUE_OBJECT;
        if (next != NEED_ITEM && c == (object ? '}' : ']')) {
            s->pos++;
            FV_TRY(fv_doc_builder_close(b));
            next = NEED_COMMA_OR_CLOSE;
        } else if (next == NEED_COMMA_OR_CLOSE) {
            if (c != ',') return fv_parser_expected(s, object ? "',' or '}'" : "',' or ']'");
            s->pos++;
            next = NEED_ITEM;
        } else {
            FV_TRY(read_item(s, b, &next));
        }
    } while (fv_doc_builder_container(b) != FV_VALUE_NULL);
    skip_space(s);
    return s->pos == s->bytes ? FV_OK : fv_parser_expected(s, "the end of the text");
}

fv_status fv_json_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes, fv_doc **out)
{
    fv_parser scan;
    fv_doc_builder builder;
    FV_TRY(fv_parser_init(&scan, ctx, name, text, bytes));
    fv_doc_builder_init(&builder, &scan);
    fv_status status = read_text(&scan, &builder);
    fv_doc_builder_free(&builder);
    if (status == FV_OK)
        *out = scan.doc;
    else
        fv_doc_free(&scan.doc);
    return status;
}

fv_status fv_json_load(fv_ctx *ctx, const char *path, fv_doc **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    fv_status status = fv_json_parse(ctx, path, text, bytes, out);
    fv_mem_free(&ctx->mem, text, bytes);
    return status;
}

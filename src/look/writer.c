#include "look/writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "io/utf8.h"
#include "look/colour.h"
#include "look/display_text.h"

void fv_writer_free(fv_writer *o)
{
    fv_mem_free(&o->ctx->mem, o->data, o->room);
    *o = (fv_writer){.ctx = o->ctx};
}

void fv_writer_bytes(fv_writer *o, const void *data, size_t n)
{
    enum { FIRST = 1024 };
    size_t need = 0;
    char *bigger = NULL;
    if (o->failed || n == 0) return;
    if (fv_checked_add_size(o->bytes, n, &need))
        bigger = fv_mem_grow(&o->ctx->mem, o->data, &o->room, need < FIRST ? FIRST : need, 1);
    if (!bigger) {
        o->failed = true;
        return;
    }
    o->data = bigger;
    memcpy(o->data + o->bytes, data, n);
    o->bytes += n;
}

void fv_writer_text(fv_writer *o, const char *text) { fv_writer_bytes(o, text, strlen(text)); }

void fv_writer_repeat(fv_writer *o, const char *text, int64_t times)
{
    for (int64_t i = 0; i < times && !o->failed; i++)
        fv_writer_text(o, text);
}

static void put_code(fv_writer *o, uint32_t code)
{
    char bytes[4];
    fv_writer_bytes(o, bytes, fv_utf8_put(code, bytes));
}

void fv_writer_plain(fv_writer *o, const char *text)
{
    for (uint32_t code; (code = fv_display_next(&text)) != 0;)
        put_code(o, code);
}

void fv_writer_markup(fv_writer *o, const char *text)
{
    for (uint32_t code; (code = fv_display_next(&text)) != 0;) {
        const char *name = code == '&'    ? "&amp;"
                           : code == '<'  ? "&lt;"
                           : code == '>'  ? "&gt;"
                           : code == '"'  ? "&quot;"
                           : code == '\'' ? "&#39;"
                                          : NULL;
        if (name)
            fv_writer_text(o, name);
        else
            put_code(o, code);
    }
}

/* An angle bracket could end the script; U+2028 and U+2029 end a line in older browsers. */
void fv_writer_script(fv_writer *o, const char *text)
{
    fv_writer_text(o, "\"");
    for (uint32_t code; (code = fv_display_next(&text)) != 0;) {
        char escape[16];
        if (code == '"' || code == '\\' || code == '<' || code == '&' || code == 0x2028 ||
            code == 0x2029) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
            fv_writer_text(o, escape);
        } else {
            put_code(o, code);
        }
    }
    fv_writer_text(o, "\"");
}

void fv_writer_base64(fv_writer *o, const void *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    for (size_t i = 0; i < n && !o->failed; i += 3) {
        const size_t left = n - i;
        const uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                              (left > 2 ? p[i + 2] : 0);
        const char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              left > 1 ? digits[bits >> 6 & 63] : '=',
                              left > 2 ? digits[bits & 63] : '='};
        fv_writer_bytes(o, four, sizeof four);
    }
}

/* ---- numbers --------------------------------------------------------------------- */

char *fv_fixed(double value, int digits, bool trim, char text[FV_FIXED_BYTES])
{
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    if (!(fabs(value) < 1e15)) {
        snprintf(text, FV_FIXED_BYTES, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return text;
    }
    double whole = floor(fabs(value));
    double part = nearbyint((fabs(value) - whole) * powers[digits]);
    if (part >= powers[digits]) {
        whole += 1;
        part = 0;
    }
    const char *sign = value < 0 && (whole > 0 || part > 0) ? "-" : "";
    if (digits == 0)
        snprintf(text, FV_FIXED_BYTES, "%s%lld", sign, (long long)whole);
    else
        snprintf(text, FV_FIXED_BYTES, "%s%lld.%0*lld", sign, (long long)whole, digits,
                 (long long)part);
    if (trim && digits > 0) {
        size_t end = strlen(text);
        while (text[end - 1] == '0')
            end--;
        if (text[end - 1] == '.') end--;
        text[end] = '\0';
    }
    return text;
}

char *fv_short_number(double value, char text[FV_FIXED_BYTES])
{
    const double size = fabs(value);
    if (size == 0 || !isfinite(value)) return fv_fixed(value, 0, false, text);
    if (size >= 1e-4 && size < 1e7) {
        const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
        return fv_fixed(value, digits, true, text);
    }
    int exponent = (int)floor(log10(size));
    char mantissa[FV_FIXED_BYTES];
    fv_fixed(value / pow(10, exponent), 2, true, mantissa);
    if (strcmp(mantissa, "10") == 0 || strcmp(mantissa, "-10") == 0) {
        exponent++;
        fv_fixed(value < 0 ? -1 : 1, 0, false, mantissa);
    }
    snprintf(text, FV_FIXED_BYTES, "%.16se%d", mantissa, exponent);
    return text;
}

void fv_writer_format(fv_writer *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *at = format; *at;) {
        const size_t plain = strcspn(at, "%");
        fv_writer_bytes(o, at, plain);
        at += plain;
        if (*at == '\0') break;
        char text[FV_FIXED_BYTES];
        switch (at[1]) {
        case 'n':
            fv_writer_text(o, fv_fixed(va_arg(args, double), 2, true, text));
            break;
        case 'd':
            snprintf(text, sizeof text, "%d", va_arg(args, int));
            fv_writer_text(o, text);
            break;
        case 'c':
            snprintf(text, sizeof text, "#%06x", (unsigned)va_arg(args, fv_rgb));
            fv_writer_text(o, text);
            break;
        case 's':
            fv_writer_text(o, va_arg(args, const char *));
            break;
        case 't':
            fv_writer_markup(o, va_arg(args, const char *));
            break;
        default:
            fv_writer_bytes(o, "%", 1);
            break;
        }
        at += at[1] ? 2 : 1;
    }
    va_end(args);
}

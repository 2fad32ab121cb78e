#include "io/json_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "io/decimal.h"
#include "io/file.h"
#include "io/utf8.h"

void fv_json_begin(fv_json_writer *w, fv_ctx *ctx) { *w = (fv_json_writer){.ctx = ctx}; }

fv_status fv_json_end(fv_json_writer *w)
{
    if (w->status == FV_ERR_MEMORY) return fv_fail(w->ctx, w->status, "out of memory");
    if (w->status != FV_OK)
        return fv_fail(w->ctx, w->status, "JSON: invalid UTF-8, or a number that is not finite");
    return FV_OK;
}

fv_status fv_json_save(fv_json_writer *w, const char *path)
{
    FV_TRY(fv_json_end(w));
    return fv_file_write_text(w->ctx, path, w->text, w->bytes);
}

void fv_json_free(fv_json_writer *w)
{
    fv_mem_free(&w->ctx->mem, w->text, w->room);
    fv_json_begin(w, w->ctx);
}

static void fail(fv_json_writer *w, fv_status status)
{
    if (w->status == FV_OK) w->status = status;
}

static bool reserve(fv_json_writer *w, size_t more)
{
    size_t need;
    if (w->status != FV_OK) return false;
    if (!fv_checked_add_size(w->bytes, more, &need)) {
        fail(w, FV_ERR_MEMORY);
        return false;
    }
    char *bigger = fv_mem_grow(&w->ctx->mem, w->text, &w->room, need < 256 ? 256 : need, 1);
    if (!bigger) {
        fail(w, FV_ERR_MEMORY);
        return false;
    }
    w->text = bigger;
    return true;
}

void fv_json_raw(fv_json_writer *w, const char *text, size_t n)
{
    if (n == 0 || !reserve(w, n)) return;
    memcpy(w->text + w->bytes, text, n);
    w->bytes += n;
}

/* Writes the comma between two items; `after`: the next item needs one too. */
static void separate(fv_json_writer *w, bool after)
{
    if (w->comma) fv_json_raw(w, ",", 1);
    w->comma = after;
}

void fv_json_open(fv_json_writer *w, char bracket)
{
    separate(w, false);
    fv_json_raw(w, &bracket, 1);
}

void fv_json_close(fv_json_writer *w, char bracket)
{
    fv_json_raw(w, &bracket, 1);
    w->comma = true;
}

static void quoted(fv_json_writer *w, const char *text, size_t n)
{
    static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    if (!fv_utf8_valid(text, n)) {
        fail(w, FV_ERR_ARGUMENT);
        return;
    }
    fv_json_raw(w, "\"", 1);
    size_t plain = 0; /* first byte not yet written */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *at = c ? strchr(special, c) : NULL;
        if (c >= ' ' && !at) continue;
        fv_json_raw(w, text + plain, i - plain);
        plain = i + 1;
        char escape[8];
        int used = at ? snprintf(escape, sizeof escape, "\\%c", letter[at - special])
                      : snprintf(escape, sizeof escape, "\\u%04x", c);
        fv_json_raw(w, escape, used > 0 ? (size_t)used : 0);
    }
    fv_json_raw(w, text + plain, n - plain);
    fv_json_raw(w, "\"", 1);
}

void fv_json_key_n(fv_json_writer *w, const char *key, size_t n)
{
    separate(w, false);
    quoted(w, key, n);
    fv_json_raw(w, ":", 1);
}

void fv_json_key(fv_json_writer *w, const char *key) { fv_json_key_n(w, key, strlen(key)); }

void fv_json_string_n(fv_json_writer *w, const char *text, size_t n)
{
    separate(w, true);
    quoted(w, text, n);
}

void fv_json_string(fv_json_writer *w, const char *text)
{
    fv_json_string_n(w, text, strlen(text));
}

void fv_json_int(fv_json_writer *w, int64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value);
    separate(w, true);
    fv_json_raw(w, text, n > 0 ? (size_t)n : 0);
}

void fv_json_real(fv_json_writer *w, double value)
{
    if (!isfinite(value)) {
        fail(w, FV_ERR_ARGUMENT);
        return;
    }
    char text[FV_DECIMAL_BYTES];
    size_t n = fv_double_to_decimal(value, text);
    separate(w, true);
    fv_json_raw(w, text, n);
}

void fv_json_bool(fv_json_writer *w, bool value)
{
    separate(w, true);
    fv_json_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void fv_json_null(fv_json_writer *w)
{
    separate(w, true);
    fv_json_raw(w, "null", 4);
}

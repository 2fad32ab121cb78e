#include <string.h>

#include "base/checked_math.h"
#include "fovea/data.h"
#include "io/json.h"
#include "io/utf8.h"
#include "text/byte_stream.h"
#include "text/codepoints.h"

enum { FIRST_ROOM = 1 << 16 };

struct fv_lines {
    fv_byte_stream stream;
    fv_lines_policy policy;
    char *buffer;
    size_t room;
    size_t begin, end; /* unread bytes of the buffer */
    uint64_t number;
    bool ended; /* the stream has ended */
};

static fv_status make(fv_ctx *ctx, fv_lines_policy policy, fv_lines **out)
{
    FV_RETURN_IF((unsigned)policy > FV_LINES_POLICY_MARK, ctx, FV_ERR_ARGUMENT,
                 "lines: unknown policy %d", (int)policy);
    fv_lines *lines = fv_mem_zalloc(&ctx->mem, sizeof *lines);
    FV_RETURN_IF(!lines, ctx, FV_ERR_MEMORY, "lines: out of memory");
    lines->stream.ctx = ctx;
    lines->policy = policy;
    *out = lines;
    return FV_OK;
}

/* Returns the reader, or frees it if its stream could not be opened. */
static fv_status opened(fv_ctx *ctx, fv_lines *lines, fv_status status, fv_lines **out)
{
    if (status == FV_OK)
        *out = lines;
    else
        fv_mem_free(&ctx->mem, lines, sizeof *lines);
    return status;
}

fv_status fv_lines_open(fv_ctx *ctx, const char *path, fv_lines_policy policy, fv_lines **out)
{
    fv_lines *lines = NULL;
    FV_TRY(make(ctx, policy, &lines));
    return opened(ctx, lines, fv_byte_stream_open(ctx, path, &lines->stream), out);
}

fv_status fv_lines_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                               fv_lines_policy policy, fv_lines **out)
{
    fv_lines *lines = NULL;
    FV_TRY(make(ctx, policy, &lines));
    return opened(ctx, lines, fv_byte_stream_open_memory(ctx, name, data, bytes, &lines->stream),
                  out);
}

fv_status fv_lines_open_stream(fv_ctx *ctx, const char *name, fv_lines_reader read, void *user,
                               fv_lines_policy policy, fv_lines **out)
{
    fv_lines *lines = NULL;
    FV_TRY(make(ctx, policy, &lines));
    return opened(ctx, lines, fv_byte_stream_open_callback(ctx, name, read, user, &lines->stream),
                  out);
}

bool fv_lines_is_ready(const fv_lines *l)
{
    return l->ended || (l->end > l->begin && memchr(l->buffer + l->begin, '\n', l->end - l->begin));
}

void fv_lines_close(fv_lines **lines)
{
    fv_lines *l = *lines;
    if (!l) return;
    fv_mem *mem = &l->stream.ctx->mem;
    fv_byte_stream_close(&l->stream);
    fv_mem_free(mem, l->buffer, l->room);
    fv_mem_free(mem, l, sizeof *l);
    *lines = NULL;
}

const char *fv_lines_name(const fv_lines *lines) { return lines->stream.name; }

/* Reads more bytes after `end`, growing the buffer if needed; one byte is always kept for the NUL.
 */
static fv_status fill(fv_lines *l)
{
    fv_ctx *ctx = l->stream.ctx;
    size_t have = l->end - l->begin, got = 0;
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, have);
        l->begin = 0;
        l->end = have;
    }
    if (l->room < FIRST_ROOM || l->end >= l->room - 1) {
        size_t need;
        FV_RETURN_IF(!fv_checked_add_size(l->room, FIRST_ROOM, &need), ctx, FV_ERR_MEMORY,
                     "out of memory");
        char *buffer = fv_mem_grow(&ctx->mem, l->buffer, &l->room, need, 1);
        FV_RETURN_IF(!buffer, ctx, FV_ERR_MEMORY, "%s: out of memory", l->stream.name);
        l->buffer = buffer;
    }
    FV_TRY(fv_byte_stream_read(&l->stream, l->buffer + l->end, l->room - 1 - l->end, &got));
    l->ended = got == 0;
    l->end += got;
    return FV_OK;
}

/* Reads until the next line is complete: *length is its length without the line end, *step with it.
 */
static fv_status find_end(fv_lines *l, size_t *length, size_t *step)
{
    const uint64_t limit = l->stream.ctx->limits.line_bytes;
    size_t searched = 0;
    for (;;) {
        size_t have = l->end - l->begin;
        char *start = l->buffer + l->begin;
        char *newline = have > searched ? memchr(start + searched, '\n', have - searched) : NULL;
        size_t n = newline ? (size_t)(newline - start) : have;
        FV_RETURN_IF(n > limit, l->stream.ctx, FV_ERR_LIMIT,
                     "%s:%llu: the line is longer than %llu bytes", l->stream.name,
                     (unsigned long long)l->number + 1, (unsigned long long)limit);
        if (newline || l->ended) {
            *length = n;
            *step = newline ? n + 1 : n;
            return FV_OK;
        }
        searched = have;
        FV_TRY(fill(l));
    }
}

static fv_status reject(const fv_lines *l, const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && text[at]) {
        size_t length = fv_utf8_length(text + at, n - at);
        if (length == 0) break;
        at += length;
    }
    return fv_fail(l->stream.ctx, FV_ERR_FORMAT, "%s:%llu: %s at byte %zu of the line",
                   l->stream.name, (unsigned long long)l->number,
                   text[at] ? "invalid UTF-8" : "NUL byte (a binary file?)", at + 1);
}

fv_status fv_lines_next(fv_lines *l, fv_line *out)
{
    size_t length = 0, step = 0;
    if (!l->buffer) FV_TRY(fill(l));
    FV_TRY(find_end(l, &length, &step));
    if (step == 0) {
        *out = (fv_line){.number = l->number, .valid = true};
        return FV_OK;
    }
    char *text = l->buffer + l->begin;
    l->begin += step;
    l->number++;
    if (step > length && length > 0 && text[length - 1] == '\r') length--;
    text[length] = '\0'; /* overwrites the line end, or the byte kept for it */
    bool valid = !memchr(text, '\0', length) && fv_utf8_valid(text, length);
    if (!valid && l->policy == FV_LINES_POLICY_REJECT) return reject(l, text, length);
    *out = (fv_line){.text = text, .bytes = length, .number = l->number, .valid = valid};
    return FV_OK;
}

fv_status fv_json_get_string(fv_ctx *ctx, const char *name, const char *json, size_t bytes,
                             const char *key, fv_text *out, bool *found)
{
    fv_doc *doc = NULL;
    FV_TRY(fv_json_parse(ctx, name, json, bytes, &doc));
    const fv_value *value = fv_value_get(&doc->root, key);
    fv_status s = fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT);
    if (s == FV_OK && value) {
        s = fv_doc_kind(doc, value, FV_VALUE_STRING);
        if (s == FV_OK) s = fv_text_reserve(ctx, out, value->count);
        if (s == FV_OK) {
            out->bytes = 0;
            s = fv_text_append(ctx, out, value->as.text, value->count);
        }
    }
    if (s == FV_OK) *found = value != NULL;
    fv_doc_free(&doc);
    return s;
}

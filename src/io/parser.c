#include "io/parser.h"

#include <stdio.h>
#include <string.h>

#include "io/utf8.h"

fv_status fv_parser_init(fv_parser *scan, fv_ctx *ctx, const char *name, const char *text,
                         size_t bytes)
{
    FV_RETURN_IF(bytes > ctx->limits.text_bytes || bytes >= UINT32_MAX, ctx, FV_ERR_LIMIT,
                 "%s: has %zu bytes, the limit is %llu", name, bytes,
                 (unsigned long long)ctx->limits.text_bytes);
    fv_doc *doc = fv_doc_create(ctx, name);
    FV_RETURN_IF(!doc, ctx, FV_ERR_MEMORY, "%s: out of memory", name);
    *scan = (fv_parser){.doc = doc, .text = bytes ? text : "", .bytes = bytes, .line = 1};
    return FV_OK;
}

fv_value fv_parser_value(const fv_parser *scan, fv_value_kind kind)
{
    return (fv_value){
        .kind = kind, .line = scan->line, .column = (uint32_t)(scan->pos - scan->line_start + 1)};
}

fv_status fv_parser_fail(const fv_parser *scan, fv_status status, const char *fmt, ...)
{
    char text[FV_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fv_value here = fv_parser_value(scan, FV_VALUE_NULL);
    return fv_doc_fail(scan->doc, &here, status, "%s", text);
}

fv_status fv_parser_expected(const fv_parser *scan, const char *what)
{
    int c = fv_parser_peek(scan, 0);
    if (c < 0)
        return fv_parser_fail(scan, FV_ERR_FORMAT, "expected %s, found the end of the text", what);
    if (c == '\n' || c == '\r')
        return fv_parser_fail(scan, FV_ERR_FORMAT, "expected %s, found the end of the line", what);
    if (c > ' ' && c < 0x7F)
        return fv_parser_fail(scan, FV_ERR_FORMAT, "expected %s, found '%c'", what, c);
    return fv_parser_fail(scan, FV_ERR_FORMAT, "expected %s, found byte 0x%02X", what, (unsigned)c);
}

fv_status fv_parser_out_of_memory(const fv_parser *scan)
{
    return fv_parser_fail(scan, FV_ERR_MEMORY, "out of memory");
}

fv_status fv_parser_hex(fv_parser *scan, int digits, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++) {
        int c = fv_parser_peek(scan, 0), digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return fv_parser_expected(scan, "a hexadecimal digit");
        value = value << 4 | (uint32_t)digit;
        scan->pos++;
    }
    *out = value;
    return FV_OK;
}

/* ---- builder --------------------------------------------------------------------- */

struct fv_doc_frame {
    fv_member self; /* the container */
    size_t first;   /* its first item */
};

void fv_doc_builder_init(fv_doc_builder *builder, fv_parser *scan)
{
    *builder = (fv_doc_builder){.scan = scan};
}

void fv_doc_builder_free(fv_doc_builder *builder)
{
    fv_mem *mem = builder->scan->doc->arena.mem;
    fv_mem_free(mem, builder->items, builder->room * sizeof *builder->items);
    fv_mem_free(mem, builder->frames, builder->frame_room * sizeof *builder->frames);
    *builder = (fv_doc_builder){.scan = builder->scan};
}

fv_status fv_doc_builder_add(fv_doc_builder *builder, const fv_member *item)
{
    fv_doc *doc = builder->scan->doc;
    if (builder->depth == 0) {
        doc->root = item->value;
        return FV_OK;
    }
    fv_member *items = fv_mem_grow(doc->arena.mem, builder->items, &builder->room,
                                   builder->count + 1, sizeof *items);
    if (!items) return fv_parser_out_of_memory(builder->scan);
    builder->items = items;
    builder->items[builder->count++] = *item;
    return FV_OK;
}

fv_status fv_doc_builder_open(fv_doc_builder *builder, const fv_member *item)
{
    fv_doc *doc = builder->scan->doc;
    uint64_t limit = doc->ctx->limits.json_depth;
    if (builder->depth >= limit)
        return fv_doc_fail(doc, &item->value, FV_ERR_LIMIT, "nested deeper than %llu levels",
                           (unsigned long long)limit);
    struct fv_doc_frame *frames = fv_mem_grow(doc->arena.mem, builder->frames, &builder->frame_room,
                                              builder->depth + 1, sizeof *frames);
    if (!frames) return fv_parser_out_of_memory(builder->scan);
    builder->frames = frames;
    builder->frames[builder->depth++] =
        (struct fv_doc_frame){.self = *item, .first = builder->count};
    return FV_OK;
}

fv_status fv_doc_builder_close(fv_doc_builder *builder)
{
    fv_doc *doc = builder->scan->doc;
    struct fv_doc_frame frame = builder->frames[--builder->depth];
    /* Adding 0 to NULL is undefined in C. */
    const fv_member *items = builder->items ? builder->items + frame.first : NULL;
    size_t count = builder->count - frame.first;
    fv_value *self = &frame.self.value;
    builder->count = frame.first;
    if (self->kind == FV_VALUE_OBJECT) {
        const fv_member *duplicate = NULL;
        if (!fv_doc_make_object(doc, items, count, self, &duplicate))
            return fv_parser_out_of_memory(builder->scan);
        char key[FV_QUOTED_BYTES];
        if (duplicate)
            return fv_doc_fail(doc, &duplicate->value, FV_ERR_FORMAT, "duplicate key \"%s\"",
                               fv_quote(duplicate->key, duplicate->key_bytes, key));
    } else {
        fv_value *values = fv_arena_array(&doc->arena, count, sizeof *values);
        if (!values) return fv_parser_out_of_memory(builder->scan);
        for (size_t i = 0; i < count; i++)
            values[i] = items[i].value;
        self->count = (uint32_t)count;
        self->as.items = values;
    }
    return fv_doc_builder_add(builder, &frame.self);
}

fv_value_kind fv_doc_builder_container(const fv_doc_builder *builder)
{
    return builder->depth ? builder->frames[builder->depth - 1].self.value.kind : FV_VALUE_NULL;
}

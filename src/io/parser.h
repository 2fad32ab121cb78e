/*
 * What the JSON and TOML readers share: a position in a text that knows its line, and a builder
 * that collects values and closes them into arrays and objects without recursion.
 */
#ifndef FV_IO_PARSER_H
#define FV_IO_PARSER_H

#include "io/document.h"

typedef struct fv_parser {
    fv_doc *doc;
    const char *text;
    size_t bytes;
    size_t pos;
    uint32_t line;
    size_t line_start;
} fv_parser;

/* Refuses texts over fv_limits.text_bytes and makes the document. */
fv_status fv_parser_init(fv_parser *scan, fv_ctx *ctx, const char *name, const char *text,
                         size_t bytes);

/* The byte at pos + ahead, or -1 past the end. */
static inline int fv_parser_peek(const fv_parser *scan, size_t ahead)
{
    return ahead < scan->bytes - scan->pos ? (unsigned char)scan->text[scan->pos + ahead] : -1;
}

/* To be called with pos on the first byte of a line. */
static inline void fv_parser_new_line(fv_parser *scan)
{
    scan->line++;
    scan->line_start = scan->pos;
}

/* An empty value that knows where it stands. */
fv_value fv_parser_value(const fv_parser *scan, fv_value_kind kind);

/* "name:line:column: text" for the current position. */
fv_status fv_parser_fail(const fv_parser *scan, fv_status status, const char *fmt, ...)
    FV_PRINTF(3, 4);
/* The same, adding what stands there: "expected a value, found 'x'". */
fv_status fv_parser_expected(const fv_parser *scan, const char *what);
fv_status fv_parser_out_of_memory(const fv_parser *scan);

/* Reads exactly `digits` hex digits. */
fv_status fv_parser_hex(fv_parser *scan, int digits, uint32_t *out);

/* ---- builder --------------------------------------------------------------------- */

typedef struct fv_doc_builder {
    fv_parser *scan;
    fv_member *items; /* of all open containers, one after the other */
    size_t count, room;
    struct fv_doc_frame *frames; /* open containers */
    size_t depth, frame_room;
} fv_doc_builder;

void fv_doc_builder_init(fv_doc_builder *builder, fv_parser *scan);
void fv_doc_builder_free(fv_doc_builder *builder);

/* Adds a finished value to the innermost container, or makes it the root. */
fv_status fv_doc_builder_add(fv_doc_builder *builder, const fv_member *item);
/* Opens the array or object `item->value`; FV_ERR_LIMIT past fv_limits.json_depth. */
fv_status fv_doc_builder_open(fv_doc_builder *builder, const fv_member *item);
/* Closes the innermost container; a key used twice is FV_ERR_FORMAT. */
fv_status fv_doc_builder_close(fv_doc_builder *builder);
/* The kind of the innermost container, FV_VALUE_NULL outside all. */
fv_value_kind fv_doc_builder_container(const fv_doc_builder *builder);

#endif

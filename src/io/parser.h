/*
 * Shared by the JSON and TOML parsers: a position in a text with its line number, and a builder
 * that assembles values into arrays and objects without recursion.
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

/* Creates the document; fails with LIMIT for texts over fv_limits.text_bytes. */
fv_status fv_parser_init(fv_parser *scan, fv_ctx *ctx, const char *name, const char *text,
                         size_t bytes);

/* The byte at pos + ahead, or -1 past the end. */
static inline int fv_parser_peek(const fv_parser *scan, size_t ahead)
{
    return ahead < scan->bytes - scan->pos ? (unsigned char)scan->text[scan->pos + ahead] : -1;
}

/* Call with pos on the first byte of a line. */
static inline void fv_parser_new_line(fv_parser *scan)
{
    scan->line++;
    scan->line_start = scan->pos;
}

/* An empty value with the current line and column. */
fv_value fv_parser_value(const fv_parser *scan, fv_value_kind kind);

/* Fails with "name:line:column: text" for the current position. */
fv_status fv_parser_fail(const fv_parser *scan, fv_status status, const char *fmt, ...)
    FV_PRINTF(3, 4);
/* Fails with "expected a value, found 'x'". */
fv_status fv_parser_expected(const fv_parser *scan, const char *what);
fv_status fv_parser_out_of_memory(const fv_parser *scan);

/* Reads exactly `digits` hex digits. */
fv_status fv_parser_hex(fv_parser *scan, int digits, uint32_t *out);

/* ---- builder --------------------------------------------------------------------- */

typedef struct fv_doc_builder {
    fv_parser *scan;
    fv_member *items; /* of all open containers, consecutively */
    size_t count, room;
    struct fv_doc_frame *frames; /* open containers */
    size_t depth, frame_room;
} fv_doc_builder;

void fv_doc_builder_init(fv_doc_builder *builder, fv_parser *scan);
void fv_doc_builder_free(fv_doc_builder *builder);

/* Adds a complete value to the innermost container, or makes it the root. */
fv_status fv_doc_builder_add(fv_doc_builder *builder, const fv_member *item);
/* Opens the array or object `item->value`. Fails: LIMIT (fv_limits.json_depth). */
fv_status fv_doc_builder_open(fv_doc_builder *builder, const fv_member *item);
/* Closes the innermost container. Fails: FORMAT (duplicate key). */
fv_status fv_doc_builder_close(fv_doc_builder *builder);
/* The kind of the innermost container; FV_VALUE_NULL if none is open. */
fv_value_kind fv_doc_builder_container(const fv_doc_builder *builder);

#endif

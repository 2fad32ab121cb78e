/*
 * What the JSON and TOML readers share: a position in a text that knows its line, and a builder
 * that collects values and closes them into arrays and objects without recursion.
 */
#ifndef FV_IO_SCAN_H
#define FV_IO_SCAN_H

#include "io/value.h"

typedef struct fv_scan {
    fv_doc *doc;
    const char *text;
    size_t bytes;
    size_t pos;
    uint32_t line;
    size_t line_start;
} fv_scan;

/* Refuses texts over fv_limits.text_bytes and makes the document. */
fv_status fv_scan_begin(fv_scan *scan, fv_ctx *ctx, const char *name, const char *text,
                        size_t bytes);

/* The byte at pos + ahead, or -1 past the end. */
static inline int fv_scan_peek(const fv_scan *scan, size_t ahead)
{
    return ahead < scan->bytes - scan->pos ? (unsigned char)scan->text[scan->pos + ahead] : -1;
}

/* To be called with pos on the first byte of a line. */
static inline void fv_scan_new_line(fv_scan *scan)
{
    scan->line++;
    scan->line_start = scan->pos;
}

/* An empty value that knows where it stands. */
fv_value fv_scan_value(const fv_scan *scan, fv_kind kind);

/* "name:line:column: text" for the current position. */
fv_status fv_scan_fail(const fv_scan *scan, fv_status status, const char *fmt, ...) FV_PRINTF(3, 4);
/* The same, adding what stands there: "expected a value, found 'x'". */
fv_status fv_scan_expected(const fv_scan *scan, const char *what);
fv_status fv_scan_memory(const fv_scan *scan);

/* Reads exactly `digits` hex digits. */
fv_status fv_scan_hex(fv_scan *scan, int digits, uint32_t *out);

/* ---- builder --------------------------------------------------------------------- */

typedef struct fv_builder {
    fv_scan *scan;
    fv_member *items; /* of all open containers, one after the other */
    size_t count, room;
    struct fv_frame *frames; /* open containers */
    size_t depth, frame_room;
} fv_builder;

void fv_builder_init(fv_builder *builder, fv_scan *scan);
void fv_builder_free(fv_builder *builder);

/* Adds a finished value to the innermost container, or makes it the root. */
fv_status fv_builder_add(fv_builder *builder, const fv_member *item);
/* Opens the array or object `item->value`; FV_ERR_LIMIT past fv_limits.json_depth. */
fv_status fv_builder_open(fv_builder *builder, const fv_member *item);
/* Closes the innermost container; a key used twice is FV_ERR_FORMAT. */
fv_status fv_builder_close(fv_builder *builder);
/* The kind of the innermost container, FV_KIND_NULL outside all. */
fv_kind fv_builder_inside(const fv_builder *builder);

#endif

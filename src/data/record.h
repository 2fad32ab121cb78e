/*
 * Records of separated values, one after the other. A field in quotes may contain separators, line
 * ends and quotes; such a quote is written twice. In files with tabs quotes are ordinary
 * characters: sentences often begin with one.
 */
#ifndef FV_DATA_RECORD_H
#define FV_DATA_RECORD_H

#include "base/ctx.h"
#include "fovea/data.h"

/* Bounds of one record; a quote that is closed beyond them counts as never closed. */
enum { FV_RECORD_FIELDS = 256, FV_RECORD_LINES = 10000, FV_RECORD_BYTES = 1 << 24 };

/* The record being read. Every field ends with a NUL. */
typedef struct fv_record {
    fv_ctx *ctx;
    const char *path; /* for messages */
    char separator;
    uint64_t line; /* its first */
    char *bytes;
    size_t used, room;
    size_t field[FV_RECORD_FIELDS]; /* where each begins */
    int count;
    bool quoted, closed; /* inside quotes; after the closing quote */
    const char *problem; /* what is wrong with the record, or NULL */
    bool is_open;        /* that is a quote that is never closed: what follows is lost */
} fv_record;

/* Skips the byte order mark that some programs write at the start of a file. */
void fv_line_skip_mark(fv_line *line);

void fv_record_init(fv_record *r, fv_ctx *ctx, const char *path, char separator);
void fv_record_free(fv_record *r);

/*
 * Reads the next record; count 0 at the end of the file. Skips empty lines. A malformed record sets
 * `problem`, and the next call reads the one after it. Fails: what fv_lines_next fails with,
 * MEMORY.
 */
fv_status fv_record_next(fv_lines *lines, fv_record *r);

/* "file:line: problem" as a failure, if the record has one. */
fv_status fv_record_check(const fv_record *r);

fv_string fv_record_field(const fv_record *r, int i);

#endif

/* Internals of tables (fovea/data.h). */
#ifndef FV_DATA_TABLE_H
#define FV_DATA_TABLE_H

#include "data/record.h"
#include "io/json.h"
#include "text/codepoints.h"

struct fv_table {
    fv_ctx *ctx;
    const char *path;
    fv_arena arena;
    fv_table_info info;
    fv_lines *lines;
    fv_record record; /* of separated values */
    fv_text values;   /* of a JSON object */
    fv_string fields[FV_TABLE_COLUMNS];
    char problem[64];
};

/* Fills in t->info, and the separator of t->record, from the file's first rows. */
fv_status fv_table_find_format(fv_table *t, fv_table_header header);

/* A line as a JSON object; *out is NULL if it is none. Fails: MEMORY. */
fv_status fv_table_parse_object(fv_ctx *ctx, const fv_line *line, fv_doc **out);

#endif

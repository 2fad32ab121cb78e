/*
 * Tables: tabs, commas, semicolons, JSON Lines or text, whatever the input looks like. Every row
 * has all its fields, valid UTF-8 without NUL bytes, and a second reading finds the same number of
 * rows.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/data.h"
#include "fuzz.h"
#include "io/utf8.h"

/* The rows that can be used, or -1 on a failure. */
static long read_rows(fv_table *table)
{
    const fv_table_info *info = fv_table_get_info(table);
    fv_table_row row;
    long rows = 0;
    uint64_t line = 0;
    for (;;) {
        if (fv_table_next(table, &row) != FV_OK) return -1;
        if (!row.fields) return rows;
        if (row.line <= line) abort();
        line = row.line;
        rows += !row.problem;
        for (int i = 0; i < info->column_count; i++) {
            const fv_string f = row.fields[i];
            if (strlen(f.text) != f.bytes || (!row.problem && !fv_utf8_valid(f.text, f.bytes)))
                abort();
        }
    }
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    static const char *const names[] = {"input.csv", "input.txt", "input"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fv_table *table = NULL;
        if (fv_table_open(ctx, names[i], (fv_table_header)i, &table) != FV_OK) continue;
        const fv_table_info *info = fv_table_get_info(table);
        if (info->column_count < 1 || info->column_count > FV_TABLE_COLUMNS) abort();
        for (int k = 0; k < info->column_count; k++)
            if (!memchr(info->column_names[k], '\0', FV_TABLE_NAME)) abort();
        const long rows = read_rows(table);
        if (rows >= 0 && (fv_table_rewind(table) != FV_OK || read_rows(table) != rows)) abort();
        fv_table_close(&table);
    }
    fuzz_check(ctx);
    return 0;
}

/*
 * Tables: tabs, commas, semicolons, JSON Lines or text, found as `train --new` finds them: by the
 * name's ending and by what the first rows look like. Every row has all its fields, valid UTF-8
 * without NUL bytes, and a second reading finds the same number of rows. Fields are no longer than
 * the text growth that fv_limits allow.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/data.h"
#include "fuzz.h"
#include "io/utf8.h"

/* The rows that can be used, or -1 on a failure. */
static long read_rows(fv_table *table, size_t *made)
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
            *made += f.bytes;
            if (strlen(f.text) != f.bytes || (!row.problem && !fv_utf8_valid(f.text, f.bytes)))
                abort();
        }
    }
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    static const char *const names[] = {"input.csv", "input.tsv", "input.jsonl", "input.txt",
                                        "input"};
    static const fv_table_header headers[] = {FV_TABLE_HEADER_AUTO, FV_TABLE_HEADER_YES,
                                              FV_TABLE_HEADER_NO};
    const size_t max = bytes * ctx->limits.text_growth + 65536;
    /* Two endings for an input, and one kind of header for each, by its length. */
    for (size_t turn = 0; turn < 2; turn++) {
        const size_t i = (bytes + 2 * turn) % (sizeof names / sizeof *names);
        fv_table *table = NULL;
        size_t made = 0, again = 0;
        const double began = fuzz_clock();
        const fv_status s = fv_table_open(ctx, names[i], headers[(turn + bytes) % 3], &table);
        if (s != FV_OK) {
            fuzz_bound("table", s, 0, max, began);
            continue;
        }
        const fv_table_info *info = fv_table_get_info(table);
        if (info->column_count < 1 || info->column_count > FV_TABLE_COLUMNS) abort();
        for (int k = 0; k < info->column_count; k++)
            if (!memchr(info->column_names[k], '\0', FV_TABLE_NAME)) abort();
        const long rows = read_rows(table, &made);
        if (rows >= 0 && (fv_table_rewind(table) != FV_OK || read_rows(table, &again) != rows))
            abort();
        fuzz_bound("table", FV_OK, made, max, began);
        fv_table_close(&table);
    }
    fuzz_check(ctx);
    return 0;
}

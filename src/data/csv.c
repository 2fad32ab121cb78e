#include "data/csv.h"

#include <stdio.h>
#include <string.h>

#include "data/record.h"

/* By the file's name, with or without the ending of a compressed file. */
static char separator_of(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 &&
        (strcmp(path + length - 3, ".gz") == 0 || strcmp(path + length - 3, ".xz") == 0))
        length -= 3;
    return length > 4 && strncmp(path + length - 4, ".tsv", 4) == 0 ? '\t' : ',';
}

/* The next record, which must be well formed. */
static fv_status next_record(fv_lines *lines, fv_record *r)
{
    FV_TRY(fv_record_next(lines, r));
    return fv_record_check(r);
}

/* "a, b, c", truncated to fit. */
static void list_columns(const fv_record *r, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < r->count && used < bytes - 1; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%.60s", i ? ", " : "",
                                 fv_record_field(r, i).text);
}

/* The index of a named column in the first record. */
static fv_status find_column(const fv_record *r, const char *name, int *out)
{
    for (int i = 0; i < r->count; i++) {
        if (strcmp(fv_record_field(r, i).text, name) != 0) continue;
        *out = i;
        return FV_OK;
    }
    char names[200];
    list_columns(r, names, sizeof names);
    return fv_fail(r->ctx, FV_ERR_FORMAT, "%.150s: no column is named '%.60s'; it has %s", r->path,
                   name, names);
}

static fv_status use_records(fv_lines *lines, fv_record *r, int count, const char *const *columns,
                             fv_csv_use use, void *user)
{
    int at[FV_CSV_COLUMNS];
    fv_string fields[FV_CSV_COLUMNS];
    FV_TRY(next_record(lines, r));
    FV_RETURN_IF(r->count == 0, r->ctx, FV_ERR_FORMAT,
                 "%.150s: empty table, expected a line of column names", r->path);
    for (int i = 0; i < count; i++)
        FV_TRY(find_column(r, columns[i], &at[i]));
    const int header_fields = r->count;
    for (;;) {
        FV_TRY(next_record(lines, r));
        if (r->count == 0) return FV_OK;
        FV_RETURN_IF(r->count != header_fields, r->ctx, FV_ERR_FORMAT,
                     "%.150s:%llu: %d fields, expected %d as in the first line", r->path,
                     (unsigned long long)r->line, r->count, header_fields);
        for (int i = 0; i < count; i++)
            fields[i] = fv_record_field(r, at[i]);
        FV_TRY(use(user, fields));
    }
}

fv_status fv_csv_each(fv_ctx *ctx, const char *path, int count, const char *const *columns,
                      fv_csv_use use, void *user)
{
    fv_lines *lines = NULL;
    FV_RETURN_IF(count < 1 || count > FV_CSV_COLUMNS, ctx, FV_ERR_ARGUMENT,
                 "csv: expected 1 to %d columns, got %d", (int)FV_CSV_COLUMNS, count);
    fv_record *r = fv_mem_alloc(&ctx->mem, sizeof *r);
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for a record");
    fv_record_init(r, ctx, path, separator_of(path));
    fv_status status = fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines);
    if (status == FV_OK) status = use_records(lines, r, count, columns, use, user);
    fv_lines_close(&lines);
    fv_record_free(r);
    fv_mem_free(&ctx->mem, r, sizeof *r);
    return status;
}

#include "data/csv.h"

#include <string.h>

#include "base/checked_math.h"
#include "fovea/data.h"

enum { MOST_FIELDS = 256 };

/* The record being read. Every field ends with a NUL. */
typedef struct record {
    fv_ctx *ctx;
    const char *path;
    uint64_t line; /* its first */
    char *bytes;
    size_t used, room;
    size_t field[MOST_FIELDS]; /* where each begins */
    int count;
    bool quoted, closed; /* inside quotes; after the closing quote */
} record;

static fv_status put(record *r, char c)
{
    size_t need;
    char *grown = NULL;
    if (fv_checked_add_size(r->used, 1, &need))
        grown = fv_mem_grow(&r->ctx->mem, r->bytes, &r->room, need, 1);
    FV_RETURN_IF(!grown, r->ctx, FV_ERR_MEMORY, "no memory for a record");
    r->bytes = grown;
    r->bytes[r->used++] = c;
    return FV_OK;
}

static fv_status begin_field(record *r)
{
    FV_RETURN_IF(r->count == MOST_FIELDS, r->ctx, FV_ERR_FORMAT, "%.150s:%llu: more than %d fields",
                 r->path, (unsigned long long)r->line, MOST_FIELDS);
    r->field[r->count++] = r->used;
    r->quoted = r->closed = false;
    return FV_OK;
}

static fv_status end_field(record *r) { return put(r, '\0'); }

/* One line, which may end inside quotes. */
static fv_status read_line(record *r, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (r->quoted && c == '"') {
            const bool doubled = i + 1 < bytes && text[i + 1] == '"';
            if (doubled) FV_TRY(put(r, text[++i]));
            r->quoted = doubled;
            r->closed = !doubled;
        } else if (!r->quoted && c == ',') {
            FV_TRY(end_field(r));
            FV_TRY(begin_field(r));
        } else if (c == '"' && !r->quoted && !r->closed && r->used == r->field[r->count - 1]) {
            r->quoted = true;
        } else {
            FV_RETURN_IF(r->closed, r->ctx, FV_ERR_FORMAT,
                         "%.150s:%llu: text after a closing quote", r->path,
                         (unsigned long long)r->line);
            FV_TRY(put(r, c));
        }
    }
    return FV_OK;
}

/* Reads the next record; count 0 at the end of the file. Skips empty lines. */
static fv_status next_record(fv_lines *lines, record *r)
{
    fv_line line = {.text = ""};
    r->count = 0;
    r->used = 0;
    while (line.bytes == 0) {
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text) return FV_OK;
    }
    r->line = line.number;
    FV_TRY(begin_field(r));
    for (;;) {
        FV_TRY(read_line(r, line.text, line.bytes));
        if (!r->quoted) return end_field(r);
        FV_TRY(put(r, '\n'));
        FV_TRY(fv_lines_next(lines, &line));
        FV_RETURN_IF(!line.text, r->ctx, FV_ERR_FORMAT, "%.150s:%llu: a quote is never closed",
                     r->path, (unsigned long long)r->line);
    }
}

static fv_string field_of(const record *r, int i)
{
    const size_t end = i + 1 < r->count ? r->field[i + 1] : r->used;
    return (fv_string){r->bytes + r->field[i], end - r->field[i] - 1};
}

/* The index of a named column in the first record. */
static fv_status find_column(const record *r, const char *name, int *out)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* byte-order mark, which some programs write */
    for (int i = 0; i < r->count; i++) {
        const char *text = field_of(r, i).text;
        if (i == 0 && strncmp(text, mark, 3) == 0) text += 3;
        if (strcmp(text, name) != 0) continue;
        *out = i;
        return FV_OK;
    }
    return fv_fail(r->ctx, FV_ERR_FORMAT, "%.150s: no column is named '%.60s'", r->path, name);
}

static fv_status use_records(fv_lines *lines, record *r, int count, const char *const *columns,
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
            fields[i] = field_of(r, at[i]);
        FV_TRY(use(user, fields));
    }
}

fv_status fv_csv_each(fv_ctx *ctx, const char *path, int count, const char *const *columns,
                      fv_csv_use use, void *user)
{
    fv_lines *lines = NULL;
    FV_RETURN_IF(count < 1 || count > FV_CSV_COLUMNS, ctx, FV_ERR_ARGUMENT,
                 "csv: expected 1 to %d columns, got %d", (int)FV_CSV_COLUMNS, count);
    record *r = fv_mem_zalloc(&ctx->mem, sizeof *r);
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for a record");
    r->ctx = ctx;
    r->path = path;
    fv_status status = fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines);
    if (status == FV_OK) status = use_records(lines, r, count, columns, use, user);
    fv_lines_close(&lines);
    if (r->bytes) fv_mem_free(&ctx->mem, r->bytes, r->room);
    fv_mem_free(&ctx->mem, r, sizeof *r);
    return status;
}

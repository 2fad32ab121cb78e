/* Tables: reading the rows. table_format.c finds the format. */
#include "data/table.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------- */

fv_status fv_table_rewind(fv_table *t)
{
    fv_lines_close(&t->lines);
    FV_TRY(fv_lines_open(t->ctx, t->path, FV_LINES_POLICY_MARK, &t->lines));
    return t->info.has_header ? fv_record_next(t->lines, &t->record) : FV_OK;
}

fv_status fv_table_open(fv_ctx *ctx, const char *path, fv_table_header header, fv_table **out)
{
    fv_table *t = fv_mem_zalloc(&ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, ctx, FV_ERR_MEMORY, "no memory for a table");
    t->ctx = ctx;
    fv_arena_init(&t->arena, &ctx->mem);
    t->path = fv_arena_text(&t->arena, path, strlen(path));
    fv_record_init(&t->record, ctx, t->path, 0);
    fv_status status =
        t->path ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "no memory for the name of a table");
    if (status == FV_OK) status = fv_table_find_format(t, header);
    if (status == FV_OK) status = fv_table_rewind(t);
    if (status == FV_OK)
        *out = t;
    else
        fv_table_close(&t);
    return status;
}

void fv_table_close(fv_table **table)
{
    fv_table *t = *table;
    if (!t) return;
    fv_lines_close(&t->lines);
    fv_record_free(&t->record);
    fv_text_free(t->ctx, &t->values);
    fv_arena_free(&t->arena);
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
    *table = NULL;
}

const fv_table_info *fv_table_get_info(const fv_table *t) { return &t->info; }

/* ---- rows -------------------------------------------------------------------------------- */

static fv_status next_separated(fv_table *t, fv_table_row *row)
{
    fv_record *r = &t->record;
    FV_TRY(fv_record_next(t->lines, r));
    if (r->count == 0) return FV_OK;
    if (r->is_open) return fv_record_check(r);
    row->line = r->line;
    row->fields = t->fields;
    row->problem = r->problem;
    if (!row->problem && r->count != t->info.column_count) {
        snprintf(t->problem, sizeof t->problem, "%d fields, expected %d", r->count,
                 t->info.column_count);
        row->problem = t->problem;
    }
    for (int i = 0; i < t->info.column_count && !row->problem; i++)
        t->fields[i] = fv_record_field(r, i);
    return FV_OK;
}

/* A value as text; values that are no column have none. */
static const char *value_text(const fv_value *v, char room[32], size_t *bytes)
{
    int n = 0;
    switch (v->kind) {
    case FV_VALUE_STRING:
        *bytes = v->count;
        return v->as.text;
    case FV_VALUE_INT:
        n = snprintf(room, 32, "%lld", (long long)v->as.integer);
        break;
    case FV_VALUE_REAL:
        n = snprintf(room, 32, "%.17g", v->as.real);
        break;
    case FV_VALUE_BOOL:
        n = snprintf(room, 32, "%s", v->as.boolean ? "true" : "false");
        break;
    default:
        room[0] = '\0';
    }
    *bytes = (size_t)n;
    return room;
}

/* The member that a column names, "key" or "outer.inner". */
static const fv_value *find_member(const fv_value *root, const char *name)
{
    char outer[FV_TABLE_NAME];
    const fv_value *found = fv_value_get(root, name);
    const char *dot = strchr(name, '.');
    if (found || !dot) return found;
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    found = fv_value_get(root, outer);
    return found ? fv_value_get(found, dot + 1) : NULL;
}

static fv_status take_members(fv_table *t, const fv_value *root)
{
    size_t at[FV_TABLE_COLUMNS];
    t->values.bytes = 0;
    for (int i = 0; i < t->info.column_count; i++) {
        char room[32] = "";
        size_t bytes = 0;
        const fv_value *v = find_member(root, t->info.column_names[i]);
        const char *text = v ? value_text(v, room, &bytes) : "";
        if (memchr(text, '\0', bytes)) bytes = 0; /* U+0000: as if there were no value */
        at[i] = t->values.bytes;
        t->fields[i].bytes = bytes;
        FV_TRY(fv_text_append(t->ctx, &t->values, text, bytes));
        FV_TRY(fv_text_append(t->ctx, &t->values, "", 1));
    }
    for (int i = 0; i < t->info.column_count; i++)
        t->fields[i].text = t->values.data + at[i];
    return FV_OK;
}

fv_status fv_table_parse_object(fv_ctx *ctx, const fv_line *line, fv_doc **out)
{
    *out = NULL;
    if (!line->valid) return FV_OK;
    const fv_status status = fv_json_parse(ctx, "row", line->text, line->bytes, out);
    if (status == FV_ERR_MEMORY) return status;
    if (status != FV_OK) *out = NULL;
    if (*out && (*out)->root.kind != FV_VALUE_OBJECT) fv_doc_free(out);
    return FV_OK;
}

static fv_status next_object(fv_table *t, fv_table_row *row)
{
    fv_line line = {.text = ""};
    fv_doc *doc = NULL;
    while (line.bytes == 0) {
        FV_TRY(fv_lines_next(t->lines, &line));
        if (!line.text) return FV_OK;
        fv_line_skip_mark(&line);
    }
    row->line = line.number;
    row->fields = t->fields;
    FV_TRY(fv_table_parse_object(t->ctx, &line, &doc));
    if (!doc) {
        row->problem = line.valid ? "not a JSON object" : "invalid UTF-8";
        return FV_OK;
    }
    const fv_status status = take_members(t, &doc->root);
    fv_doc_free(&doc);
    return status;
}

static fv_status next_line(fv_table *t, fv_table_row *row)
{
    fv_line line;
    FV_TRY(fv_lines_next(t->lines, &line));
    if (!line.text) return FV_OK;
    fv_line_skip_mark(&line);
    row->line = line.number;
    row->fields = t->fields;
    if (line.valid)
        t->fields[0] = (fv_string){line.text, line.bytes};
    else
        row->problem = "invalid UTF-8";
    return FV_OK;
}

fv_status fv_table_next(fv_table *t, fv_table_row *out)
{
    fv_table_row row = {0};
    fv_status status = FV_OK;
    for (int i = 0; i < t->info.column_count; i++)
        t->fields[i] = (fv_string){"", 0};
    FV_RETURN_IF(fv_cancelled(t->ctx), t->ctx, FV_ERR_CANCELLED, "interrupted while reading");
    if (t->info.format == FV_TABLE_SEPARATED)
        status = next_separated(t, &row);
    else if (t->info.format == FV_TABLE_JSON_LINES)
        status = next_object(t, &row);
    else
        status = next_line(t, &row);
    if (status == FV_OK) *out = row;
    return status;
}

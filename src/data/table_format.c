/*
 * Finds the format of a table from its first rows.
 *
 *     JSON Lines    the first line that is not empty is a JSON object
 *     separated     nine rows in ten have the same number of fields, two or more; tabs are tried
 *                   first, then semicolons, which a text with commas has less often, then commas
 *     text          anything else
 *
 * A name that ends in .txt allows tabs only, since sentences have commas; one that ends in .csv or
 * .tsv is content with six rows in ten, and makes a file without separators a table of one column.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/table.h"

/* Shares of ten: of rows that agree in any file, and in one whose name says that it is a table. */
enum { SAMPLE_ROWS = 200, MOST = 9, HALF = 6 };

/* ---- the file's name --------------------------------------------------------------------- */

/* The extension without that of a compression, lower-cased. */
static void extension_of(const char *path, char out[8])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t end = strlen(name);
    if (end > 3 &&
        (strcasecmp(name + end - 3, ".gz") == 0 || strcasecmp(name + end - 3, ".xz") == 0))
        end -= 3;
    size_t dot = end;
    while (dot > 0 && name[dot - 1] != '.')
        dot--;
    size_t n = 0;
    for (size_t i = dot; dot > 0 && i < end && n < 7; i++)
        out[n++] = (char)tolower((unsigned char)name[i]);
    out[n] = '\0';
}

/* ---- JSON Lines -------------------------------------------------------------------------- */

static void add_column(fv_table_info *info, const char *outer, const char *key)
{
    char name[2 * FV_TABLE_NAME];
    const int bytes = snprintf(name, sizeof name, "%s%s%s", outer, *outer ? "." : "", key);
    if (bytes < 1 || bytes >= FV_TABLE_NAME || info->column_count == FV_TABLE_COLUMNS) return;
    for (int i = 0; i < info->column_count; i++)
        if (strcmp(info->column_names[i], name) == 0) return;
    memcpy(info->column_names[info->column_count++], name, (size_t)bytes + 1);
}

static bool is_plain(const fv_value *v)
{
    return v->kind != FV_VALUE_ARRAY && v->kind != FV_VALUE_OBJECT && v->kind != FV_VALUE_NULL;
}

static void add_members(fv_table_info *info, const fv_value *object)
{
    for (uint32_t i = 0; i < object->count; i++) {
        const fv_member *m = &object->as.members[i];
        if (is_plain(&m->value)) add_column(info, "", m->key);
        if (m->value.kind != FV_VALUE_OBJECT || strlen(m->key) >= FV_TABLE_NAME) continue;
        for (uint32_t k = 0; k < m->value.count; k++)
            if (is_plain(&m->value.as.members[k].value))
                add_column(info, m->key, m->value.as.members[k].key);
    }
}

/* *found: the first row is an object. */
static fv_status find_objects(fv_table *t, bool *found)
{
    fv_line line = {.text = ""};
    FV_TRY(fv_table_rewind(t));
    for (int rows = 0; rows < SAMPLE_ROWS;) {
        fv_doc *doc = NULL;
        FV_TRY(fv_lines_next(t->lines, &line));
        if (!line.text) break;
        fv_line_skip_mark(&line);
        const size_t blank = strspn(line.text, " \t");
        if (blank == line.bytes) continue;
        if (rows == 0 && line.text[blank] == '[') {
            char extension[8];
            extension_of(t->path, extension);
            FV_RETURN_IF(strcmp(extension, "json") == 0, t->ctx, FV_ERR_UNSUPPORTED,
                         "%.150s: a JSON array, expected one object per line: "
                         "jq -c '.[]' makes a .jsonl file of it",
                         t->path);
        }
        if (rows == 0 && line.text[blank] != '{') return FV_OK;
        FV_TRY(fv_table_parse_object(t->ctx, &line, &doc));
        if (rows++ == 0 && !doc) return FV_OK;
        if (doc) add_members(&t->info, &doc->root);
        fv_doc_free(&doc);
    }
    *found = t->info.column_count > 0;
    return FV_OK;
}

/* ---- separators -------------------------------------------------------------------------- */

/* The number of fields that `share` of ten of the first rows have; 0: there is none. */
static fv_status count_fields(fv_table *t, char separator, int share, int *out)
{
    int rows = 0, with[FV_TABLE_COLUMNS + 1] = {0};
    t->record.separator = separator;
    FV_TRY(fv_table_rewind(t));
    for (; rows < SAMPLE_ROWS; rows++) {
        FV_TRY(fv_record_next(t->lines, &t->record));
        if (t->record.count == 0) break;
        if (t->record.problem) continue;
        with[t->record.count <= FV_TABLE_COLUMNS ? t->record.count : 0]++;
    }
    *out = 0;
    for (int n = 1; n <= FV_TABLE_COLUMNS; n++)
        if (with[n] > 0 && 10 * with[n] >= share * rows) *out = n;
    return FV_OK;
}

/* ---- column names ------------------------------------------------------------------------ */

static bool is_number(fv_string s)
{
    size_t digits = 0;
    for (size_t i = 0; i < s.bytes; i++) {
        if (isdigit((unsigned char)s.text[i]))
            digits++;
        else if (!strchr("+-.eE", s.text[i]))
            return false;
    }
    return digits > 0;
}

/* A usual name of a column. */
static bool is_usual(const char *text)
{
    static const char *const usual[] = {
        "text",  "texts",    "sentence", "sentence1", "sentence2", "source",     "target",
        "src",   "tgt",      "trg",      "input",     "output",    "label",      "labels",
        "class", "category", "question", "answer",    "premise",   "hypothesis", "translation",
        "id",    "english",  "french",   "german",    "spanish",   "italian",    "en",
        "de",    "fr",       "es",       "it",        "nl",        "pt",         "ru",
        "zh",    "ja",       "topic",    "intent",    "sentiment", "review",     "title",
        "body",  "score",    "text1",    "text2",     "text_a",    "text_b"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcasecmp(text, usual[i]) == 0) return true;
    return false;
}

/* Letters, digits, blanks, '_', '-' and '.' inside: "gold_label", not "Go!". */
static bool is_name(fv_string s)
{
    if (s.bytes == 0 || s.bytes >= 32 || is_number(s) || s.text[s.bytes - 1] == '.') return false;
    for (size_t i = 0; i < s.bytes; i++)
        if (!isalnum((unsigned char)s.text[i]) && !strchr("_- .", s.text[i])) return false;
    return true;
}

typedef struct first_row {
    fv_string fields[FV_TABLE_COLUMNS];
    bool repeated;                  /* a field occurs again in its column */
    double bytes[FV_TABLE_COLUMNS]; /* of the other rows' fields */
    int rows, numbers[FV_TABLE_COLUMNS];
} first_row;

/* Whether the first row names the columns. */
static bool is_header(const first_row *f, int columns)
{
    bool usual = false, other = false;
    for (int i = 0; i < columns; i++) {
        const double mean = f->rows ? f->bytes[i] / f->rows : 0;
        if (!is_name(f->fields[i])) return false;
        usual = usual || is_usual(f->fields[i].text);
        other = other || 3 * (double)f->fields[i].bytes < mean ||
                (f->rows > 0 && f->numbers[i] == f->rows);
    }
    return !f->repeated && (usual || other);
}

static fv_status sample_rows(fv_table *t, first_row *f, int columns)
{
    fv_record *r = &t->record;
    bool first = true;
    FV_TRY(fv_table_rewind(t));
    for (int rows = 0; rows < SAMPLE_ROWS; rows++) {
        FV_TRY(fv_record_next(t->lines, r));
        if (r->count == 0) return FV_OK;
        if (r->problem || r->count != columns) {
            first = false; /* names that do not fit the rows are not used */
            continue;
        }
        f->rows += !first && f->fields[0].text;
        for (int i = 0; i < columns; i++) {
            const fv_string s = fv_record_field(r, i);
            if (first) {
                const char *copy = fv_arena_text(&t->arena, s.text, s.bytes);
                FV_RETURN_IF(!copy, t->ctx, FV_ERR_MEMORY, "no memory for a column's name");
                f->fields[i] = (fv_string){copy, s.bytes};
                continue;
            }
            if (!f->fields[i].text) continue;
            f->bytes[i] += (double)s.bytes;
            f->numbers[i] += is_number(s);
            f->repeated = f->repeated || (s.bytes == f->fields[i].bytes &&
                                          memcmp(s.text, f->fields[i].text, s.bytes) == 0);
        }
        first = false;
    }
    return FV_OK;
}

static void name_columns(fv_table_info *info, const first_row *f)
{
    for (int i = 0; i < info->column_count; i++) {
        char *name = info->column_names[i];
        const bool named =
            info->has_header && f->fields[i].bytes > 0 && f->fields[i].bytes < FV_TABLE_NAME;
        snprintf(name, FV_TABLE_NAME, "%d", i + 1);
        if (named) memcpy(name, f->fields[i].text, f->fields[i].bytes + 1);
        for (int k = 0; k < i; k++)
            if (strcmp(info->column_names[k], name) == 0)
                snprintf(name, FV_TABLE_NAME, "%d", i + 1);
    }
}

static fv_status take_separated(fv_table *t, char separator, int columns, fv_table_header header)
{
    first_row f = {.rows = 0};
    t->info.format = FV_TABLE_SEPARATED;
    t->info.separator = t->record.separator = separator;
    t->info.column_count = columns;
    FV_TRY(sample_rows(t, &f, columns));
    const bool fits = f.fields[0].text != NULL;
    t->info.has_header = fits && (header == FV_TABLE_HEADER_AUTO ? is_header(&f, columns)
                                                                 : header == FV_TABLE_HEADER_YES);
    name_columns(&t->info, &f);
    return FV_OK;
}

/* ---- the format -------------------------------------------------------------------------- */

static fv_status check_not_empty(fv_table *t)
{
    fv_line line = {.text = ""};
    FV_TRY(fv_table_rewind(t));
    while (line.bytes == 0) {
        FV_TRY(fv_lines_next(t->lines, &line));
        FV_RETURN_IF(!line.text, t->ctx, FV_ERR_FORMAT, "%.150s: the file is empty", t->path);
    }
    return FV_OK;
}

fv_status fv_table_find_format(fv_table *t, fv_table_header header)
{
    static const char separators[] = {'\t', ';', ','};
    char extension[8];
    bool objects = false;
    extension_of(t->path, extension);
    const bool is_text = strcmp(extension, "txt") == 0,
               is_table = strcmp(extension, "csv") == 0 || strcmp(extension, "tsv") == 0;
    FV_TRY(check_not_empty(t));
    FV_TRY(find_objects(t, &objects));
    if (objects) {
        t->info.format = FV_TABLE_JSON_LINES;
        t->info.has_header = false;
        return FV_OK;
    }
    t->info.column_count = 0;
    for (int share = MOST; share >= (is_table ? HALF : MOST); share -= MOST - HALF)
        for (size_t i = 0; i < (is_text ? 1 : sizeof separators); i++) {
            int columns = 0;
            FV_TRY(count_fields(t, separators[i], share, &columns));
            if (columns > 1) return take_separated(t, separators[i], columns, header);
        }
    if (is_table) return take_separated(t, strcmp(extension, "csv") == 0 ? ',' : '\t', 1, header);
    t->info.format = FV_TABLE_TEXT;
    t->info.column_count = 1;
    snprintf(t->info.column_names[0], FV_TABLE_NAME, "text");
    return FV_OK;
}

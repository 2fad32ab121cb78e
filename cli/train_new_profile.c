/* What the columns of a user's file hold, and which task fits them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "input.h"
#include "output.h"
#include "train_new.h"

enum { SHOWN_PROBLEMS = 5, LABEL_BYTES = 48, LABEL_ROWS = 4 };

/* ---- hashes ------------------------------------------------------------------------------- */

/* FNV-1a; the last steps spread it over all bits, since a split compares the highest ones. */
static uint64_t add_byte(uint64_t h, unsigned char c) { return (h ^ c) * 0x100000001b3u; }

static uint64_t finish(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return h ? h : 1;
}

uint64_t cli_new_hash_exact(fv_string s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.bytes; i++)
        h = add_byte(h, (unsigned char)s.text[i]);
    return finish(h);
}

uint64_t cli_new_hash(fv_string s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.bytes; i++) {
        const unsigned char c = (unsigned char)s.text[i];
        if (c >= 0x80 || isalnum(c)) h = add_byte(h, (unsigned char)tolower(c));
    }
    return finish(h);
}

/* ---- columns ------------------------------------------------------------------------------ */

static bool is_number(fv_string s)
{
    char *end = NULL;
    if (s.bytes == 0 || s.bytes > 40) return false;
    strtod(s.text, &end);
    return end == s.text + s.bytes;
}

static void count_distinct(new_column *c, uint64_t hash)
{
    size_t at = hash % NEW_SET;
    if (c->distinct > NEW_MOST_DISTINCT) return;
    while (c->seen[at] && c->seen[at] != hash)
        at = (at + 1) % NEW_SET;
    c->distinct += c->seen[at] == 0;
    c->seen[at] = hash;
}

static void add_field(new_data *data, int i, fv_string s)
{
    new_column *c = &data->columns[i];
    const uint64_t hash = cli_new_hash_exact(s);
    data->digest = finish(data->digest * 31 + hash);
    if (s.bytes == 0) return;
    c->filled++;
    c->numbers += is_number(s);
    c->bytes += (double)s.bytes;
    count_distinct(c, hash);
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0) return true;
    return false;
}

static new_kind kind_of(const new_column *c, const char *name, int64_t rows)
{
    static const char *const ids[] = {"id", "idx", "index", "guid", "uuid", "url", NULL};
    if (is_one_of(name, ids)) return NEW_NUMBER;
    const bool few = c->distinct <= NEW_MOST_DISTINCT && (int64_t)c->distinct * LABEL_ROWS <= rows;
    if (c->filled * 2 < rows || c->distinct < 2) return NEW_EMPTY;
    if (few && c->bytes <= (double)c->filled * LABEL_BYTES) return NEW_LABEL;
    return c->numbers * 20 >= c->filled * 19 ? NEW_NUMBER : NEW_TEXT;
}

static void print_problem(const new_data *data, const fv_table_row *row)
{
    if (data->left_out < SHOWN_PROBLEMS)
        cli_note("%s:%llu: %s; left out", data->path, (unsigned long long)row->line, row->problem);
    else if (data->left_out == SHOWN_PROBLEMS)
        cli_note("%s: more such lines are left out", data->path);
}

static int read_rows(new_data *data)
{
    for (;;) {
        fv_table_row row;
        const fv_status status = fv_table_next(data->table, &row);
        if (status != FV_OK) return cli_library_error("train", data->ctx, status);
        if (!row.fields) break;
        data->rows++;
        if (row.problem) {
            print_problem(data, &row);
            data->left_out++;
            continue;
        }
        for (int i = 0; i < data->info->column_count; i++)
            add_field(data, i, row.fields[i]);
    }
    for (int i = 0; i < data->info->column_count; i++)
        data->columns[i].kind =
            kind_of(&data->columns[i], data->info->column_names[i], data->rows - data->left_out);
    if (data->left_out * 5 <= data->rows) return CLI_DONE;
    cli_error("train: %s: %lld of %lld lines cannot be used, expected at most a fifth", data->path,
              (long long)data->left_out, (long long)data->rows);
    return CLI_BAD_FILE;
}

/* ---- the task ------------------------------------------------------------------------------ */

const char *cli_new_task_name(new_task task)
{
    static const char *const names[] = {"auto", "translation", "classification",
                                        "classification of sentence pairs", "language model"};
    return names[task];
}

void cli_new_list_columns(const fv_table_info *info, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < info->column_count && used + 1 < bytes; i++) {
        cli_format(out + used, bytes - used, "%s%s", i ? ", " : "", info->column_names[i]);
        used += strlen(out + used);
    }
}

static int no_column(const new_data *data, const char *name, size_t length)
{
    char names[1024];
    cli_new_list_columns(data->info, names, sizeof names);
    cli_error("train: --columns: %s has no column '%.*s'; it has %s", data->path, (int)length, name,
              names);
    return CLI_USAGE;
}

/* A column by name, or by number from 1. */
static int find_column(const fv_table_info *info, const char *name, size_t length)
{
    char text[FV_TABLE_NAME];
    if (length == 0 || length >= sizeof text) return -1;
    memcpy(text, name, length);
    text[length] = '\0';
    for (int i = 0; i < info->column_count; i++)
        if (strcmp(info->column_names[i], text) == 0) return i;
    char *end = NULL;
    const long number = strtol(text, &end, 10);
    return !*end && number >= 1 && number <= info->column_count ? (int)number - 1 : -1;
}

static int take_columns(new_data *data, const char *list)
{
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        const int column = find_column(data->info, at, length);
        if (column < 0) return no_column(data, at, length);
        if (data->column_count == 3) {
            cli_error("train: --columns: expected one to three names, got '%s'", list);
            return CLI_USAGE;
        }
        data->column[data->column_count++] = column;
        at += length;
        if (!*at) return CLI_DONE;
    }
}

static bool is_label_name(const char *name)
{
    static const char *const names[] = {"label", "labels",    "class",      "category", "intent",
                                        "topic", "sentiment", "gold_label", NULL};
    return is_one_of(name, names);
}

/* The class: a column with a usual name, else the last one with few values; -1: none. */
static int find_label(const new_data *data)
{
    int label = -1;
    for (int i = 0; i < data->info->column_count; i++) {
        if (data->columns[i].kind != NEW_LABEL) continue;
        if (label >= 0 && is_label_name(data->info->column_names[label])) continue;
        label = i;
    }
    return label;
}

/* Texts in the order of the file, other than `label`. If none is long, the one with most values. */
static int find_texts(const new_data *data, int label, int out[2])
{
    int count = 0, best = -1;
    for (int i = 0; i < data->info->column_count && count < 2; i++)
        if (data->columns[i].kind == NEW_TEXT && i != label) out[count++] = i;
    for (int i = 0; i < data->info->column_count && count == 0; i++)
        if (i != label && data->columns[i].kind == NEW_LABEL &&
            (best < 0 || data->columns[i].distinct > data->columns[best].distinct))
            best = i;
    if (count == 0 && best >= 0) out[count++] = best;
    return count;
}

static int not_enough(const new_data *data, const char *what)
{
    char names[1024];
    cli_new_list_columns(data->info, names, sizeof names);
    cli_error("train: %s: found no %s among the columns %s; name them with --columns", data->path,
              what, names);
    return CLI_BAD_FILE;
}

static void use_columns(new_data *data, new_task task, int a, int b, int c)
{
    const int all[] = {a, b, c};
    data->task = task;
    data->column_count = task == NEW_PAIRS ? 3 : task == NEW_LANGUAGE ? 1 : 2;
    memcpy(data->column, all, sizeof all);
}

static int choose(new_data *data, new_task task)
{
    int text[2] = {0, 0};
    const int label = task == NEW_TRANSLATION || task == NEW_LANGUAGE ? -1 : find_label(data);
    const int texts = find_texts(data, label, text);
    if (texts == 0) return not_enough(data, "text");
    if (task == NEW_AUTO && label >= 0) task = texts == 2 ? NEW_PAIRS : NEW_CLASSIFY;
    if (task == NEW_AUTO) task = texts == 2 ? NEW_TRANSLATION : NEW_LANGUAGE;
    if ((task == NEW_TRANSLATION || task == NEW_PAIRS) && texts < 2)
        return not_enough(data, "two texts");
    if ((task == NEW_CLASSIFY || task == NEW_PAIRS) && label < 0)
        return not_enough(data, "class (short, with few distinct values)");
    use_columns(data, task, text[0], task == NEW_CLASSIFY ? label : text[1], label);
    return CLI_DONE;
}

/* The task of named columns: how many there are, and what the last one holds. */
static int choose_named(new_data *data, new_task task)
{
    static const int wanted[] = {0, 2, 2, 3, 1};
    const int count = data->column_count;
    const new_kind last = data->columns[data->column[count - 1]].kind;
    if (task == NEW_AUTO && count == 1) task = NEW_LANGUAGE;
    if (task == NEW_AUTO && count == 2) task = last == NEW_LABEL ? NEW_CLASSIFY : NEW_TRANSLATION;
    if (task == NEW_AUTO) task = NEW_PAIRS;
    data->task = task;
    if (count == wanted[task]) return CLI_DONE;
    cli_error("train: --columns names %d columns, expected %d for --task %s", count, wanted[task],
              cli_new_task_name(task));
    return CLI_USAGE;
}

int cli_new_profile(new_data *data, new_task task, const char *columns)
{
    const size_t count = (size_t)data->info->column_count;
    int code = columns ? take_columns(data, columns) : CLI_DONE;
    if (code) return code;
    data->columns = calloc(count, sizeof *data->columns);
    if (!data->columns) {
        cli_error("train: no memory for %zu columns", count);
        return CLI_FAILED;
    }
    code = read_rows(data);
    if (code) return code;
    if (data->info->format != FV_TABLE_TEXT)
        return columns ? choose_named(data, task) : choose(data, task);
    if (task != NEW_AUTO && task != NEW_LANGUAGE) return not_enough(data, "table");
    use_columns(data, NEW_LANGUAGE, 0, 0, 0);
    return CLI_DONE;
}

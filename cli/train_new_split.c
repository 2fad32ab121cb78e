/*
 * Rows to training and validation files. A row is held out if the hash of its first text is below a
 * share of all hashes: equal texts stay together, and a row never moves when others are added.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "output.h"
#include "train_new.h"

enum { LEAST_ROWS = 20, LEAST_BYTES = 4000, MOST_VALID = 2000, MOST_LABELS = 1 << 16 };
#define SHARE 0.1 /* held out, of a file with up to ten times MOST_VALID rows */

static bool is_held_out(const new_data *data, uint64_t hash)
{
    return (double)(hash >> 11) < data->share * 0x1p53;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* How often each class is in the training part. */
typedef struct label_counts {
    uint64_t label[MOST_LABELS]; /* 0: a free slot */
    int64_t train[MOST_LABELS];
    int count;
} label_counts;

static size_t find_slot(const label_counts *c, uint64_t label)
{
    size_t at = label % MOST_LABELS;
    while (c->label[at] && c->label[at] != label)
        at = (at + 1) % MOST_LABELS;
    return at;
}

/* A validation row whose class no training row has cannot be scored: it becomes a training row. */
static bool keep_classes(new_data *data, label_counts *c)
{
    for (int64_t i = 0; i < data->count; i++) {
        const size_t at = find_slot(c, data->list[i].label);
        if (!c->label[at] && ++c->count > MOST_LABELS / 2) return false;
        c->label[at] = data->list[i].label;
        c->train[at] += !is_held_out(data, data->list[i].text);
    }
    for (int64_t i = 0; i < data->count; i++)
        if (c->train[find_slot(c, data->list[i].label)] == 0) data->list[i].text = UINT64_MAX;
    data->classes = c->count;
    return true;
}

static int check_classes(new_data *data)
{
    label_counts *counts = calloc(1, sizeof *counts);
    const bool fits = counts && keep_classes(data, counts);
    free(counts);
    if (!fits || data->classes < 2) {
        cli_error("train: %s: column '%s' has %s, expected 2 to %d different classes", data->path,
                  data->info->column_names[data->column[data->column_count - 1]],
                  fits ? "one value" : "too many values", MOST_LABELS / 2);
        return CLI_BAD_FILE;
    }
    return CLI_DONE;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static int words_in(fv_string s)
{
    int words = 0;
    for (size_t i = 0; i < s.bytes; i++) {
        const bool blank = strchr(" \t\n\r", s.text[i]) != NULL;
        words += !blank && (i == 0 || strchr(" \t\n\r", s.text[i - 1]) != NULL);
    }
    /* Chinese and Japanese have no blanks: three bytes of them count as half a word. */
    return words > (int)(s.bytes / 12) ? words : (int)(s.bytes / 6 + 1);
}

static bool has_label(const new_data *data)
{
    return data->task == NEW_CLASSIFY || data->task == NEW_PAIRS;
}

/* The next row whose fields of the task are all there; row->fields is NULL at the end. `empty`
 * counts the others. */
static int next_row(new_data *data, fv_table_row *row, fv_string use[3], int64_t *empty)
{
    for (;;) {
        const fv_status status = fv_table_next(data->table, row);
        if (status != FV_OK) return cli_library_error("train", data->ctx, status);
        if (!row->fields) return CLI_DONE;
        if (row->problem) continue;
        bool filled = true;
        for (int i = 0; i < data->column_count; i++) {
            use[i] = row->fields[data->column[i]];
            filled = filled && strspn(use[i].text, " \t\r\n") < use[i].bytes;
        }
        if (filled) return CLI_DONE;
        if (data->info->format == FV_TABLE_TEXT) continue;
        if (++*empty <= 3)
            cli_note("%s:%llu: an empty field; left out", data->path,
                     (unsigned long long)row->line);
    }
}

static bool add_row(new_data *data, const fv_string use[3])
{
    const int texts = data->column_count - has_label(data);
    int longest = 0;
    if (data->count == data->room) {
        const int64_t room = data->room ? 2 * data->room : 1024;
        new_row *grown = realloc(data->list, (size_t)room * sizeof *grown);
        if (!grown) return false;
        data->list = grown;
        data->room = room;
    }
    data->list[data->count++] =
        (new_row){cli_new_hash(use[0]), has_label(data) ? cli_new_hash_exact(use[texts]) : 0};
    for (int i = 0; i < texts; i++) {
        const int words = words_in(use[i]);
        data->bytes += (double)use[i].bytes + 1;
        data->words += words;
        if (data->task == NEW_PAIRS)
            longest += words;
        else if (words > longest)
            longest = words;
    }
    data->lengths[longest < NEW_LENGTHS ? longest : NEW_LENGTHS - 1]++;
    return true;
}

static void count_parts(new_data *data)
{
    data->train = data->valid = 0;
    for (int64_t i = 0; i < data->count; i++)
        *(is_held_out(data, data->list[i].text) ? &data->valid : &data->train) += 1;
}

/* A plain text is one stream, of which training itself holds out the last part. */
static int check_text(new_data *data)
{
    data->share = SHARE;
    if (data->bytes >= LEAST_BYTES) return CLI_DONE;
    cli_error("train: %s: %.0f bytes of text, expected at least %d", data->path, data->bytes,
              LEAST_BYTES);
    return CLI_BAD_FILE;
}

int cli_new_split(new_data *data)
{
    fv_table_row row;
    fv_string use[3];
    int64_t empty = 0;
    const fv_status status = fv_table_rewind(data->table);
    int code = status == FV_OK ? CLI_DONE : cli_library_error("train", data->ctx, status);
    while (code == CLI_DONE && (code = next_row(data, &row, use, &empty)) == CLI_DONE && row.fields)
        if (!add_row(data, use)) {
            cli_error("train: no memory for %lld rows", (long long)data->count);
            return CLI_FAILED;
        }
    if (code) return code;
    data->left_out += empty;
    if (data->info->format == FV_TABLE_TEXT) return check_text(data);
    if (data->count < LEAST_ROWS) {
        cli_error("train: %s: %lld rows to train on, expected at least %d", data->path,
                  (long long)data->count, LEAST_ROWS);
        return CLI_BAD_FILE;
    }
    data->share = SHARE;
    if ((double)data->count > MOST_VALID / SHARE) data->share = MOST_VALID / (double)data->count;
    for (count_parts(data); data->valid == 0 && data->share < 0.6; count_parts(data))
        data->share *= 1.5;
    if (has_label(data)) code = check_classes(data);
    count_parts(data);
    if (code == CLI_DONE && (data->train == 0 || data->valid == 0)) {
        cli_error("train: %s: all rows have the same text, nothing to learn", data->path);
        code = CLI_BAD_FILE;
    }
    return code;
}

int cli_new_each_row(new_data *data, cli_new_row_fn *use, void *user)
{
    const bool text = data->info->format == FV_TABLE_TEXT; /* training holds out its end */
    const fv_status status = fv_table_rewind(data->table);
    if (status != FV_OK) return cli_library_error("train", data->ctx, status);
    int64_t empty = 3; /* already reported */
    for (int64_t i = 0;; i++) {
        fv_table_row row;
        fv_string fields[3];
        const int code = next_row(data, &row, fields, &empty);
        if (code || !row.fields) return code;
        if (i >= data->count) break;
        if (!use(user, fields, !text && is_held_out(data, data->list[i].text))) return CLI_DONE;
    }
    cli_error("train: %s changed while it was read", data->path);
    return CLI_FAILED;
}

/* ---- files --------------------------------------------------------------------------------- */

/* A line file holds one text per line. */
static void write_line(FILE *to, fv_string s)
{
    for (size_t i = 0; i < s.bytes; i++)
        putc(s.text[i] == '\n' || s.text[i] == '\r' ? ' ' : s.text[i], to);
    putc('\n', to);
}

static void write_quoted(FILE *to, fv_string s)
{
    putc('"', to);
    for (size_t i = 0; i < s.bytes; i++) {
        if (s.text[i] == '"') putc('"', to);
        putc(s.text[i], to);
    }
    putc('"', to);
}

static void write_row(const new_data *data, FILE *const files[2], const fv_string use[3])
{
    switch (data->task) {
    case NEW_TRANSLATION:
        write_line(files[0], use[0]);
        write_line(files[1], use[1]);
        break;
    case NEW_CLASSIFY:
    case NEW_PAIRS:
        for (int i = 0; i < data->column_count; i++) {
            if (i > 0) putc(',', files[0]);
            write_quoted(files[0], use[i]);
        }
        putc('\n', files[0]);
        break;
    default:
        write_line(files[0], use[0]);
    }
}

static bool open_files(const new_data *data, const char *folder, FILE *files[2][2])
{
    static const char *const parts[] = {"train", "valid"};
    const bool pairs = data->task == NEW_TRANSLATION;
    const char *ends[2] = {pairs ? "source" : data->task == NEW_LANGUAGE ? "txt" : "csv", "target"};
    for (int part = 0; part < 2; part++)
        for (int side = 0; side < (pairs ? 2 : 1); side++) {
            char path[CLI_PATH_BYTES];
            if (!cli_path(path, "%s/%s.%s", folder, parts[part], ends[side])) return false;
            files[part][side] = fopen(path, "we");
            if (!files[part][side]) {
                cli_error("train: %s: cannot write this file", path);
                return false;
            }
            if (has_label(data))
                fprintf(files[part][side], "text,%slabel\n",
                        data->task == NEW_PAIRS ? CLI_NEW_SECOND "," : "");
        }
    return true;
}

static bool close_files(FILE *files[2][2])
{
    bool done = true;
    for (int i = 0; i < 4; i++) {
        FILE *file = files[i / 2][i % 2];
        if (!file) continue;
        done = !ferror(file) && fflush(file) == 0 && fsync(fileno(file)) == 0 && done;
        done = fclose(file) == 0 && done;
    }
    return done;
}

typedef struct writing {
    const new_data *data;
    FILE *(*files)[2];
} writing;

static bool write_used_row(void *user, const fv_string use[3], bool held_out)
{
    const writing *w = user;
    write_row(w->data, w->files[held_out], use);
    return true;
}

int cli_new_write(new_data *data, const char *folder)
{
    FILE *files[2][2] = {{NULL, NULL}, {NULL, NULL}};
    if (data->info->format == FV_TABLE_TEXT) return CLI_DONE; /* is read where it is */
    int code = open_files(data, folder, files) ? CLI_DONE : CLI_FAILED;
    if (code == CLI_DONE)
        code = cli_new_each_row(data, write_used_row, &(writing){.data = data, .files = files});
    if (!close_files(files) && code == CLI_DONE) {
        cli_error("train: %s: cannot write all data; is the disk full?", folder);
        code = CLI_FAILED;
    }
    return code;
}

/* fovea train --new FILE: the steps, and the run folder. */
#include "train_new.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "input.h"
#include "output.h"
#include "train_recipe.h"

/* ---- names --------------------------------------------------------------------------------- */

bool cli_is_data_file(const char *path)
{
    static const char *const ends[] = {".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".txt"};
    size_t length = strlen(path);
    if (length > 3 &&
        (strcmp(path + length - 3, ".gz") == 0 || strcmp(path + length - 3, ".xz") == 0))
        length -= 3;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (length <= n || strncasecmp(path + length - n, ends[i], n) != 0) continue;
        cli_error("train: %s is not a recipe (a TOML file); to train on its data: "
                  "fovea train --new %s",
                  path, path);
        return true;
    }
    return false;
}

/* "sets/own.tsv.gz" -> "own". */
static int base_of(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    const size_t n = strcspn(*name + (**name == '.'), ".") + (**name == '.');
    return (int)n;
}

/* ---- the folder ---------------------------------------------------------------------------- */

/* The digest in the second line of a recipe that --new wrote; 0: there is none. */
static uint64_t digest_in(const char *path)
{
    char line[256];
    unsigned long long digest = 0;
    FILE *file = fopen(path, "re");
    for (int i = 0; file && i < 2 && fgets(line, sizeof line, file); i++)
        if (strncmp(line, "# digest ", 9) == 0) digest = strtoull(line + 9, NULL, 16);
    if (file) fclose(file);
    return digest;
}

/* The complete recipe marks the folder as a run, even if training has not begun. */
static int mark_folder(fv_ctx *ctx, const cli_call *call, char recipe[CLI_PATH_BYTES],
                       const char *folder)
{
    char path[CLI_PATH_BYTES];
    fv_recipe *all = NULL;
    cli_call own = *call;
    own.words[0] = recipe;
    if (!cli_path(path, "%s/recipe.toml", folder)) return CLI_USAGE;
    const int code = cli_train_recipe(ctx, &own, &all);
    const fv_status status = code ? FV_OK : fv_recipe_save(all, path);
    fv_recipe_destroy(&all);
    return status == FV_OK ? code : cli_library_error("train", ctx, status);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void print_table(const new_data *data)
{
    char names[512];
    const fv_table_info *info = data->info;
    if (info->format == FV_TABLE_TEXT) {
        cli_note("%s: text, %lld lines", data->path, (long long)data->rows);
        return;
    }
    cli_new_list_columns(info, names, sizeof names);
    cli_note("%s: %s, %lld rows, columns %s%s", data->path,
             info->format == FV_TABLE_JSON_LINES ? "JSON Lines"
             : info->separator == '\t'           ? "separated by tabs"
             : info->separator == ';'            ? "separated by semicolons"
                                                 : "separated by commas",
             (long long)data->rows, names,
             info->format == FV_TABLE_SEPARATED && !info->has_header ? " (no header)" : "");
}

static void print_task(const new_data *data)
{
    const char *name[3];
    for (int i = 0; i < data->column_count; i++)
        name[i] = data->info->column_names[data->column[i]];
    const char *task = cli_new_task_name(data->task);
    if (data->task == NEW_TRANSLATION)
        cli_note("task: %s from column %s to column %s", task, name[0], name[1]);
    else if (data->task == NEW_CLASSIFY)
        cli_note("task: %s of column %s in the %d classes of column %s", task, name[0],
                 data->classes, name[1]);
    else if (data->task == NEW_PAIRS)
        cli_note("task: %s, columns %s and %s, in the %d classes of column %s", task, name[0],
                 name[1], data->classes, name[2]);
    else
        cli_note("task: %s", task);
    if (data->info->format == FV_TABLE_TEXT)
        cli_note("data: %.0f bytes, the last tenth for validation", data->bytes);
    else
        cli_note("data: %lld rows to train on, %lld for validation, %lld left out",
                 (long long)data->train, (long long)data->valid, (long long)data->left_out);
}

/* ---- steps --------------------------------------------------------------------------------- */

static new_task asked_task(const cli_call *call)
{
    int length, i = 0;
    const char *asked = cli_text(call, "task"), *at;
    for (; (at = cli_choice_at(CLI_NEW_TASKS, i, &length)); i++)
        if (strlen(asked) == (size_t)length && memcmp(at, asked, (size_t)length) == 0) break;
    return (new_task)i;
}

/* --check: what would be trained, without writing it. */
static int check_recipe(const cli_call *call, new_data *data, const char *folder)
{
    const int code = cli_new_recipe(data, NULL, folder, (int)cli_int(call, "threads"));
    if (code == CLI_DONE) cli_note("train: checked; nothing was written");
    return code;
}

static int prepare(const cli_call *call, new_data *data, const char *folder,
                   char recipe[CLI_PATH_BYTES])
{
    char files[CLI_PATH_BYTES];
    int code = cli_new_profile(data, asked_task(call), cli_text(call, "columns"));
    if (code) return code;
    const uint64_t digest = digest_in(recipe);
    if (digest) {
        cli_note("train: using %s; remove %s to start over", recipe, folder);
        if (digest == data->digest) return CLI_DONE;
        cli_error("train: %s has changed since %s was made from it; name another folder with -o",
                  data->path, folder);
        return CLI_USAGE;
    }
    code = cli_new_split(data);
    if (code) return code;
    print_table(data);
    print_task(data);
    if (!cli_path(files, "%s/data", folder)) return CLI_USAGE;
    /* Before data from a pipe were saved there, this was checked already. */
    if (!*data->saved && !cli_may_write("train", folder, CLI_FOLDER_RUN, cli_flag(call, "force")))
        return CLI_USAGE;
    if (cli_flag(call, "check")) return check_recipe(call, data, folder);
    if (!cli_make_folder(files)) return CLI_FAILED;
    code = cli_new_write(data, files);
    if (code == CLI_DONE)
        code = cli_new_recipe(data, recipe, folder, (int)cli_int(call, "threads"));
    if (code == CLI_DONE) code = mark_folder(data->ctx, call, recipe, folder);
    if (code == CLI_DONE) cli_note("recipe: %s", recipe);
    return code;
}

int cli_train_new(const cli_call *call, const char *folder, char recipe[CLI_PATH_BYTES])
{
    static const char *const headers[] = {"auto", "yes", "no"};
    fv_table_header header = FV_TABLE_HEADER_AUTO;
    const char *name, *asked = cli_text(call, "header");
    const bool stream = cli_new_is_stream(call->words[0]);
    const int length = base_of(stream ? CLI_NEW_STREAM : call->words[0], &name);
    new_data *data = NULL;
    int code = CLI_FAILED;
    if (!cli_path(recipe, "%s/data/%.*s.toml", folder, length, name)) return CLI_USAGE;
    for (int i = 0; i < CLI_COUNT(headers); i++)
        if (asked && strcmp(asked, headers[i]) == 0) header = (fv_table_header)i;
    data = calloc(1, sizeof *data);
    if (!data) {
        cli_error("train: no memory to read %s", call->words[0]);
        return code;
    }
    data->path = strcmp(call->words[0], "-") == 0 ? "standard input" : call->words[0];
    data->file = stream ? data->saved : data->path;
    code = stream ? cli_new_save_stream(call, folder, data->saved) : CLI_DONE;
    const bool saved = stream && code == CLI_DONE;
    if (code == CLI_DONE) code = cli_plain_context("train", &data->ctx);
    if (code == CLI_DONE) {
        const fv_status status = fv_table_open(data->ctx, data->file, header, &data->table);
        if (status != FV_OK) code = cli_library_error("train", data->ctx, status);
    }
    if (code == CLI_DONE) {
        data->info = fv_table_get_info(data->table);
        code = prepare(call, data, folder, recipe);
    }
    free(data->columns);
    free(data->list);
    fv_table_close(&data->table);
    fv_ctx_destroy(&data->ctx);
    if (saved && (code || cli_ends_with(data->saved, "-again")))
        cli_new_forget_stream(folder, data->saved);
    free(data);
    if (saved && code == CLI_DONE)
        cli_note("to resume without the pipe: fovea train %s -o %s", recipe, folder);
    return code;
}

/* What 'fovea train --new' shows at its end: one held-out text, the model's answer, its attention
 * as a picture in the run folder, and the commands for other texts. */
#include <stdio.h>
#include <string.h>

#include "fovea/task.h"
#include "output.h"
#include "train_new.h"

enum { TEXT_BYTES = 256, MOST_WORDS = 12 };

/* The first text of a file, or the first two with a tab between them. False: there is none. */
static bool first_text(fv_ctx *ctx, const char *path, bool pair, char out[TEXT_BYTES])
{
    fv_table *table = NULL;
    fv_table_row row = {.fields = NULL};
    out[0] = '\0';
    if (!*path || fv_table_open(ctx, path, FV_TABLE_HEADER_AUTO, &table) != FV_OK) return false;
    while (!out[0] && fv_table_next(table, &row) == FV_OK && row.fields)
        if (!row.problem)
            cli_format(out, TEXT_BYTES, pair ? "%s\t%s" : "%s", row.fields[0].text,
                       pair ? row.fields[1].text : "");
    fv_table_close(&table);
    return out[0] != '\0';
}

/* The first line of a file of lines, never read as a table. */
static bool first_line(fv_ctx *ctx, const char *path, char out[TEXT_BYTES])
{
    fv_lines *lines = NULL;
    fv_line line = {.text = NULL};
    out[0] = '\0';
    if (*path && fv_lines_open(ctx, path, FV_LINES_POLICY_MARK, &lines) == FV_OK)
        while (!out[0] && fv_lines_next(lines, &line) == FV_OK && line.text)
            if (line.valid) cli_format(out, TEXT_BYTES, "%s", line.text);
    fv_lines_close(&lines);
    return out[0] != '\0';
}

/* Cuts a text that filled its room, or has too many words for a picture, after a word. */
static void shorten(char *text)
{
    int words = 0;
    size_t end = 0;
    for (size_t i = 0; text[i]; i++)
        if (text[i] == ' ' && i > 0 && text[i - 1] != ' ' && ++words <= MOST_WORDS) end = i;
    if (end > 0 && (words >= MOST_WORDS || strlen(text) == TEXT_BYTES - 1)) text[end] = '\0';
}

static bool sample_text(fv_ctx *ctx, const fv_recipe *recipe, char out[TEXT_BYTES])
{
    const char *valid = fv_recipe_text(recipe, "data.valid_text");
    const bool pair = *fv_recipe_text(recipe, "data.second_column") != '\0';
    const bool found =
        first_line(ctx, fv_recipe_text(recipe, "data.valid_source"), out) ||
        first_text(ctx, fv_recipe_text(recipe, "data.valid_csv"), pair, out) ||
        first_line(ctx, *valid ? valid : fv_recipe_text(recipe, "data.train_text"), out);
    if (found && !pair) shorten(out);
    return found;
}

/* Runs another verb of this program, as if typed. Its errors are printed; training is done. */
static void run_verb(const char *name, int count, const char *const *words)
{
    const cli_verb *verb = cli_find_verb(name);
    cli_call call;
    fflush(stdout);
    if (cli_parse(verb, count, (char *const *)(uintptr_t)words, &call) == CLI_DONE)
        verb->run(&call);
    fflush(stdout);
}

void cli_train_new_done(fv_ctx *ctx, const cli_call *train, const fv_recipe *recipe,
                        const char *folder)
{
    const char *task = fv_recipe_text(recipe, "train.task"), *threads = cli_text(train, "threads");
    const char *device = cli_text(train, "device");
    const bool language = strcmp(task, "language") == 0;
    char text[TEXT_BYTES], picture[CLI_PATH_BYTES];
    if (sample_text(ctx, recipe, text) && cli_path(picture, "%s/" CLI_NEW_PICTURE, folder)) {
        const char *const run[] = {folder, "-t", threads, "--device", device,
                                   "-p",   text, "-n",    "40"};
        const char *const look[] = {folder, "-t", threads, "--device", device,
                                    "-p",   text, "-o",    picture};
        cli_note("for example, the model's answer to \"%s\":", text);
        run_verb("run", language ? 9 : 7, run);
        run_verb("look", 9, look);
    }
    /* As an example, only a text that a shell takes as it is. */
    const bool pair = *fv_recipe_text(recipe, "data.second_column") != '\0';
    if (!text[0] || strpbrk(text, "\"\\$`!") || strlen(text) == sizeof text - 1)
        cli_format(text, sizeof text, pair ? "your text\tanother" : "your text");
    char *tab = strchr(text, '\t');
    if (tab) *tab = '\0'; /* two words of the command */
    char words[2 * TEXT_BYTES];
    cli_format(words, sizeof words, tab ? "\"%s\" \"%s\"" : "\"%s\"", text, tab ? tab + 1 : "");
    if (language)
        cli_note("to continue a text: fovea run %s -p %s -n 100", folder, words);
    else
        cli_note("to %s: fovea run %s %s",
                 strcmp(task, "translation") == 0 ? "translate" : "classify", folder, words);
    cli_note("to draw its attention: fovea look %s %s -o attention.svg", folder, words);
}

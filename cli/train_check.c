/* Before a run: may it write its folders, and for --check what it would read, write, replace and
 * need. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "input.h"
#include "model.h"
#include "output.h"
#include "train_recipe.h"

/* ---- folders ---------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the run would replace this file. */
static bool is_replaced(const struct stat *file, const char *folder)
{
    char path[CLI_PATH_BYTES];
    struct stat st;
    for (int i = 0; i < cli_run_file_count; i++)
        if (cli_path(path, "%s/%s", folder, cli_run_files[i]) && stat(path, &st) == 0 &&
            is_same(file, &st))
            return true;
    return false;
}

/* Refuses a folder from which, or from a file in which, the run reads. */
static int check_inputs(const fv_recipe *recipe, const char *folder)
{
    struct stat target, st;
    const fv_key *key;
    if (stat(folder, &target) != 0) return CLI_DONE;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++) {
        const char *input = fv_recipe_text(recipe, key->name);
        if (key->type != FV_KEY_PATH || !*input || stat(input, &st) != 0) continue;
        if (!is_same(&st, &target) && !is_replaced(&st, folder)) continue;
        cli_error("train: %s is %s, which this run would replace; name another folder with -o",
                  key->name, input);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

int cli_train_check_folders(const cli_call *call, const fv_recipe *recipe, const char *folder)
{
    char mean[CLI_PATH_BYTES];
    const int code = check_inputs(recipe, folder);
    if (code || !cli_given(call, "average")) return code;
    const bool ours = cli_path(mean, "%s-average", folder) &&
                      cli_may_write("train", mean, CLI_FOLDER_RUN, cli_flag(call, "force"));
    return ours ? CLI_DONE : CLI_USAGE;
}

/* ---- files ------------------------------------------------------------------------------ */

static void print_file(const char *what, const char *path)
{
    struct stat st;
    char size[24] = "missing";
    const bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        cli_format(size, sizeof size, "folder");
    else if (there)
        cli_bytes_text(size, (uint64_t)st.st_size);
    printf("  %-10s %10s  ", what, size);
    cli_safe_text(stdout, path);
    putchar('\n');
}

static void print_inputs(const cli_call *call, const fv_recipe *recipe)
{
    const fv_key *key;
    print_file("reads", call->words[0]);
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++)
        if (key->type == FV_KEY_PATH && *fv_recipe_text(recipe, key->name))
            print_file("reads", fv_recipe_text(recipe, key->name));
}

static int print_outputs(const char *folder)
{
    char path[CLI_PATH_BYTES];
    struct stat st;
    for (int i = 0; i < cli_run_file_count; i++) {
        if (!cli_path(path, "%s/%s", folder, cli_run_files[i])) return CLI_USAGE;
        if (stat(path, &st) == 0) print_file("replaces", path);
    }
    printf("  writes     %s/: settings, tokenizers, weights, states, logs\n", folder);
    return CLI_DONE;
}

/* The name of the newest state, or false. */
static bool newest_state(const char *folder, char name[NAME_MAX + 1])
{
    DIR *list = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    while (list && (entry = readdir(list))) {
        if (strncmp(entry->d_name, "state-", 6) != 0 ||
            !cli_ends_with(entry->d_name, ".safetensors") ||
            (found && strcmp(entry->d_name, name) <= 0))
            continue;
        snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
        found = true;
    }
    if (list) closedir(list);
    return found;
}

static void print_folder(const char *folder)
{
    char name[NAME_MAX + 1];
    switch (cli_folder_owner(folder, CLI_FOLDER_RUN, name)) {
    case CLI_OWNER_NONE:
        printf("  starts a new run\n");
        break;
    case CLI_OWNER_PROGRAM:
        if (newest_state(folder, name))
            printf("  resumes from %s\n", name);
        else
            printf("  starts again in the folder of a run without states\n");
        break;
    case CLI_OWNER_OTHER:
        printf("  is refused without --force: the folder holds '%s' and is not a run\n", name);
        break;
    default:
        printf("  cannot list the folder\n");
    }
}

/* ---- costs ------------------------------------------------------------------------------ */

enum { STEPS = 3 };

static void print_costs(fv_ctx *ctx, const fv_recipe *recipe, const fv_run *run, double step)
{
    fv_memory_stats memory;
    char bytes[24];
    const double steps = (double)fv_recipe_int(recipe, "train.steps"), seconds = step * steps;
    fv_ctx_memory(ctx, &memory);
    cli_bytes_text(bytes, memory.peak_bytes);
    printf("  parameters %10lld\n",
           (long long)fv_params_elements(fv_model_params(fv_run_model(run))));
    printf("  memory     %10s  at its peak in %d steps\n", bytes, STEPS);
    printf("  time       %7.0f:%02.0f:%02.0f  for %.0f steps of %.3g s, without evaluations\n",
           (double)(int64_t)(seconds / 3600), (double)((int64_t)(seconds / 60) % 60),
           (double)((int64_t)seconds % 60), steps, step);
}

int cli_train_check(fv_ctx *ctx, const cli_call *call, fv_recipe *recipe, const char *folder)
{
    fv_run *run = NULL;
    double step = 0;
    print_inputs(call, recipe);
    print_folder(folder);
    const int code = print_outputs(folder);
    if (code) return code;
    fv_status status = fv_run_create(ctx, recipe, folder, NULL, NULL, &run);
    if (status == FV_OK) status = fv_run_measure(run, STEPS, &step);
    if (status == FV_OK) print_costs(ctx, recipe, run, step);
    fv_run_destroy(&run);
    if (status == FV_OK) cli_note("train: checked; nothing was written");
    return status == FV_OK ? CLI_DONE : cli_library_error("train", ctx, status);
}

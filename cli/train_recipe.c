#include "train_recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "input.h"
#include "model.h"
#include "output.h"
#include "train_new.h"

/* ---- paths ------------------------------------------------------------------------------ */

/* "$FOVEA_DATA/set/file": recipes do not depend on where a user keeps data sets. */
#define VARIABLE "$FOVEA_DATA/"

static bool uses_variable(const char *text)
{
    return strncmp(text, VARIABLE, sizeof VARIABLE - 1) == 0;
}

/* The path with the variable expanded. Returns an exit code; the error is already printed. */
static int expand(const fv_key *key, const char *text, char out[CLI_PATH_BYTES])
{
    const char *folder = getenv("FOVEA_DATA");
    if (uses_variable(text) && !folder) {
        cli_error("train: %s is '%s': set FOVEA_DATA to the folder that holds the data sets",
                  key->name, text);
        return CLI_MISSING;
    }
    const bool fits = uses_variable(text)
                          ? cli_path(out, "%s/%s", folder, text + sizeof VARIABLE - 1)
                          : cli_path(out, "%s", text);
    return fits ? CLI_DONE : CLI_USAGE;
}

/* Makes a path absolute; it need not exist. */
static bool make_absolute(char path[CLI_PATH_BYTES])
{
    char here[CLI_PATH_BYTES], joined[CLI_PATH_BYTES];
    bool fits = true;
    if (path[0] == '\0' || path[0] == '/') return true;
    char *real = realpath(path, NULL);
    if (real) {
        fits = cli_path(path, "%s", real);
    } else if (getcwd(here, sizeof here)) {
        fits = cli_path(joined, "%s/%s", here, path);
        memcpy(path, joined, sizeof joined);
    }
    free(real);
    return fits;
}

/* On failure *code is the exit code if the error is already printed, else 0. */
static fv_status place_paths(fv_recipe *recipe, int *code)
{
    fv_status status = FV_OK;
    const fv_key *key;
    for (size_t i = 0; status == FV_OK && (key = fv_recipe_key(recipe, i)); i++) {
        char path[CLI_PATH_BYTES];
        if (key->type != FV_KEY_PATH || !*fv_recipe_text(recipe, key->name)) continue;
        *code = expand(key, fv_recipe_text(recipe, key->name), path);
        if (!*code && !make_absolute(path)) *code = CLI_USAGE;
        if (*code) return FV_ERR_ARGUMENT;
        status = fv_recipe_set(recipe, key->name, path);
    }
    return status;
}

/* ---- data of a small form ------------------------------------------------------------------- */

static bool is_data_file(const fv_recipe *recipe, const fv_key *key)
{
    return key->type == FV_KEY_PATH && strncmp(key->name, "data.", 5) == 0 &&
           *fv_recipe_text(recipe, key->name);
}

static bool is_there(const fv_key *key, const char *text)
{
    char path[CLI_PATH_BYTES];
    if (uses_variable(text) && !getenv("FOVEA_DATA")) return false;
    return expand(key, text, path) == CLI_DONE && access(path, R_OK) == 0;
}

/* How many data files the recipe names, and the first that does not exist, or NULL. */
static int find_files(const fv_recipe *recipe, const fv_key **missing)
{
    int count = 0;
    const fv_key *key;
    *missing = NULL;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++) {
        if (!is_data_file(recipe, key)) continue;
        count++;
        if (!*missing && !is_there(key, fv_recipe_text(recipe, key->name))) *missing = key;
    }
    return count;
}

static fv_status forget_files(fv_recipe *recipe)
{
    fv_status status = FV_OK;
    const fv_key *key;
    for (size_t i = 0; status == FV_OK && (key = fv_recipe_key(recipe, i)); i++)
        if (is_data_file(recipe, key)) status = fv_recipe_set(recipe, key->name, "");
    return status;
}

static bool is_setting_given(const cli_call *call, const char *name)
{
    for (int i = 0; i < call->setting_count; i++)
        if (strcmp(call->settings[i].name, name) == 0) return true;
    return false;
}

/* A small form reads the recipe's files. If one does not exist it generates data.made instead. */
static fv_status choose_small_data(fv_recipe *recipe, const cli_call *call, int *code)
{
    const fv_key *missing;
    const char *made = fv_recipe_text(recipe, "data.made");
    const bool generates = strcmp(made, "none") != 0, asked = is_setting_given(call, "data.made");
    if (find_files(recipe, &missing) == 0 || (asked && !generates)) return FV_OK;
    if (!missing && !asked) return fv_recipe_set(recipe, "data.made", "none");
    if (!generates) {
        cli_error(
            "train: %s: no such file, and the small form of %s names no data.made to generate",
            missing->name, call->words[0]);
        *code = CLI_MISSING;
        return FV_ERR_ARGUMENT;
    }
    if (!asked)
        cli_note("train: %s: no such file; the small form uses generated %s", missing->name, made);
    return forget_files(recipe);
}

/* ---- the recipe ------------------------------------------------------------------------- */

/* The key that `name` stands for: itself, or the only "section.name". *found counts the keys of
 * that name. */
static const char *full_name(const fv_recipe *recipe, const char *name, int *found)
{
    const char *full = name;
    const fv_key *key;
    *found = 0;
    for (size_t i = 0; !strchr(name, '.') && (key = fv_recipe_key(recipe, i)); i++) {
        const char *dot = strchr(key->name, '.');
        if (!dot || strcmp(dot + 1, name) != 0) continue;
        full = key->name;
        ++*found;
    }
    return full;
}

static int several_keys(const fv_recipe *recipe, const char *name)
{
    char list[256] = "";
    const fv_key *key;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++) {
        const char *dot = strchr(key->name, '.');
        const size_t used = strlen(list);
        if (dot && strcmp(dot + 1, name) == 0)
            cli_format(list + used, sizeof list - used, "%s--%s", used ? ", " : "", key->name);
    }
    cli_error("train: --%s is ambiguous, expected one of %s", name, list);
    return CLI_USAGE;
}

bool cli_is_short_key(const char *name)
{
    fv_ctx *ctx = NULL;
    fv_recipe *recipe = NULL;
    int found = 0;
    if (cli_plain_context("train", &ctx) == CLI_DONE && fv_run_recipe(ctx, &recipe) == FV_OK)
        full_name(recipe, name, &found);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return found > 0;
}

/* On failure *code is the exit code if the error is already printed, else 0. */
static fv_status set_settings(const cli_call *call, fv_recipe *recipe, int *code)
{
    fv_status status = FV_OK;
    for (int i = 0; status == FV_OK && i < call->setting_count; i++) {
        int found;
        const char *name = call->settings[i].name, *full = full_name(recipe, name, &found);
        if (found > 1) *code = several_keys(recipe, name);
        status = *code ? FV_ERR_ARGUMENT : fv_recipe_set(recipe, full, call->settings[i].value);
    }
    return status;
}

static fv_status read_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out, int *code)
{
    fv_status status = fv_run_recipe(ctx, out);
    if (status == FV_OK)
        status = cli_flag(call, "small") ? fv_recipe_load_small(*out, call->words[0])
                                         : fv_recipe_load(*out, call->words[0]);
    if (status == FV_OK) status = set_settings(call, *out, code);
    if (status == FV_OK && cli_given(call, "init-from"))
        status = fv_recipe_set(*out, "train.init_from", cli_text(call, "init-from"));
    return status;
}

int cli_train_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out)
{
    int code = CLI_DONE;
    fv_status status = read_recipe(ctx, call, out, &code);
    if (status == FV_OK)
        code = cli_train_imply(*out, call->words[0], cli_flag(call, "quiet"), &status);
    if (code) return code;
    if (status == FV_OK && cli_flag(call, "small")) status = choose_small_data(*out, call, &code);
    if (status == FV_OK) status = place_paths(*out, &code);
    if (status == FV_OK) status = cli_default_sizes(*out, cli_flag(call, "quiet"));
    if (status == FV_OK) return CLI_DONE;
    if (!code) {
        code = cli_library_error("train", ctx, status);
        if (status == FV_ERR_FORMAT && !cli_ends_with(call->words[0], ".toml"))
            cli_note("%s is not a recipe, which is a TOML file; for data: fovea train --new %s",
                     call->words[0], call->words[0]);
    }
    return code == CLI_FAILED ? CLI_USAGE : code; /* an invalid recipe is wrong usage */
}

/* ---- changes ---------------------------------------------------------------------------- */

enum { VALUE_ROOM = CLI_PATH_BYTES + 2 }; /* in quotes */

static void value_of(const fv_recipe *recipe, const fv_key *key, char out[VALUE_ROOM])
{
    switch (key->type) {
    case FV_KEY_INT:
        cli_format(out, VALUE_ROOM, "%lld", (long long)fv_recipe_int(recipe, key->name));
        break;
    case FV_KEY_REAL:
        cli_format(out, VALUE_ROOM, "%g", fv_recipe_real(recipe, key->name));
        break;
    case FV_KEY_BOOL:
        cli_format(out, VALUE_ROOM, "%s", fv_recipe_bool(recipe, key->name) ? "true" : "false");
        break;
    default:
        cli_format(out, VALUE_ROOM, "\"%s\"", fv_recipe_text(recipe, key->name));
    }
}

/* The recipe that a run has left in its folder. NULL: there is none, or it cannot be read, as those
 * of other versions. */
static fv_recipe *recorded(fv_ctx *ctx, const char *folder)
{
    char path[CLI_PATH_BYTES];
    fv_recipe *old = NULL;
    if (!cli_path(path, "%s/recipe.toml", folder) || access(path, R_OK) != 0) return NULL;
    if (fv_run_recipe(ctx, &old) == FV_OK && fv_recipe_load(old, path) == FV_OK) return old;
    fv_recipe_destroy(&old);
    return NULL;
}

double cli_recorded_lr(fv_ctx *ctx, const fv_recipe *recipe, const char *folder)
{
    fv_recipe *old = recorded(ctx, folder);
    const double lr = fv_recipe_real(old ? old : recipe, "train.lr");
    fv_recipe_destroy(&old);
    return lr;
}

void cli_print_changes(fv_ctx *ctx, const fv_recipe *recipe, const char *folder)
{
    char was[VALUE_ROOM], is[VALUE_ROOM];
    fv_recipe *old = recorded(ctx, folder);
    const fv_key *key;
    const bool by_epochs = fv_recipe_real(recipe, "train.epochs") > 0;
    for (size_t i = 0; old && (key = fv_recipe_key(recipe, i)); i++) {
        if (by_epochs && strcmp(key->name, "train.steps") == 0) continue;
        value_of(old, key, was);
        value_of(recipe, key, is);
        if (strcmp(was, is) != 0)
            cli_note("train: %s is %s; in %s it was %s", key->name, is, folder, was);
    }
    fv_recipe_destroy(&old);
}

void cli_print_missing(const fv_recipe *recipe, const char *path)
{
    const fv_key *key;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++) {
        const char *file = fv_recipe_text(recipe, key->name);
        if (key->type != FV_KEY_PATH || !*file || access(file, F_OK) == 0) continue;
        cli_note("train: %s: no such file; the comments of %s say how to get it", key->name, path);
        return;
    }
}

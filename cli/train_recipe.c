#include "train_recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "input.h"
#include "model.h"
#include "output.h"

/* ---- paths ------------------------------------------------------------------------------ */

/* "$FOVEA_DATA/set/file": where a user keeps data sets is not the recipe's business. */
static int place_data(const fv_key *key, const char *text, char out[CLI_PATH_BYTES])
{
    static const char variable[] = "$FOVEA_DATA/";
    const char *folder = getenv("FOVEA_DATA");
    const bool placed = strncmp(text, variable, sizeof variable - 1) == 0;
    if (placed && !folder) {
        cli_error("train: %s is '%s': set FOVEA_DATA to the folder that holds the data sets",
                  key->name, text);
        return CLI_MISSING;
    }
    const bool fits = placed ? cli_path(out, "%s/%s", folder, text + sizeof variable - 1)
                             : cli_path(out, "%s", text);
    return fits ? CLI_DONE : CLI_USAGE;
}

/* A path from here, as one from anywhere. */
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

/* *code: what the program is to end with, where it was said why. */
static fv_status place_paths(fv_recipe *recipe, int *code)
{
    fv_status status = FV_OK;
    const fv_key *key;
    for (size_t i = 0; status == FV_OK && (key = fv_recipe_key(recipe, i)); i++) {
        char path[CLI_PATH_BYTES];
        if (key->type != FV_KEY_PATH || !*fv_recipe_text(recipe, key->name)) continue;
        *code = place_data(key, fv_recipe_text(recipe, key->name), path);
        if (!*code && !make_absolute(path)) *code = CLI_USAGE;
        if (*code) return FV_ERR_ARGUMENT;
        status = fv_recipe_set(recipe, key->name, path);
    }
    return status;
}

/* ---- the recipe ------------------------------------------------------------------------- */

static fv_status read_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out)
{
    fv_status status = fv_run_recipe(ctx, out);
    if (status == FV_OK) status = fv_recipe_load(*out, call->words[0]);
    for (int i = 0; status == FV_OK && i < call->setting_count; i++)
        status = fv_recipe_set(*out, call->settings[i].name, call->settings[i].value);
    if (status == FV_OK && cli_given(call, "init-from"))
        status = fv_recipe_set(*out, "train.init_from", cli_text(call, "init-from"));
    return status;
}

int cli_train_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out)
{
    int code = CLI_DONE;
    fv_status status = read_recipe(ctx, call, out);
    if (status == FV_OK) status = place_paths(*out, &code);
    if (status == FV_OK) return CLI_DONE;
    if (!code) code = cli_library_error("train", ctx, status);
    return code == CLI_FAILED ? CLI_USAGE : code; /* a wrong recipe is the user's to mend */
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

void cli_tell_changes(fv_ctx *ctx, const fv_recipe *recipe, const char *folder)
{
    char path[CLI_PATH_BYTES], was[VALUE_ROOM], is[VALUE_ROOM];
    fv_recipe *old = NULL;
    const fv_key *key;
    if (!cli_path(path, "%s/recipe.toml", folder) || access(path, R_OK) != 0) return;
    /* One that cannot be read, an older version's for example, is not compared. */
    const bool known = fv_run_recipe(ctx, &old) == FV_OK && fv_recipe_load(old, path) == FV_OK;
    for (size_t i = 0; known && (key = fv_recipe_key(recipe, i)); i++) {
        value_of(old, key, was);
        value_of(recipe, key, is);
        if (strcmp(was, is) != 0) cli_note("%s is %s; in %s it was %s", key->name, is, folder, was);
    }
    fv_recipe_destroy(&old);
}

void cli_tell_needs(const fv_recipe *recipe, const char *path)
{
    const fv_key *key;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++) {
        const char *file = fv_recipe_text(recipe, key->name);
        if (key->type != FV_KEY_PATH || !*file || access(file, F_OK) == 0) continue;
        cli_note("%s is not there; the top of %s may say where it comes from", key->name, path);
        return;
    }
}

/* The recipe of 'fovea train': from its file and the command line, and against a folder's own. */
#ifndef FOVEA_CLI_TRAIN_RECIPE_H
#define FOVEA_CLI_TRAIN_RECIPE_H

#include "fovea/recipe.h"
#include "options.h"

/*
 * The recipe file, the settings of the command line on top, and every path absolute, so that the
 * copy in the run's folder means the same files. Returns the exit code; it was said what is wrong.
 */
int cli_train_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out);

/* Says which settings differ from those of the run that is in the folder, if there is one. */
void cli_tell_changes(fv_ctx *ctx, const fv_recipe *recipe, const char *folder);

/* Where one of the recipe's files is not there: says that its author may tell how to get it. */
void cli_tell_needs(const fv_recipe *recipe, const char *path);

#endif

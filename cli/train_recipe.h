/* The recipe of 'fovea train': read from its file and the command line, compared with that of the
 * run folder. */
#ifndef FOVEA_CLI_TRAIN_RECIPE_H
#define FOVEA_CLI_TRAIN_RECIPE_H

#include "fovea/recipe.h"
#include "options.h"

/*
 * Reads the recipe file or its small form, then applies the settings of the command line. Paths
 * become absolute, so that the copy in the run folder names the same files. Returns an exit code;
 * the error is already printed.
 */
int cli_train_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out);

/*
 * Sets train.task, model.kind and transformer.family where the recipe does not and its other keys
 * decide them. If they fit several tasks, or none, prints what would decide and returns
 * CLI_USAGE. `path` is the recipe's, for messages.
 */
int cli_train_imply(fv_recipe *recipe, const char *path, bool quiet, fv_status *status);

/* Prints the settings that differ from those of the run in the folder, if there is one. */
void cli_print_changes(fv_ctx *ctx, const fv_recipe *recipe, const char *folder);

/* If one of the recipe's files does not exist, points to the recipe's comments on how to get it. */
void cli_print_missing(const fv_recipe *recipe, const char *path);

/* train.lr of the folder's recipe.toml; that of `recipe` where there is none. */
double cli_recorded_lr(fv_ctx *ctx, const fv_recipe *recipe, const char *folder);

/* Checks that neither the folder nor a file that the run replaces there is an input, and the owner
 * of the folder of --average. Prints an error; returns an exit code. */
int cli_train_check_folders(const cli_call *call, const fv_recipe *recipe, const char *folder);

/* 'fovea train --check': prints what a run in `folder` would read, write, replace and need. */
int cli_train_check(fv_ctx *ctx, const cli_call *call, fv_recipe *recipe, const char *folder);

/* True if a key of a recipe is named "section.name": --name sets it if there is only one. */
bool cli_is_short_key(const char *name);

#endif

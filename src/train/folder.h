/*
 * A run in its folder, whatever it trains: goes on from the newest state, writes recipe.toml and
 * the model's settings, trains. The settings come after the state: a recipe that does not fit the
 * folder's states must not spoil the model that is there.
 */
#ifndef FV_TRAIN_FOLDER_H
#define FV_TRAIN_FOLDER_H

#include "fovea/train.h"

typedef struct fv_folder_run {
    fv_params *params;
    fv_task task;
    const fv_train_config *train; /* names the folder */
    fv_recipe *recipe;
    fv_status (*save_settings)(const void *model, const char *folder);
    const void *model;
} fv_folder_run;

fv_status fv_folder_train(fv_ctx *ctx, const fv_folder_run *run);

#endif

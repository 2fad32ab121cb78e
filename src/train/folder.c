/* The order in which a run meets its folder. */
#include "train/folder.h"

#include "io/file.h"

static fv_status write_settings(fv_ctx *ctx, const fv_folder_run *run)
{
    char path[FV_PATH_BYTES];
    FV_FORWARD(fv_path_join(ctx, path, run->train->folder, "recipe.toml"));
    FV_FORWARD(fv_recipe_save(run->recipe, path));
    return run->save_settings(run->model, run->train->folder);
}

fv_status fv_folder_train(fv_ctx *ctx, const fv_folder_run *run)
{
    fv_trainer *trainer = NULL;
    FV_FORWARD(fv_trainer_create(run->params, &run->task, run->train, &trainer));
    fv_status status = fv_trainer_resume(trainer);
    if (status == FV_OK) status = write_settings(ctx, run);
    if (status == FV_OK) status = fv_trainer_run(trainer);
    fv_trainer_destroy(&trainer);
    return status;
}

/* Initial weights from another folder, by name, where shapes fit. */
#ifndef FV_TRAIN_INIT_FROM_H
#define FV_TRAIN_INIT_FROM_H

#include "fovea/task.h"

/*
 * Copies weights of the model in `folder` into params and counts them. Nothing happens where
 * `folder` is "" or the run's own folder has states: a run that resumes has weights of its own.
 * Fails: as fv_model_open; ARGUMENT (no weight fits); MEMORY.
 */
fv_status fv_init_from(fv_ctx *ctx, const char *run_folder, const char *folder, fv_params *params,
                       fv_init_report *loaded);

#endif

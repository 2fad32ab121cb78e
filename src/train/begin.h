/* Weights to begin from: those of another folder, by name, where shapes fit. */
#ifndef FV_TRAIN_BEGIN_H
#define FV_TRAIN_BEGIN_H

#include "fovea/train.h"

/*
 * Copies weights of the model in `folder` into params and counts them. Nothing happens where
 * `folder` is "" or the run's own folder has states: a run that goes on has weights of its own.
 * Fails: as fv_model_open; ARGUMENT (no weight fits); MEMORY.
 */
fv_status fv_begin_from(fv_ctx *ctx, const char *run_folder, const char *folder, fv_params *params,
                        fv_taken *taken);

#endif

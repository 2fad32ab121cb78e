/*
 * Training states on disk: state-<step>.safetensors with everything a run needs to resume, and
 * states.json, which lists the complete ones. A state is written before the list names it and
 * removed after it is off the list, so that every state on the list exists.
 */
#ifndef FV_TRAIN_STATE_H
#define FV_TRAIN_STATE_H

#include "fovea/train.h"
#include "io/file.h"
#include "tensor/params.h"

enum { FV_MAX_STATES = 64 };

/* What a state holds. */
typedef struct fv_state_parts {
    fv_params *params;
    fv_optim *optim[FV_MAX_PHASES];
    int phases;
    fv_params *extra; /* the task's own state; filled by loading */
} fv_state_parts;

/* What the phases of an unfinished step that are done have come to. */
typedef struct fv_partial {
    double tokens, loss, grad_norm;
    bool skipped;
} fv_partial;

/* What is not a tensor. */
typedef struct fv_progress {
    uint64_t step, tokens, skipped;
    int64_t phase; /* phases of the next step that are done: a run was stopped between two */
    fv_partial part;
    int64_t position[FV_POSITION];
    double best; /* NaN: none yet */
    int64_t since_best;
    uint64_t evaluated; /* step of the last complete evaluation; an interrupted one is repeated */
    double loss;        /* smoothed; NaN: none yet */
    double seconds;
} fv_progress;

typedef struct fv_state_list {
    size_t count;
    uint64_t step[FV_MAX_STATES]; /* ascending */
} fv_state_list;

/* The path of a step's state. Fails: ARGUMENT (too long). */
fv_status fv_state_file(fv_ctx *ctx, char out[FV_PATH_BYTES], const char *folder, uint64_t step);

/* An absent list is empty. */
fv_status fv_state_list_read(fv_ctx *ctx, const char *folder, fv_state_list *out);

/* Saves, lists it, and removes the oldest beyond `keep`. */
fv_status fv_state_save(const char *folder, const fv_state_parts *parts,
                        const fv_progress *progress, int keep);
/* Fails: IO, FORMAT (damaged, or of another model: then nothing was changed). */
fv_status fv_state_load(const char *folder, uint64_t step, const fv_state_parts *parts,
                        fv_progress *progress);

#endif

/* Internals of fovea/task.h, for tests of one task. */
#ifndef FV_TRAIN_RUN_H
#define FV_TRAIN_RUN_H

#include "fovea/task.h"

/* The task as its kind's `open` returned it. */
void *fv_run_task(const fv_run *run);

#endif

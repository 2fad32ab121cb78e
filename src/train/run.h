/* The inside of fovea/task.h, for tests of one task. */
#ifndef FV_TRAIN_RUN_H
#define FV_TRAIN_RUN_H

#include "fovea/task.h"

/* What the task's kind made when it was opened. */
void *fv_run_task(const fv_run *run);

#endif

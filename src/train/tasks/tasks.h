/* The library's own tasks, one file each (or a few). */
#ifndef FV_TRAIN_TASKS_H
#define FV_TRAIN_TASKS_H

#include "fovea/task.h"

#define FV_TASK(name) extern const fv_task_kind fv_task_##name;
#include "train/tasks/tasks.def"

/* Ends an `open`: hands over the task if it was opened, closes it otherwise. Returns `status`. */
fv_status fv_task_opened(fv_status status, void (*close)(void *self), void *task, void **self);

#endif

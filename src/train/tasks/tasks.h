/* The library's own tasks, one file each (or a few). */
#ifndef FV_TRAIN_TASKS_H
#define FV_TRAIN_TASKS_H

#include "fovea/task.h"

#define FV_TASK(name) extern const fv_task_kind fv_task_##name;
#include "train/tasks/tasks.def"

#endif

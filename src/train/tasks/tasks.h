/* The library's own tasks, one file each (or a few); train/tasks.c has the table. */
#ifndef FV_TRAIN_TASKS_H
#define FV_TRAIN_TASKS_H

#include "fovea/task.h"

extern const fv_task_kind fv_task_translation, fv_task_language, fv_task_masked, fv_task_classify;

#endif

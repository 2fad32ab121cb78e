/* What the tasks over generated examples share: the rows of a step in the order of training, and
 * the part that evaluation reads. */
#ifndef FV_TRAIN_TASKS_MADE_H
#define FV_TRAIN_TASKS_MADE_H

#include "data/generated.h"
#include "train/step.h"

/* Calls `add` for every training example of a step, in order, and fills the plan but for its
 * tokens; *rows counts the rows that were added and is 0 at first. */
fv_status fv_made_begin(fv_batches *order, fv_step_parts *parts, int64_t *rows,
                        void (*add)(void *self, int64_t number), void *self, fv_step_plan *plan);

/* eval.part of a recipe. */
fv_made_part fv_made_held_out(const fv_recipe *recipe);

#endif

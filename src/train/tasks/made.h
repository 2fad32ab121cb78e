/*
 * What the tasks over generated examples share: the counts of their parts, the order of training,
 * the rows of a step, and the part that evaluation reads.
 *
 *     typedef struct walk_task { fv_made_task made; ... } walk_task;   // the first member
 *     s = fv_made_open(&t->made, cfg, &(fv_made_defaults){...});
 */
#ifndef FV_TRAIN_TASKS_MADE_H
#define FV_TRAIN_TASKS_MADE_H

#include "data/generated.h"
#include "train/step.h"

typedef struct fv_made_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    int64_t count[FV_MADE_PARTS], batch;
    fv_batches *order;
    fv_step_parts parts;
} fv_made_task;

typedef struct fv_made_defaults {
    int64_t batch, train, held_out;    /* where the recipe has 0 */
    int64_t longest;                   /* batches have train.batch_examples * longest at most */
    int64_t (*length)(int64_t number); /* of a training example; NULL: all have `longest` */
} fv_made_defaults;

/* Sets ctx first, so that a task can be closed even then. Fails: ARGUMENT (a step has too many
 * examples), MEMORY. */
fv_status fv_made_open(fv_made_task *t, const fv_task_config *cfg,
                       const fv_made_defaults *defaults);
void fv_made_close(fv_made_task *t); /* accepts a zeroed task with a ctx */

/* A tokenizer of words word(0), word(1), ... up to NULL. */
fv_status fv_made_tokenizer(fv_ctx *ctx, const char *(*word)(int), fv_tokenizer **out);

/* Fails: ARGUMENT (the task needs a model of another kind). */
fv_status fv_made_check_kind(const fv_made_task *t, const fv_model *model, const char *task,
                             const char *kind);

/* Calls `add` for every training example of a step, in order, and fills the plan but for its
 * tokens; *rows counts the rows that were added and is 0 at first. */
fv_status fv_made_begin(fv_made_task *t, int64_t *rows, void (*add)(void *self, int64_t number),
                        fv_step_plan *plan);

/* get_position and set_position of a task: `self` begins with a fv_made_task. */
void fv_made_get_position(void *self, int64_t position[FV_TASK_POSITION]);
fv_status fv_made_set_position(void *self, const int64_t position[FV_TASK_POSITION]);

/* eval.part of a recipe. */
fv_made_part fv_made_held_out(const fv_recipe *recipe);

#endif

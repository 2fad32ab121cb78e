/*
 * What all tasks derive from a recipe: the trainer's settings, the order of examples, and the parts
 * of a step.
 *
 *     run->train = fv_step_settings(recipe, folder, observe, user);
 *     s = fv_step_parts_create(ctx, recipe, &run->parts);
 *     s = fv_step_order(ctx, recipe, count, length_of, run, true, &run->order);
 */
#ifndef FV_TRAIN_STEP_H
#define FV_TRAIN_STEP_H

#include "fovea/batch.h"
#include "fovea/task.h"
#include "fovea/train.h"

/* The examples of part i of a step are first[i] to first[i + 1] - 1. */
typedef struct fv_step_parts {
    int64_t *first; /* [count + 1]; first[0] is 0 */
    int64_t count;  /* train.accumulate */
} fv_step_parts;

fv_status fv_step_parts_create(fv_ctx *ctx, const fv_recipe *recipe, fv_step_parts *out);
/* Accepts zeroed parts. */
void fv_step_parts_free(fv_ctx *ctx, fv_step_parts *parts);

/* Plans a step whose parts have `rows` examples each; returns the examples of all parts. */
int64_t fv_step_plan_rows(fv_step_parts *parts, int64_t rows, fv_step_plan *plan);

/* The settings of [train], for a run in `folder`. */
fv_train_config fv_step_settings(const fv_recipe *recipe, const char *folder,
                                 fv_train_observer observe, void *user);

/* Tokens of example i, by which batches are filled. */
typedef int64_t (*fv_step_length)(const void *user, int64_t i);

/* Batches with the recipe's sizes: shuffled for training, in order for validation. */
fv_status fv_step_order(fv_ctx *ctx, const fv_recipe *recipe, int64_t count, fv_step_length length,
                        const void *user, bool shuffle, fv_batches **out);

/* The settings as keys of a recipe, "train.steps" and so on, with the optimizer and the schedule
 * among them; and back. The folder and the observer stay as they are. */
fv_key_table fv_train_keys(void);
void fv_train_config_from(const fv_recipe *recipe, fv_train_config *cfg);

#endif

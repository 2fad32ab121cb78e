/*
 * Model kinds and tasks defined outside the library, for tests of what the registries must support:
 *
 *     gan      two phases per step, each with its parameters, loss and optimizer, and a
 *              spectral-norm vector, a running mean and a counter kept as buffers of the model
 *     bandit   batches made by running the model; a replay buffer and a baseline kept by the task
 *     sets     sets of vectors, a grid of pixels, and two losses with weights
 *
 * Every call of the trainer is counted, and a test can cancel the run at any of them:
 *
 *     own_calls = (own_count){.cancel_at = 17};
 *     CHECK_EQ(own_train(&own_gan, 1, folder), FV_ERR_CANCELLED);
 */
#ifndef FV_TESTS_OWN_KINDS_H
#define FV_TESTS_OWN_KINDS_H

#include "fovea/task.h"

typedef struct own_count {
    int64_t cancel_at; /* raises run_cancelled (support/runs.h) in this call, from 1; 0: never */
    int64_t calls;
    int wrong_group; /* phases that changed another group's parameters, or not their own */
    int recorded;    /* calls that must not record ops for backward, and did */
} own_count;

extern own_count own_calls;
void own_called(void);

typedef struct own_pair {
    const fv_model_kind *kind;
    const fv_task_kind *task;
    const char *steps; /* of a short run */
} own_pair;

extern const own_pair own_gan, own_bandit, own_sets;

/* A context with the pair registered, and a recipe for a run of it. */
fv_ctx *own_context(const own_pair *pair, int threads);
fv_recipe *own_recipe(fv_ctx *ctx, const own_pair *pair);
/* Trains in a folder that exists, from what it holds. */
fv_status own_train(const own_pair *pair, int threads, const char *folder);
/* Counts ops on a parameter that are recorded for backward where they must not be. */
void own_check_recording(fv_ctx *ctx, fv_tensor *parameter);

#endif

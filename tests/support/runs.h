/*
 * Training runs from recipes, for tests: a context that an observer can cancel, a recipe from a
 * list of settings, and a record of a run's events.
 *
 *     fv_ctx *ctx = run_context(1, 5);
 *     fv_recipe *recipe = run_recipe(ctx, (run_setting[]){{"train.steps", "20"}, {0}});
 *     run_watch w = {.stop = 13};                          // cancelled after step 13
 *     CHECK_EQ(run_text(ctx, recipe, folder, &w), FV_ERR_CANCELLED);   // ends both
 */
#ifndef FV_TESTS_RUNS_H
#define FV_TESTS_RUNS_H

#include "fovea/task.h"

typedef struct run_setting {
    const char *key, *value;
} run_setting;

/* Runs of contexts made here stop when it is set. */
extern volatile int run_cancelled;

fv_ctx *run_context(int threads, uint64_t seed);

/* Every key of training at its default, then the settings, ended by one without a key. */
fv_recipe *run_recipe(fv_ctx *ctx, const run_setting *settings);
void run_set(fv_ctx *ctx, fv_recipe *recipe, const run_setting *settings);

/* How often each kind of event occurred, and the metrics of the first and the last evaluation. */
typedef struct run_watch {
    uint64_t stop; /* the run is cancelled after this step; 0: never */
    fv_metric first[3], last[3];
    int count;           /* of metrics; 0: nothing was evaluated */
    uint64_t peak_bytes; /* of the whole run, where run_text made it */
    int seen[FV_TRAIN_STOPPED_EARLY + 1];
} run_watch;

/* An observer for trainers and runs, whose user is a run_watch. */
void run_observe(void *watch, const fv_train_event *event);

/* Trains on text as the recipe says, and ends recipe and context. A failure other than a
 * cancellation fails the test. */
fv_status run_text(fv_ctx *ctx, fv_recipe *recipe, const char *folder, run_watch *watch);

/* Checks that a model has `count` sites of attention, and that none is written beyond a capacity.
 */
void run_check_sites(const fv_model *model, int count);

/* Appends what the recipe's task shows of the model, as training does for eval.samples. */
fv_status run_samples(fv_ctx *ctx, const fv_recipe *recipe, fv_model *model, int count,
                      fv_text *out);

#endif

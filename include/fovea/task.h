/*
 * fovea/task.h: training tasks (what data, what loss, what metrics) and runs (a recipe, a task and
 * a model in a folder).
 *
 *     fv_recipe *recipe = NULL;
 *     fv_run *run = NULL;
 *     s = fv_run_recipe(ctx, &recipe);                       // every key of every kind and task
 *     s = fv_recipe_load(recipe, "gpt2-shakespeare.toml");   // train.task = "language"
 *     s = fv_run_create(ctx, recipe, "run", observe, NULL, &run);     // reads the data
 *     s = fv_run_train(run);                                          // resumes, trains, saves
 *     fv_run_destroy(&run);
 *     fv_recipe_destroy(&recipe);
 *
 * A task kind is a constant table of functions: how data is read, the batches of a step, the
 * metrics on held-out data, sample outputs to print. The library's own are in src/train/tasks/; a
 * program registers its own with fv_register_task. A step may have several phases, each with its
 * batches, its loss, its group of parameters and its optimizer (a GAN has two), and a batch may be
 * made by running the model (reinforcement learning).
 *
 * The folder becomes what fv_model_open opens, with recipe.toml and the trainer's files beside it
 * (fovea/train.h). "train.init_from" names a model's folder to start from: its tokenizer, and its
 * weights wherever a name and a shape are this model's; a run that resumes has weights of its own.
 */
#ifndef FOVEA_TASK_H
#define FOVEA_TASK_H

#include "fovea/model.h"
#include "fovea/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of the data position that belong to the task; the others are the model's counters. */
enum { FV_TASK_POSITION = FV_POSITION - FV_MODEL_COUNTERS };

/* What a task is opened with. All of it outlives the task. */
typedef struct fv_task_config {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    /* The run's folder; when a run resumes, it already contains the tokenizers. */
    const char *folder;
} fv_task_config;

/*
 * A task. Functions may be NULL unless their comment says otherwise. `self` is what open made. A
 * function that fails returns fv_ctx_fail(...), or the error of the library call that failed. All
 * calls come from the thread that runs the trainer, in this order:
 *
 *     open, prepare, [set_position, set_state of a run that resumes,]
 *     for each step, for each phase: begin, then batch and loss for each part, the update, end
 *     now and then evaluate, show, get_position, get_state
 *     close
 *
 * For a resumed run to be bit-identical to an uninterrupted one, everything random in a step must
 * depend only on the step number. Random ops do: the trainer calls fv_ctx_set_step before begin and
 * before evaluate. Anything else that changes from step to step belongs into get_position or
 * get_state.
 *
 * begin, batch, end, evaluate and show may run the model: nothing that they compute is recorded for
 * backward. Tensors made in begin live until the phase ends, others until the function's caller is
 * done with them.
 */
typedef struct fv_task_kind {
    size_t struct_size;
    const char *name;    /* of train.task in recipes; one word */
    const char *summary; /* one line for help */
    const char *model;   /* model.kind where the recipe leaves it at "auto" */
    fv_key_table (*keys)(void);

    /* Reads or describes the data as far as the model must know it, and fills spec: ability,
     * tokenizers (which become the model's), classes, sizes. */
    fv_status (*open)(const fv_task_config *cfg, fv_data_spec *spec, void **self);
    /* Reads or encodes the data, now that the model and its tokenizers are there. */
    fv_status (*prepare)(void *self, fv_model *model);
    void (*close)(void *self);
    /* What was read, as one human-readable line, "" for nothing. Lives until the next call. */
    const char *(*report)(void *self);

    int phases; /* updates in a step; 0 means 1 */
    /* The parameters that a phase updates: those whose names begin with this text, which outlives
     * the run; NULL: all. */
    const char *(*group)(void *self, int phase);
    /* Changes the recipe's optimizer and schedule for a phase. */
    void (*optimizer)(void *self, int phase, fv_optim_config *optim, fv_schedule *schedule);

    /* Plans a phase of a step. NULL: one batch; the loss is divided by its number of rows. */
    fv_status (*begin)(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan);
    /* Batch `part` of it, valid until the next call. May run the model. NULL only with `update`. */
    fv_status (*batch)(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out);
    /* The loss of a batch, summed over what `tokens` counts; NULL: the model's own. */
    fv_tensor *(*loss)(fv_ctx *ctx, void *self, fv_model *model, int phase, const fv_batch *batch,
                       const fv_pass *pass);

    /* Called after the phase's update and the model kind's step_done. Advance the task's own state
     * here. A phase that fails or is cancelled does not get here, and is repeated when the run
     * resumes. Never cancelled itself. */
    fv_status (*end)(void *self, fv_model *model, uint64_t step, int phase);

    /* Adds metrics on held-out data with fv_metric_add; the first one decides which state
     * is the best and when training stops early. */
    fv_status (*evaluate)(void *self, fv_model *model, fv_metric *metrics, int *count);
    /* Up to `count` human-readable sample outputs, as lines. */
    fv_status (*show)(void *self, fv_model *model, int count, fv_text *out);

    /* The position in the data, as integers stored in the training state; may change in begin and
     * batch, too. Both or neither. */
    void (*get_position)(void *self, int64_t position[FV_TASK_POSITION]);
    fv_status (*set_position)(void *self, const int64_t position[FV_TASK_POSITION]);
    /* What the task keeps beside weights (a replay buffer, baselines): puts it into an empty set
     * under names of its own with fv_params_add_buffer, or takes it out of one that was saved,
     * whose names and shapes must be checked (FORMAT). It may change in `end` only. Both or
     * neither. */
    fv_status (*get_state)(void *self, fv_params *state);
    fv_status (*set_state)(void *self, const fv_params *state);

    /* For methods that are not a loss and an optimizer over all parameters, such as word2vec's
     * sparse updates: makes the phase's update itself with the schedule's learning rate, after
     * begin, in place of batch, loss and the optimizer. Returns the loss, summed over what the plan
     * counts; one element. What it does is never cancelled and must depend on the step alone; keep
     * it short. The recipe's optimizer keeps state that this does not need: `optimizer` may choose
     * FV_OPTIM_SGD, which has none. */
    fv_tensor *(*update)(fv_ctx *ctx, void *self, fv_model *model, uint64_t step, int phase,
                         double lr);
} fv_task_kind;

/* Adds a task to a context. The table is copied; what it points to must outlive the context. Fails:
 * ARGUMENT (no name, open, close or batch; a name that is taken), MEMORY. */
FV_API FV_MUST_USE fv_status fv_register_task(fv_ctx *ctx, const fv_task_kind *kind);
/*
 * The i-th task, the library's own first; NULL past the last.
 *
 *     const fv_task_kind *task;
 *     for (size_t i = 0; (task = fv_task_kind_at(ctx, i)); i++)
 *         printf("%-12s %s\n", task->name, task->summary);
 *     if (fv_task_kind_find(ctx, "language")->evaluate) puts("language has metrics");
 */
FV_API const fv_task_kind *fv_task_kind_at(const fv_ctx *ctx, size_t i);
FV_API const fv_task_kind *fv_task_kind_find(const fv_ctx *ctx, const char *name);

/* ---- runs --------------------------------------------------------------------------------- */

/* A recipe with every key of the registered kinds and tasks and of the trainer, at its default. */
FV_API FV_MUST_USE fv_status fv_run_recipe(fv_ctx *ctx, fv_recipe **out);

typedef struct fv_run fv_run;

/*
 * Reads the data and makes the model; `folder` must exist, and nothing is written to it yet. The
 * recipe and the folder's name must outlive the run. First weights are drawn with the context's
 * seed: fv_ctx_set_seed(ctx, train.seed) comes first where the recipe decides. Fails: IO, FORMAT,
 * ARGUMENT (a key that is missing or does not fit, a model that cannot do what the task asks),
 * MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_run_create(fv_ctx *ctx, fv_recipe *recipe, const char *folder,
                                           fv_train_observer observe, void *user, fv_run **out);
/* Resumes from the folder's newest state, writes the settings and recipe.toml, and trains to the
 * end; see fv_trainer_run. The state is loaded before anything is written, so a recipe
 * that does not fit leaves the folder unchanged. */
FV_API FV_MUST_USE fv_status fv_run_train(fv_run *run);
/* Trains `steps` steps (at least two) from the first weights, without resuming, evaluating or
 * writing any file, to find out what a step costs: *seconds is the mean time of all but the first.
 * The model has changed afterwards; destroy the run. Fails: as fv_run_train. */
FV_API FV_MUST_USE fv_status fv_run_measure(fv_run *run, int steps, double *seconds);
/* While it trains, the run saves its state whenever *request is not 0 after a step, and sets it to
 * 0. NULL: never. A signal handler may set it. */
FV_API void fv_run_set_save_request(fv_run *run, volatile int *request);
FV_API void fv_run_destroy(fv_run **run); /* NULL is fine */

FV_API fv_model *fv_run_model(const fv_run *run);
/* What was read, as one line; "" for nothing. */
FV_API const char *fv_run_report(const fv_run *run);
/* Metrics of the model as it is now, at most FV_MAX_METRICS. Fails: UNSUPPORTED (the task has
 * none), and what the task fails with. */
FV_API FV_MUST_USE fv_status fv_run_evaluate(fv_run *run, fv_metric metrics[FV_MAX_METRICS],
                                             int *count);

/* What "train.init_from" gave: tensors loaded by name, and those that were initialised randomly.
 * All zero without that key, and in a run that resumes. */
typedef struct fv_init_report {
    int64_t loaded, random;
    char names[200];      /* of the random ones, separated by commas */
    bool names_truncated; /* there are more of them than `names` holds */
} fv_init_report;
FV_API fv_init_report fv_run_init_report(const fv_run *run);

#ifdef __cplusplus
}
#endif
#endif

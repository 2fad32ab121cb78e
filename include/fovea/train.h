/*
 * fovea/train.h: the training loop of every model: accumulation, schedules, clipping, validation,
 * early stopping, checkpoints that resume bit for bit, and logs.
 *
 *     fv_task task = {.user = &mine, .begin = begin, .loss = loss, .evaluate = evaluate,
 *                     .get_position = get_position, .set_position = set_position};
 *     fv_train_config cfg;
 *     fv_train_config_init(&cfg, sizeof cfg);
 *     cfg.folder = "run";                       // must exist
 *     cfg.steps = 10000;
 *     cfg.schedule = (fv_schedule){.kind = FV_SCHEDULE_COSINE, .lr = 1e-3, .total = 10000};
 *     fv_trainer *trainer = NULL;
 *     fv_status s = fv_trainer_create(params, &task, &cfg, &trainer);
 *     if (s == FV_OK) s = fv_trainer_resume(trainer);     // nothing there: starts afresh
 *     if (s == FV_OK) s = fv_trainer_run(trainer);        // CANCELLED: saved, resume later
 *     printf("%" PRIu64 " steps, best %g\n", fv_trainer_steps(trainer), fv_trainer_best(trainer));
 *     fv_trainer_destroy(&trainer);
 *     if (s == FV_OK) s = fv_params_load(params, "run/model.safetensors");    // the best weights
 *
 * A folder holds model.safetensors (the best weights so far, by the first metric; before the first
 * evaluation those of the last state), the last
 * `keep` states (state-<step>.safetensors: weights, optimizer, counters, place in the data), their
 * list states.json, log.jsonl, log.csv and a TensorBoard event file per start. Every file but the
 * logs is replaced in one step, so that at any moment a whole state is there.
 *
 * A step's update is that of the mean loss over its tokens, however many parts it is cut into: the
 * gradients of parts are added as a binary tree over the part number, and random ops draw by the
 * number of a row in the step. A run of a + b steps has the bits of a run of a steps, resumed for b
 * more, on any thread count.
 *
 * On a device that runs late, the trainer does not wait for a step: it learns of its loss, its
 * norm, and whether it was skipped or failed, while the next step is computed, and reports it then.
 * The step's event and log line come in order and with the step's own numbers; evaluation, saving
 * and the end wait.
 */
#ifndef FOVEA_TRAIN_H
#define FOVEA_TRAIN_H

#include "fovea/optim.h"
#include "fovea/recipe.h"
#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FV_MAX_METRICS = 12, FV_POSITION = 8, FV_MAX_PHASES = 4 };

typedef struct fv_metric {
    char name[32];
    double value;
    bool higher_is_better; /* a loss: false */
} fv_metric;

/* Appends a metric; *count must be below FV_MAX_METRICS. */
FV_API void fv_metric_add(fv_metric *metrics, int *count, const char *name, double value,
                          bool higher_is_better);

/* A phase's data in one step. */
typedef struct fv_step_plan {
    int64_t parts; /* micro-batches whose gradients are summed (gradient accumulation); default 1 */
    double tokens; /* the loss of all parts is divided by this; > 0 */
    double epoch;  /* how far through the data this is, for progress */
    /* [parts]: the number of each part's first row among all rows of the step, by which its random
     * ops draw. Valid until the phase ends. NULL: numbers that are far apart. */
    const int64_t *first_row;
} fv_step_plan;

/*
 * What is trained. Calls come from the thread that runs the trainer. A step has one phase or
 * several, which follow one another: each has its loss, its group of parameters and its optimizer.
 * Functions from `end` on may be NULL.
 */
typedef struct fv_task {
    void *user;
    int phases; /* 0 means 1; at most FV_MAX_PHASES */
    /* Chooses the data of a phase. */
    fv_status (*begin)(void *user, uint64_t step, int phase, fv_step_plan *plan);
    /* The loss of one part, summed over its tokens; one element, recorded. NULL with update. */
    fv_tensor *(*loss)(void *user, fv_ctx *ctx, int phase, int64_t part);
    /* After the phase's update: the only place where what get_state saves may change. On a device
     * that runs late the update may turn out later to have been skipped, or to have failed: then
     * the run ends and nothing is saved. */
    fv_status (*end)(void *user, uint64_t step, int phase);
    /* Adds metrics on held-out data with fv_metric_add, the deciding one first. */
    fv_status (*evaluate)(void *user, fv_metric *metrics, int *count);
    /* Sample outputs for people, after an evaluation; freed with fv_text_free. */
    fv_status (*show)(void *user, fv_text *out);
    /* The parameters that a phase updates: those whose names begin with this; NULL: all. */
    const char *(*group)(void *user, int phase);
    /* Changes the optimizer and the schedule of the config for a phase. */
    void (*optimizer)(void *user, int phase, fv_optim_config *optim, fv_schedule *schedule);
    /* The place in the data, as numbers that a state can hold. */
    void (*get_position)(void *user, int64_t position[FV_POSITION]);
    fv_status (*set_position)(void *user, const int64_t position[FV_POSITION]);
    /* What a run keeps beside weights, as tensors: puts them into an empty set, or takes them out
     * of one that was saved. */
    fv_status (*get_state)(void *user, fv_params *state);
    fv_status (*set_state)(void *user, const fv_params *state);
    /* Makes the phase's update itself, with this learning rate, in place of gradients and an
     * optimizer; `loss` may then be NULL. Returns the loss, summed over the plan's tokens; one
     * element. The only place where it may change parameters. */
    fv_tensor *(*update)(void *user, fv_ctx *ctx, uint64_t step, int phase, double lr);
} fv_task;

typedef enum fv_train_event_kind {
    FV_TRAIN_RESUMED,   /* `step` steps had been done */
    FV_TRAIN_STEP,      /* after each step */
    FV_TRAIN_EVALUATED, /* metrics; `improved` if they are the best so far */
    FV_TRAIN_SAMPLES,   /* `text`: sample outputs, one a line */
    FV_TRAIN_SAVED,
    FV_TRAIN_SKIPPED,   /* loss or gradients were not finite: nothing was changed */
    FV_TRAIN_BAD_STATE, /* a state could not be read; an older one is tried. `text` says why */
    FV_TRAIN_STOPPED_EARLY
} fv_train_event_kind;

typedef struct fv_train_event {
    fv_train_event_kind kind;
    uint64_t step;  /* steps done */
    uint64_t steps; /* to do in all */
    double epoch, loss /* a token, smoothed over a hundred steps */, lr, grad_norm;
    double tokens_per_second; /* since the last second or so */
    double seconds, seconds_left;
    uint64_t tokens, skipped; /* in all */
    const fv_metric *metrics;
    int metric_count;
    bool improved;
    const char *text;
} fv_train_event;

typedef void (*fv_train_observer)(void *user, const fv_train_event *event);

typedef struct fv_train_config {
    size_t struct_size;
    const char *folder; /* NULL: no files at all */
    uint64_t steps;
    fv_optim_config optim;
    fv_schedule schedule;
    fv_dtype compute;          /* of linear layers while it runs, F32 or BF16 (fovea/ops.h) [F32] */
    bool recompute;            /* fv_pass.checkpoint, of tasks that have passes [false] */
    uint64_t eval_every;       /* steps; 0: at the end only [500] */
    uint64_t save_every;       /* steps; 0: at the end only [1000] */
    uint64_t log_every;        /* steps between lines of the logs [10] */
    int keep;                  /* states kept [3] */
    int patience;              /* evaluations without improvement before stopping; 0: never [0] */
    fv_train_observer observe; /* or NULL */
    void *observe_user;
    /* Not 0 after a step: the state is saved and the number set to 0. NULL: never [NULL] */
    volatile int *save_request;
} fv_train_config;

/* The defaults in brackets; AdamW at a constant 1e-3. */
FV_API void fv_train_config_init(fv_train_config *cfg, size_t struct_size);

typedef struct fv_trainer fv_trainer;

/* `params` and what task and cfg point to must outlive the trainer. Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_trainer_create(fv_params *params, const fv_task *task,
                                               const fv_train_config *cfg, fv_trainer **out);
FV_API void fv_trainer_destroy(fv_trainer **trainer); /* NULL is fine */

/*
 * Goes back to the newest state of the folder that is whole; without one, does nothing. Logged
 * lines of later steps are cut off. Fails: FORMAT (states are there, but none can be read, or it is
 * of another model), IO, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_trainer_resume(fv_trainer *trainer);

/*
 * Runs to the last step, to early stopping, or until the context's cancel flag rises: then the
 * state is saved and the call returns FV_ERR_CANCELLED. Also fails: NONFINITE (too many skipped
 * steps in a row; nothing is saved over a good state), and whatever the task, the device or the
 * files fail with.
 */
FV_API FV_MUST_USE fv_status fv_trainer_run(fv_trainer *trainer);

/* Steps done, and the best value of the first metric (NaN before the first evaluation). */
FV_API uint64_t fv_trainer_steps(const fv_trainer *trainer);
FV_API double fv_trainer_best(const fv_trainer *trainer);

/* ---- weights ---------------------------------------------------------------------- */

/* Every parameter by its name into a safetensors file, and back. Loading wants exactly the set's
 * names and shapes: FORMAT names the first that is missing, too many or of another shape. */
FV_API FV_MUST_USE fv_status fv_params_save(fv_params *params, const char *path);
FV_API FV_MUST_USE fv_status fv_params_load(fv_params *params, const char *path);

/* The mean of the weights of the last `count` states of a folder (fewer if it holds fewer). */
FV_API FV_MUST_USE fv_status fv_params_average(fv_params *params, const char *folder, int count);

#ifdef __cplusplus
}
#endif
#endif

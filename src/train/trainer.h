/*
 * The fields of a trainer, and a step in two halves: launching it, and settling it once its outcome
 * has reached the host.
 *
 *     s = fv_trainer_launch(t);          // gradients and updates of every phase; waits for nothing
 *     s = fv_trainer_settle(t, false);   // counts, logs and reports the step if its record is here
 *     ... the next step's gradients ...
 *     s = fv_trainer_settle(t, true);    // launch() does this before the next step's first update
 *
 * One record of all phases (loss, norm, whether the gate was open, fault: kernels/optim.h) is read
 * for a step. t->progress speaks of settled steps only. The host knows what became of a step before
 * it launches the next update, so whatever fails or stops the run leaves weights, optimizer and
 * progress of the same step, and while the host waits the device has the next step's gradients to
 * compute.
 */
#ifndef FV_TRAIN_TRAINER_H
#define FV_TRAIN_TRAINER_H

#include "tensor/later.h"
#include "train/log.h"
#include "train/optim.h"
#include "train/state.h"

/* Phases of one step whose updates are launched, but not settled. */
typedef struct fv_launched {
    int first, end; /* phases first .. end - 1; none if equal */
    uint64_t step;
    double epoch, lr;
    double tokens[FV_MAX_PHASES];
    int64_t position[FV_MAX_PHASES][FV_POSITION]; /* after each phase */
    fv_later record;
} fv_launched;

struct fv_trainer {
    fv_ctx *ctx;
    fv_params *params;
    fv_task task;
    fv_train_config cfg;
    fv_optim *optim[FV_MAX_PHASES];
    fv_schedule schedule[FV_MAX_PHASES];
    int phases;
    fv_tensor *blocks;               /* [phases] step blocks, read together */
    fv_tensor *block[FV_MAX_PHASES]; /* views of them */
    fv_launched launched;
    fv_train_log log;
    fv_progress progress;
    uint64_t saved_step; /* of the newest state on disk */
    int64_t saved_phase;
    bool has_saved;
    bool no_metrics; /* the task has nothing to evaluate on */
    /* of this process, for rates */
    double started, window_start, rate;
    uint64_t started_step, window_tokens;
    double epoch, lr, grad_norm; /* of the last settled step */
};

/* The number of the step that is launched next: settled steps and the launched one count. */
uint64_t fv_trainer_next_step(const fv_trainer *t);
/* Launches the phases of that step that are still to do. */
fv_status fv_trainer_launch(fv_trainer *t);
/* Settles what is launched if its record has arrived; with `wait`, when it has. Fails: a fault of
 * the step (the message names it), NONFINITE, IO (logs). */
fv_status fv_trainer_settle(fv_trainer *t, bool wait);

double fv_trainer_clock(void);
fv_train_event fv_trainer_event(const fv_trainer *t, fv_train_event_kind kind);
void fv_trainer_notify(const fv_trainer *t, const fv_train_event *event);
/* Whether something that happens every `every` steps, and after the last one, comes after `step`.
 */
static inline bool fv_trainer_due(uint64_t step, uint64_t every, uint64_t last)
{
    return step == last || (every > 0 && step % every == 0);
}

/* In between, ops ignore the cancel flag, tensors are freed and nothing is recorded. */
const volatile int *fv_trainer_begin_uncancelled(fv_ctx *ctx);
void fv_trainer_end_uncancelled(fv_ctx *ctx, const volatile int *cancel);

#endif

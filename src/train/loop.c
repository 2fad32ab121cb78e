/*
 * The training loop. A phase that fails or is cancelled changes no parameter: what is saved then is
 * the state before it, with the place in the data that it began from. From a phase's update on, the
 * cancel flag is ignored until the phase is counted: half an update would be repeated on resume.
 * Everything that looks at weights (evaluation, saving, the end) settles the launched step first.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/config.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "train/trainer.h"

double fv_trainer_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- making ----------------------------------------------------------------------- */

void fv_train_config_init(fv_train_config *cfg, size_t struct_size)
{
    fv_train_config defaults = {
        .struct_size = struct_size,
        .schedule = {.kind = FV_SCHEDULE_CONSTANT, .lr = 1e-3},
        .eval_every = 500,
        .save_every = 1000,
        .log_every = 10,
        .keep = 3,
    };
    fv_optim_config_init(&defaults.optim, sizeof defaults.optim, FV_OPTIM_ADAMW);
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static bool is_empty_group(const fv_params *params, const char *group)
{
    for (int i = 0; i < params->count; i++)
        if (fv_params_in_group(params, i, group)) return false;
    return true;
}

/* The config's optimizer and schedule, as the task changes them for a phase. */
static fv_status make_optimizer(fv_trainer *t, int phase)
{
    fv_optim_config optim = t->cfg.optim;
    t->schedule[phase] = t->cfg.schedule;
    if (t->task.group) optim.group = t->task.group(t->task.user, phase);
    if (t->task.optimizer) t->task.optimizer(t->task.user, phase, &optim, &t->schedule[phase]);
    FV_RETURN_IF(
        optim.group && is_empty_group(t->params, optim.group), t->ctx, FV_ERR_ARGUMENT,
        "train: phase %d updates parameters whose names begin with '%.60s'; there are none", phase,
        optim.group);
    return fv_optim_create(t->params, &optim, &t->optim[phase]);
}

static fv_status make_blocks(fv_trainer *t)
{
    t->blocks = fv_step_blocks_create(t->ctx, t->phases, t->block);
    return t->ctx->error;
}

fv_status fv_trainer_create(fv_params *params, const fv_task *task, const fv_train_config *given,
                            fv_trainer **out)
{
    fv_ctx *ctx = params->ctx;
    fv_train_config full, *cfg = &full;
    fv_train_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given), ctx, FV_ERR_ARGUMENT,
                 "train: the config is not initialised");
    FV_RETURN_IF(!task->begin || (!task->loss && !task->update) || cfg->keep < 1 ||
                     cfg->keep >= FV_MAX_STATES,
                 ctx, FV_ERR_ARGUMENT,
                 "train: expected a task with begin and loss or update, and keep from 1 to %d",
                 FV_MAX_STATES - 1);
    FV_RETURN_IF(task->phases < 0 || task->phases > FV_MAX_PHASES, ctx, FV_ERR_ARGUMENT,
                 "train: a step has %d phases, expected at most %d", task->phases, FV_MAX_PHASES);
    fv_trainer *t = fv_mem_zalloc(&ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, ctx, FV_ERR_MEMORY, "no memory for a trainer");
    t->ctx = ctx;
    t->params = params;
    t->task = *task;
    t->cfg = *cfg;
    t->phases = task->phases ? task->phases : 1;
    t->progress.best = NAN;
    t->progress.loss = NAN;
    fv_status status = make_blocks(t);
    for (int phase = 0; phase < t->phases && status == FV_OK; phase++)
        status = make_optimizer(t, phase);
    if (status == FV_OK)
        *out = t;
    else
        fv_trainer_destroy(&t);
    return status;
}

void fv_trainer_destroy(fv_trainer **trainer_ptr)
{
    fv_trainer *t = *trainer_ptr;
    if (!t) return;
    fv_train_log_close(&t->log);
    fv_later_drop(t->ctx, &t->launched.record);
    for (int phase = 0; phase < FV_MAX_PHASES; phase++) {
        fv_optim_destroy(&t->optim[phase]);
        fv_tensor_unref(t->block[phase]);
    }
    fv_tensor_unref(t->blocks);
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
    *trainer_ptr = NULL;
}

uint64_t fv_trainer_steps(const fv_trainer *t) { return t->progress.step; }
double fv_trainer_best(const fv_trainer *t) { return t->progress.best; }

/* ---- events ----------------------------------------------------------------------- */

fv_train_event fv_trainer_event(const fv_trainer *t, fv_train_event_kind kind)
{
    const fv_progress *p = &t->progress;
    const double spent = fv_trainer_clock() - t->started;
    const uint64_t done = p->step - t->started_step;
    fv_train_event e = {
        .kind = kind,
        .step = p->step,
        .steps = t->cfg.steps,
        .epoch = t->epoch,
        .loss = p->loss,
        .lr = t->lr,
        .grad_norm = t->grad_norm,
        .tokens_per_second = t->rate,
        .seconds = p->seconds + spent,
        .tokens = p->tokens,
        .skipped = p->skipped,
    };
    if (done > 0 && t->cfg.steps > p->step)
        e.seconds_left = spent / (double)done * (double)(t->cfg.steps - p->step);
    return e;
}

void fv_trainer_notify(const fv_trainer *t, const fv_train_event *event)
{
    if (t->cfg.observe) t->cfg.observe(t->cfg.observe_user, event);
}

static void notify_kind(const fv_trainer *t, fv_train_event_kind kind, const char *text)
{
    fv_train_event e = fv_trainer_event(t, kind);
    e.text = text;
    fv_trainer_notify(t, &e);
}

/* ---- the task's own computing ------------------------------------------------------ */

/* Tensors that the task makes in between are freed, and nothing is recorded for backward. */
static void begin_aside(fv_ctx *ctx)
{
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
}

static void end_aside(fv_ctx *ctx)
{
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
}

const volatile int *fv_trainer_begin_uncancelled(fv_ctx *ctx)
{
    const volatile int *cancel = ctx->cancel;
    ctx->cancel = NULL;
    begin_aside(ctx);
    return cancel;
}

void fv_trainer_end_uncancelled(fv_ctx *ctx, const volatile int *cancel)
{
    end_aside(ctx);
    ctx->cancel = cancel;
}

/* ---- states ----------------------------------------------------------------------- */

static fv_state_parts parts_of(const fv_trainer *t, fv_params *extra)
{
    fv_state_parts parts = {.params = t->params, .phases = t->phases, .extra = extra};
    memcpy(parts.optim, t->optim, sizeof parts.optim);
    return parts;
}

static fv_status save_with(fv_trainer *t, fv_params *extra)
{
    fv_progress p = t->progress;
    p.seconds += fv_trainer_clock() - t->started;
    if (t->task.get_state) FV_TRY(t->task.get_state(t->task.user, extra));
    if (t->ctx->error != FV_OK) return t->ctx->error;
    const fv_state_parts parts = parts_of(t, extra);
    return fv_state_save(t->cfg.folder, &parts, &p, t->cfg.keep);
}

static fv_status save_weights(fv_trainer *t)
{
    char path[FV_PATH_BYTES];
    if (!t->cfg.folder) return FV_OK;
    FV_TRY(fv_path_join(t->ctx, path, t->cfg.folder, "model.safetensors"));
    return fv_params_save(t->params, path);
}

static fv_status save(fv_trainer *t)
{
    fv_params *extra = NULL;
    if (!t->cfg.folder) return FV_OK;
    if (t->has_saved && t->saved_step == t->progress.step && t->saved_phase == t->progress.phase)
        return FV_OK;
    FV_TRY(fv_params_create(t->ctx, &extra));
    const volatile int *cancel = fv_trainer_begin_uncancelled(t->ctx);
    fv_status status = save_with(t, extra);
    /* Before the first evaluation these are the best weights: the folder can be opened. */
    if (status == FV_OK && isnan(t->progress.best)) status = save_weights(t);
    fv_trainer_end_uncancelled(t->ctx, cancel);
    fv_params_destroy(&extra);
    FV_TRY(status);
    t->saved_step = t->progress.step;
    t->saved_phase = t->progress.phase;
    t->has_saved = true;
    notify_kind(t, FV_TRAIN_SAVED, NULL);
    return FV_OK;
}

/* One state of the folder, with everything that the task has in it. */
static fv_status load(fv_trainer *t, uint64_t step)
{
    fv_params *extra = NULL;
    FV_TRY(fv_params_create(t->ctx, &extra));
    const fv_state_parts parts = parts_of(t, extra);
    const volatile int *cancel = fv_trainer_begin_uncancelled(t->ctx);
    fv_status status = fv_state_load(t->cfg.folder, step, &parts, &t->progress);
    if (status == FV_OK && t->task.set_position)
        status = t->task.set_position(t->task.user, t->progress.position);
    if (status == FV_OK && t->task.set_state) status = t->task.set_state(t->task.user, extra);
    /* An older state may still be good: the error must not stick. */
    if (t->ctx->error != FV_OK) status = fv_ctx_take_error(t->ctx);
    fv_trainer_end_uncancelled(t->ctx, cancel);
    fv_params_destroy(&extra);
    return status;
}

fv_status fv_trainer_resume(fv_trainer *t)
{
    fv_state_list list;
    if (!t->cfg.folder) return FV_OK;
    FV_TRY(fv_state_list_read(t->ctx, t->cfg.folder, &list));
    for (size_t i = list.count; i-- > 0;) {
        const fv_status status = load(t, list.step[i]);
        if (status == FV_OK) {
            t->saved_step = t->progress.step;
            t->saved_phase = t->progress.phase;
            t->has_saved = true;
            t->started = fv_trainer_clock();
            t->started_step = t->progress.step;
            notify_kind(t, FV_TRAIN_RESUMED, NULL);
            return FV_OK;
        }
        if (status == FV_ERR_MEMORY || i == 0) return status;
        notify_kind(t, FV_TRAIN_BAD_STATE, fv_ctx_message(t->ctx));
    }
    return FV_OK;
}

/* ---- evaluation ------------------------------------------------------------------- */

void fv_metric_add(fv_metric *metrics, int *count, const char *name, double value,
                   bool higher_is_better)
{
    if (*count >= FV_MAX_METRICS) return;
    fv_metric *m = &metrics[(*count)++];
    snprintf(m->name, sizeof m->name, "%s", name);
    m->value = value;
    m->higher_is_better = higher_is_better;
}

static bool better(const fv_trainer *t, const fv_metric *metric)
{
    const double best = t->progress.best, value = metric->value;
    if (isnan(value)) return false;
    return isnan(best) || (metric->higher_is_better ? value > best : value < best);
}

/* Sample outputs for the observer. */
static fv_status show_samples(fv_trainer *t)
{
    fv_text text = {0};
    if (!t->task.show || !t->cfg.observe) return FV_OK;
    begin_aside(t->ctx);
    const fv_status status = t->task.show(t->task.user, &text);
    end_aside(t->ctx);
    if (status == FV_OK && text.bytes > 0) notify_kind(t, FV_TRAIN_SAMPLES, text.data);
    fv_text_free(t->ctx, &text);
    return status;
}

/* *stop: patience is exhausted. */
static fv_status evaluate(fv_trainer *t, bool *stop)
{
    fv_metric metrics[FV_MAX_METRICS] = {{.value = 0}};
    int count = 0;
    if (!t->task.evaluate) return FV_OK;
    /* Draws of its own, the same in a run that was resumed. */
    fv_ctx_set_step(t->ctx, UINT64_MAX - t->progress.step, 0);
    begin_aside(t->ctx);
    fv_status status = t->task.evaluate(t->task.user, metrics, &count);
    end_aside(t->ctx);
    if (status == FV_OK) status = fv_ctx_error(t->ctx);
    t->no_metrics = count < 1;
    if (status != FV_OK || count < 1) return status;
    t->progress.evaluated = t->progress.step;
    fv_train_event e = fv_trainer_event(t, FV_TRAIN_EVALUATED);
    e.metrics = metrics;
    e.metric_count = count;
    e.improved = better(t, &metrics[0]);
    t->progress.since_best = e.improved ? 0 : t->progress.since_best + 1;
    if (e.improved) {
        t->progress.best = metrics[0].value;
        FV_TRY(save_weights(t));
    }
    FV_TRY(fv_train_log_add(&t->log, &e));
    fv_trainer_notify(t, &e);
    FV_TRY(show_samples(t));
    *stop = t->cfg.patience > 0 && t->progress.since_best >= t->cfg.patience;
    return FV_OK;
}

/* ---- the loop --------------------------------------------------------------------- */

static fv_status after_step(fv_trainer *t, bool *stop)
{
    const fv_train_config *cfg = &t->cfg;
    const uint64_t step = fv_trainer_next_step(t);
    const bool evaluates = fv_trainer_due(step, cfg->eval_every, cfg->steps);
    const bool saves = fv_trainer_due(step, cfg->save_every, cfg->steps);
    bool requested = cfg->save_request && *cfg->save_request;
    FV_TRY(fv_trainer_settle(t, evaluates || saves || requested));
    if (t->progress.step != step) return FV_OK; /* its record has not arrived */
    if (evaluates) FV_TRY(evaluate(t, stop));
    requested = cfg->save_request && *cfg->save_request;
    if (requested) *cfg->save_request = 0;
    if (saves || *stop || requested) FV_TRY(save(t));
    return FV_OK;
}

static fv_status run_steps(fv_trainer *t)
{
    bool stop = false;
    const uint64_t step = t->progress.step;
    const bool missed = step > 0 && t->progress.phase == 0 && t->progress.evaluated != step;
    if (missed && fv_trainer_due(step, t->cfg.eval_every, t->cfg.steps)) {
        FV_TRY(evaluate(t, &stop));
        /* The state of this step does not know the result yet. */
        t->has_saved = t->has_saved && t->progress.evaluated != step;
        if (fv_trainer_due(step, t->cfg.save_every, t->cfg.steps) || stop) FV_TRY(save(t));
    }
    while (fv_trainer_next_step(t) < t->cfg.steps && !stop) {
        if (fv_cancelled(t->ctx)) return FV_ERR_CANCELLED;
        FV_TRY(fv_trainer_launch(t));
        FV_TRY(after_step(t, &stop));
        fv_mem_release_idle(&t->ctx->mem);
    }
    if (stop) notify_kind(t, FV_TRAIN_STOPPED_EARLY, NULL);
    /* Without a metric the last weights are the best there are. */
    return t->task.evaluate && !t->no_metrics ? FV_OK : save_weights(t);
}

/* The cancelled step leaves incomplete gradients and the sticky error; its data is drawn again
 * when the run resumes. */
static fv_status save_cancelled(fv_trainer *t)
{
    if (fv_ctx_error(t->ctx) != FV_OK) fv_ctx_take_error(t->ctx);
    fv_params_zero_grad(t->params);
    FV_TRY(fv_trainer_settle(t, true));
    FV_TRY(save(t));
    return fv_fail(t->ctx, FV_ERR_CANCELLED, "interrupted after %llu steps",
                   (unsigned long long)t->progress.step);
}

fv_status fv_trainer_run(fv_trainer *t)
{
    t->started = t->window_start = fv_trainer_clock();
    t->started_step = t->progress.step;
    if (t->task.get_position) t->task.get_position(t->task.user, t->progress.position);
    const fv_dtype compute = fv_ctx_compute(t->ctx);
    FV_TRY(fv_ctx_set_compute(t->ctx, t->cfg.compute));
    fv_status status = fv_train_log_open(t->ctx, t->cfg.folder, t->progress.step, &t->log);
    if (status == FV_OK) status = run_steps(t);
    t->ctx->compute = (int)compute;
    if (status == FV_ERR_CANCELLED) {
        status = save_cancelled(t);
    } else if (status != FV_OK) {
        /* The step before the one that failed still counts; if it failed too, it came first. */
        const fv_status before = fv_trainer_settle(t, true);
        if (before != FV_OK) status = before;
    }
    t->progress.seconds += fv_trainer_clock() - t->started;
    fv_train_log_close(&t->log);
    return status;
}

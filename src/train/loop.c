/*
 * The training loop. A phase that fails or is cancelled changes no parameter: what is saved then is
 * the state before it, with the place in the data that it began from. From a phase's update on, the
 * cancel flag is ignored until the phase is counted: half an update would be repeated on resume.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/config.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "train/grad_tree.h"
#include "train/log.h"
#include "train/state.h"

enum { ROWS_APART = 20 }; /* parts that do not say their first row have less than 2^20 each */

struct fv_trainer {
    fv_ctx *ctx;
    fv_params *params;
    fv_task task;
    fv_train_config cfg;
    fv_optim *optim[FV_MAX_PHASES];
    fv_schedule schedule[FV_MAX_PHASES];
    int phases;
    fv_train_log log;
    fv_progress progress;
    uint64_t saved_step; /* of the newest state on disk */
    int64_t saved_phase;
    bool has_saved;
    bool no_metrics; /* the task has nothing to evaluate on */
    /* of this process, for rates */
    double started, window_start, rate;
    uint64_t started_step, window_tokens;
    double epoch, lr, grad_norm;
};

static double now(void)
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

fv_status fv_trainer_create(fv_params *params, const fv_task *task, const fv_train_config *given,
                            fv_trainer **out)
{
    fv_ctx *ctx = params->ctx;
    fv_train_config full, *cfg = &full;
    fv_train_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given), ctx, FV_ERR_ARGUMENT,
                 "train: the config is not initialised");
    FV_RETURN_IF(!task->begin || !task->loss || cfg->keep < 1 || cfg->keep >= FV_MAX_STATES, ctx,
                 FV_ERR_ARGUMENT,
                 "train: expected a task with begin and loss, and keep from 1 to %d",
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
    fv_status status = FV_OK;
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
    for (int phase = 0; phase < FV_MAX_PHASES; phase++)
        fv_optim_destroy(&t->optim[phase]);
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
    *trainer_ptr = NULL;
}

uint64_t fv_trainer_steps(const fv_trainer *t) { return t->progress.step; }
double fv_trainer_best(const fv_trainer *t) { return t->progress.best; }

/* ---- events ----------------------------------------------------------------------- */

static fv_train_event event_of(const fv_trainer *t, fv_train_event_kind kind)
{
    const fv_progress *p = &t->progress;
    const double spent = now() - t->started;
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

static void notify(const fv_trainer *t, const fv_train_event *event)
{
    if (t->cfg.observe) t->cfg.observe(t->cfg.observe_user, event);
}

static void notify_kind(const fv_trainer *t, fv_train_event_kind kind, const char *text)
{
    fv_train_event e = event_of(t, kind);
    e.text = text;
    notify(t, &e);
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

/* In between, ops ignore the cancel flag. */
static const volatile int *begin_uncancelled(fv_ctx *ctx)
{
    const volatile int *cancel = ctx->cancel;
    ctx->cancel = NULL;
    begin_aside(ctx);
    return cancel;
}

static void end_uncancelled(fv_ctx *ctx, const volatile int *cancel)
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
    p.seconds += now() - t->started;
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
    const volatile int *cancel = begin_uncancelled(t->ctx);
    fv_status status = save_with(t, extra);
    /* Before the first evaluation these are the best weights: the folder can be opened. */
    if (status == FV_OK && isnan(t->progress.best)) status = save_weights(t);
    end_uncancelled(t->ctx, cancel);
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
    const volatile int *cancel = begin_uncancelled(t->ctx);
    fv_status status = fv_state_load(t->cfg.folder, step, &parts, &t->progress);
    if (status == FV_OK && t->task.set_position)
        status = t->task.set_position(t->task.user, t->progress.position);
    if (status == FV_OK && t->task.set_state) status = t->task.set_state(t->task.user, extra);
    /* An older state may still be good: the error must not stick. */
    if (t->ctx->error != FV_OK) status = fv_ctx_take_error(t->ctx);
    end_uncancelled(t->ctx, cancel);
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
            t->started = now();
            t->started_step = t->progress.step;
            notify_kind(t, FV_TRAIN_RESUMED, NULL);
            return FV_OK;
        }
        if (status == FV_ERR_MEMORY || i == 0) return status;
        notify_kind(t, FV_TRAIN_BAD_STATE, fv_ctx_message(t->ctx));
    }
    return FV_OK;
}

/* ---- one step --------------------------------------------------------------------- */

static fv_status one_part(fv_trainer *t, int phase, int64_t part, double tokens, double *sum)
{
    fv_ctx *ctx = t->ctx;
    fv_scope_begin(ctx);
    double value = 0;
    fv_tensor *loss = t->task.loss(t->task.user, ctx, phase, part);
    fv_status status = fv_tensor_item(ctx, loss, &value);
    if (status == FV_OK) status = fv_backward(ctx, fv_scale(ctx, loss, 1.0 / tokens));
    fv_scope_end(ctx);
    *sum += value;
    return status;
}

/* Phases of a step draw from steps of their own, so that their dropout differs. */
static uint64_t drawing_step(const fv_trainer *t, int phase)
{
    return t->progress.step * (uint64_t)t->phases + (uint64_t)phase;
}

static fv_status begin_phase(fv_trainer *t, int phase, fv_step_plan *plan)
{
    fv_ctx_set_step(t->ctx, drawing_step(t, phase), 0);
    fv_no_grad_begin(t->ctx);
    const fv_status status = t->task.begin(t->task.user, t->progress.step, phase, plan);
    fv_no_grad_end(t->ctx);
    FV_TRY(status);
    t->epoch = plan->epoch;
    FV_RETURN_IF(plan->parts < 1 || !(plan->tokens > 0), t->ctx, FV_ERR_ARGUMENT,
                 "train: step %llu has %lld parts and %g tokens; both must be positive",
                 (unsigned long long)t->progress.step, (long long)plan->parts, plan->tokens);
    return FV_OK;
}

/* What a part draws depends on its number and its rows, not on what was computed before it. */
static void set_draws(fv_trainer *t, int phase, const fv_step_plan *plan, int64_t part)
{
    const int64_t first = plan->first_row ? plan->first_row[part] : part << ROWS_APART;
    fv_ctx_set_step(t->ctx, drawing_step(t, phase), (uint64_t)first);
}

static fv_status all_parts(fv_trainer *t, int phase, double *tokens, double *loss)
{
    fv_step_plan plan = {.parts = 1};
    fv_grad_tree tree = {.params = t->params};
    double sum = 0;
    FV_TRY(begin_phase(t, phase, &plan));
    fv_status status = FV_OK;
    for (int64_t part = 0; part < plan.parts && status == FV_OK; part++) {
        set_draws(t, phase, &plan, part);
        status = one_part(t, phase, part, plan.tokens, &sum);
        if (status == FV_OK && plan.parts > 1) status = fv_grad_tree_add(&tree, part);
    }
    if (status == FV_OK && plan.parts > 1) status = fv_grad_tree_finish(&tree);
    fv_grad_tree_free(&tree);
    *tokens = plan.tokens;
    *loss = sum / plan.tokens;
    return status;
}

static void count_step(fv_trainer *t)
{
    fv_progress *p = &t->progress;
    const double tokens = p->part.tokens, loss = p->part.loss;
    p->step++;
    p->tokens += (uint64_t)tokens;
    t->grad_norm = p->part.grad_norm;
    if (p->part.skipped) p->skipped++;
    /* A running mean that starts as the plain one: recent losses, without the first step's weight.
     */
    const double share = 1.0 / (p->step < 100 ? (double)p->step : 100.0);
    if (isfinite(loss)) p->loss = isnan(p->loss) ? loss : p->loss + share * (loss - p->loss);
    t->window_tokens += (uint64_t)tokens;
    const double spent = now() - t->window_start;
    if (spent > 1.0 || t->rate == 0) {
        t->rate = spent > 0 ? (double)t->window_tokens / spent : 0;
        if (spent > 1.0) {
            t->window_start += spent;
            t->window_tokens = 0;
        }
    }
}

/* The phase's update, and what the task and the model move forward after it. */
static fv_status update(fv_trainer *t, int phase, fv_step_report *report)
{
    const double lr = fv_schedule_at(&t->schedule[phase], t->progress.step);
    const volatile int *cancel = begin_uncancelled(t->ctx);
    fv_status status = fv_optim_step(t->optim[phase], lr, report);
    if (status == FV_OK && t->task.end) status = t->task.end(t->task.user, t->progress.step, phase);
    if (status == FV_OK) status = t->ctx->error;
    end_uncancelled(t->ctx, cancel);
    return status;
}

/* Losses of phases are added up; tokens and gradients of the first one count. */
static void count_phase(fv_trainer *t, int phase, double tokens, double loss,
                        const fv_step_report *report)
{
    fv_partial *part = &t->progress.part;
    if (phase == 0) *part = (fv_partial){.tokens = tokens, .grad_norm = report->grad_norm};
    part->loss += loss;
    part->skipped = part->skipped || report->skipped;
    t->progress.phase = phase + 1;
}

static fv_status one_phase(fv_trainer *t, int phase)
{
    int64_t *position = t->progress.position;
    double tokens = 0, loss = 0;
    fv_step_report report = {.grad_norm = 0};
    if (t->task.get_position) t->task.get_position(t->task.user, position);
    fv_scope_begin(t->ctx);
    const fv_status status = all_parts(t, phase, &tokens, &loss);
    fv_scope_end(t->ctx);
    FV_TRY(status);
    FV_TRY(update(t, phase, &report));
    if (t->task.get_position) t->task.get_position(t->task.user, position);
    count_phase(t, phase, tokens, loss, &report);
    return FV_OK;
}

/* The phases that are still to do. */
static fv_status one_step(fv_trainer *t)
{
    t->lr = fv_schedule_at(&t->schedule[0], t->progress.step);
    while (t->progress.phase < t->phases)
        FV_TRY(one_phase(t, (int)t->progress.phase));
    const bool skipped = t->progress.part.skipped;
    count_step(t);
    t->progress.phase = 0;
    t->progress.part = (fv_partial){.tokens = 0};
    if (skipped) notify_kind(t, FV_TRAIN_SKIPPED, NULL);
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
    fv_train_event e = event_of(t, FV_TRAIN_EVALUATED);
    e.metrics = metrics;
    e.metric_count = count;
    e.improved = better(t, &metrics[0]);
    t->progress.since_best = e.improved ? 0 : t->progress.since_best + 1;
    if (e.improved) {
        t->progress.best = metrics[0].value;
        FV_TRY(save_weights(t));
    }
    FV_TRY(fv_train_log_add(&t->log, &e));
    notify(t, &e);
    FV_TRY(show_samples(t));
    *stop = t->cfg.patience > 0 && t->progress.since_best >= t->cfg.patience;
    return FV_OK;
}

static bool due(uint64_t step, uint64_t every, uint64_t last)
{
    return step == last || (every > 0 && step % every == 0);
}

/* ---- the loop --------------------------------------------------------------------- */

static fv_status after_step(fv_trainer *t, bool *stop)
{
    const fv_train_config *cfg = &t->cfg;
    const uint64_t step = t->progress.step;
    const fv_train_event e = event_of(t, FV_TRAIN_STEP);
    if (due(step, cfg->log_every, cfg->steps)) FV_TRY(fv_train_log_add(&t->log, &e));
    notify(t, &e);
    if (due(step, cfg->eval_every, cfg->steps)) FV_TRY(evaluate(t, stop));
    const bool requested = cfg->save_request && *cfg->save_request;
    if (requested) *cfg->save_request = 0;
    if (due(step, cfg->save_every, cfg->steps) || *stop || requested) FV_TRY(save(t));
    return FV_OK;
}

static fv_status run_steps(fv_trainer *t)
{
    bool stop = false;
    const uint64_t step = t->progress.step;
    const bool missed = step > 0 && t->progress.phase == 0 && t->progress.evaluated != step;
    if (missed && due(step, t->cfg.eval_every, t->cfg.steps)) {
        FV_TRY(evaluate(t, &stop));
        /* The state of this step does not know the result yet. */
        t->has_saved = t->has_saved && t->progress.evaluated != step;
        if (due(step, t->cfg.save_every, t->cfg.steps) || stop) FV_TRY(save(t));
    }
    while (t->progress.step < t->cfg.steps && !stop) {
        if (fv_cancelled(t->ctx)) return FV_ERR_CANCELLED;
        FV_TRY(one_step(t));
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
    FV_TRY(save(t));
    return fv_fail(t->ctx, FV_ERR_CANCELLED, "interrupted after %llu steps",
                   (unsigned long long)t->progress.step);
}

fv_status fv_trainer_run(fv_trainer *t)
{
    t->started = t->window_start = now();
    t->started_step = t->progress.step;
    if (t->task.get_position) t->task.get_position(t->task.user, t->progress.position);
    const fv_dtype compute = fv_ctx_compute(t->ctx);
    FV_TRY(fv_ctx_set_compute(t->ctx, t->cfg.compute));
    fv_status status = fv_train_log_open(t->ctx, t->cfg.folder, t->progress.step, &t->log);
    if (status == FV_OK) status = run_steps(t);
    t->ctx->compute = (int)compute;
    if (status == FV_ERR_CANCELLED) status = save_cancelled(t);
    t->progress.seconds += now() - t->started;
    fv_train_log_close(&t->log);
    return status;
}

/* Launches the phases of a step, and settles them: counts, logs and reports what became of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "train/grad_tree.h"
#include "train/trainer.h"

enum { ROWS_APART = 20 }; /* parts that do not say their first row have less than 2^20 each */

static bool is_launched(const fv_trainer *t) { return t->launched.first < t->launched.end; }

static bool is_complete(const fv_trainer *t) { return t->launched.end == t->phases; }

uint64_t fv_trainer_next_step(const fv_trainer *t)
{
    return t->progress.step + (is_launched(t) && is_complete(t));
}

/* ---- gradients ----------------------------------------------------------------------- */

/* One phase of one step. */
typedef struct phase_run {
    uint64_t step;
    int phase;
    fv_step_plan plan;
} phase_run;

static fv_status one_part(fv_trainer *t, const phase_run *run, int64_t part)
{
    fv_ctx *ctx = t->ctx;
    fv_scope_begin(ctx);
    fv_tensor *loss = t->task.loss(t->task.user, ctx, run->phase, part);
    fv_step_block_add_loss(ctx, t->block[run->phase], loss);
    fv_status status = ctx->error;
    if (status == FV_OK) status = fv_backward(ctx, fv_scale(ctx, loss, 1.0 / run->plan.tokens));
    fv_scope_end(ctx);
    return status;
}

/* Phases of a step draw from steps of their own, so that their dropout differs. */
static uint64_t drawing_step(const fv_trainer *t, const phase_run *run)
{
    return run->step * (uint64_t)t->phases + (uint64_t)run->phase;
}

static fv_status begin_phase(fv_trainer *t, phase_run *run)
{
    fv_step_plan *plan = &run->plan;
    fv_ctx_set_step(t->ctx, drawing_step(t, run), 0);
    fv_no_grad_begin(t->ctx);
    const fv_status status = t->task.begin(t->task.user, run->step, run->phase, plan);
    fv_no_grad_end(t->ctx);
    FV_TRY(status);
    FV_RETURN_IF(plan->parts < 1 || !(plan->tokens > 0), t->ctx, FV_ERR_ARGUMENT,
                 "train: step %llu has %lld parts and %g tokens; both must be positive",
                 (unsigned long long)run->step, (long long)plan->parts, plan->tokens);
    fv_step_block_clear(t->ctx, t->block[run->phase]);
    return FV_OK;
}

/* What a part draws depends on its number and its rows, not on what was computed before it. */
static void set_draws(fv_trainer *t, const phase_run *run, int64_t part)
{
    const int64_t *rows = run->plan.first_row;
    const int64_t first = rows ? rows[part] : part << ROWS_APART;
    fv_ctx_set_step(t->ctx, drawing_step(t, run), (uint64_t)first);
}

static fv_status all_parts(fv_trainer *t, phase_run *run)
{
    fv_grad_tree tree = {.params = t->params};
    FV_TRY(begin_phase(t, run));
    if (t->task.update) return FV_OK;
    const int64_t parts = run->plan.parts;
    fv_status status = FV_OK;
    for (int64_t part = 0; part < parts && status == FV_OK; part++) {
        set_draws(t, run, part);
        status = one_part(t, run, part);
        if (status == FV_OK && parts > 1) status = fv_grad_tree_add(&tree, part);
    }
    if (status == FV_OK && parts > 1) status = fv_grad_tree_finish(&tree);
    fv_grad_tree_free(&tree);
    return status;
}

/* ---- launching ----------------------------------------------------------------------- */

/* A kernel's fault says which op met it; this says in which step (the first one is 1). */
static fv_status name_step(fv_trainer *t, uint64_t step, fv_status status)
{
    char text[FV_MESSAGE_BYTES];
    if (status != FV_ERR_INDEX || t->ctx->error != status) return status;
    snprintf(text, sizeof text, "train: step %llu: %.300s", (unsigned long long)step + 1,
             t->ctx->message);
    memcpy(t->ctx->message, text, sizeof text);
    return status;
}

/* The update of a task that makes it itself: the step's loss comes with it. */
static fv_status update_by_task(fv_trainer *t, const phase_run *run, double lr)
{
    fv_ctx_set_step(t->ctx, drawing_step(t, run), 0);
    fv_step_block_add_loss(t->ctx, t->block[run->phase],
                           t->task.update(t->task.user, t->ctx, run->step, run->phase, lr));
    return t->ctx->error;
}

/* The phase's update, and what the task and the model move forward after it. */
static fv_status update(fv_trainer *t, const phase_run *run)
{
    const int phase = run->phase;
    const double lr = fv_schedule_at(&t->schedule[phase], run->step);
    const volatile int *cancel = fv_trainer_begin_uncancelled(t->ctx);
    fv_status status = fv_optim_launch(t->optim[phase], lr, t->block[phase]);
    if (status == FV_OK && t->task.update) status = update_by_task(t, run, lr);
    if (status == FV_OK) fv_params_zero_grad(t->params);
    if (status == FV_OK && t->task.end) status = t->task.end(t->task.user, run->step, phase);
    if (status == FV_OK) status = t->ctx->error;
    if (status != FV_OK) (void)fv_optim_settle(t->optim[phase], NULL, NULL);
    fv_trainer_end_uncancelled(t->ctx, cancel);
    return status;
}

static void add_launched(fv_trainer *t, const phase_run *run)
{
    fv_launched *l = &t->launched;
    if (!is_launched(t)) *l = (fv_launched){.first = run->phase, .step = run->step};
    l->end = run->phase + 1;
    l->epoch = run->plan.epoch;
    l->lr = fv_schedule_at(&t->schedule[0], run->step);
    l->tokens[run->phase] = run->plan.tokens;
    if (t->task.get_position) t->task.get_position(t->task.user, l->position[run->phase]);
}

static fv_status one_phase(fv_trainer *t, uint64_t step, int phase)
{
    phase_run run = {.step = step, .phase = phase, .plan = {.parts = 1}};
    if (t->task.get_position && !is_launched(t))
        t->task.get_position(t->task.user, t->progress.position);
    fv_scope_begin(t->ctx);
    const fv_status status = all_parts(t, &run);
    fv_scope_end(t->ctx);
    FV_TRY(name_step(t, step, status));
    if (is_launched(t) && is_complete(t)) {
        FV_TRY(fv_trainer_settle(t, true));
        if (fv_cancelled(t->ctx)) return FV_ERR_CANCELLED;
    }
    FV_TRY(update(t, &run));
    add_launched(t, &run);
    return FV_OK;
}

fv_status fv_trainer_launch(fv_trainer *t)
{
    const uint64_t step = fv_trainer_next_step(t);
    const bool afresh = step != t->progress.step;
    for (int phase = afresh ? 0 : (int)t->progress.phase; phase < t->phases; phase++)
        FV_TRY(one_phase(t, step, phase));
    return fv_later_begin(t->ctx, t->blocks, &t->launched.record);
}

/* ---- settling ------------------------------------------------------------------------ */

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
    const double spent = fv_trainer_clock() - t->window_start;
    if (spent > 1.0 || t->rate == 0) {
        t->rate = spent > 0 ? (double)t->window_tokens / spent : 0;
        if (spent > 1.0) {
            t->window_start += spent;
            t->window_tokens = 0;
        }
    }
}

/* Losses of phases are added up; tokens and gradients of the first one count. */
static void count_phase(fv_trainer *t, const fv_launched *l, int phase, const fv_step_block *record,
                        const fv_step_report *report)
{
    fv_partial *part = &t->progress.part;
    if (phase == 0) *part = (fv_partial){.tokens = l->tokens[0], .grad_norm = report->grad_norm};
    part->loss += record->loss / l->tokens[phase];
    part->skipped = part->skipped || report->skipped;
    t->progress.phase = phase + 1;
    if (t->task.get_position)
        memcpy(t->progress.position, l->position[phase], sizeof t->progress.position);
}

static fv_status finish_step(fv_trainer *t, const fv_launched *l)
{
    const bool skipped = t->progress.part.skipped;
    t->epoch = l->epoch;
    t->lr = l->lr;
    count_step(t);
    t->progress.phase = 0;
    t->progress.part = (fv_partial){.tokens = 0};
    if (skipped) {
        const fv_train_event e = fv_trainer_event(t, FV_TRAIN_SKIPPED);
        fv_trainer_notify(t, &e);
    }
    const fv_train_event e = fv_trainer_event(t, FV_TRAIN_STEP);
    if (fv_trainer_due(t->progress.step, t->cfg.log_every, t->cfg.steps))
        FV_TRY(fv_train_log_add(&t->log, &e));
    fv_trainer_notify(t, &e);
    return FV_OK;
}

/* What became of phase number `phase`; records is NULL where that is unknown. */
static fv_status settle_phase(fv_trainer *t, const fv_launched *l, int phase,
                              const fv_step_block *records)
{
    fv_step_report report;
    if (!records) return fv_optim_settle(t->optim[phase], NULL, NULL);
    FV_TRY(fv_optim_settle(t->optim[phase], &records[phase], &report));
    count_phase(t, l, phase, &records[phase], &report);
    return FV_OK;
}

fv_status fv_trainer_settle(fv_trainer *t, bool wait)
{
    fv_step_block records[FV_MAX_PHASES];
    bool done = false;
    if (!is_launched(t)) return FV_OK;
    fv_later *later = &t->launched.record;
    fv_status status = FV_OK;
    if (fv_later_is_none(later)) status = fv_later_begin(t->ctx, t->blocks, later);
    if (status == FV_OK)
        status =
            fv_later_end(t->ctx, later, wait, records, (size_t)t->phases * sizeof *records, &done);
    if (status == FV_OK && !done) return FV_OK;
    status = name_step(t, t->launched.step, status);
    const fv_launched l = t->launched;
    t->launched = (fv_launched){.first = 0};
    for (int phase = l.first; phase < l.end; phase++) {
        const fv_status settled = settle_phase(t, &l, phase, status == FV_OK ? records : NULL);
        if (status == FV_OK) status = settled;
    }
    if (status == FV_OK && t->progress.phase == t->phases) status = finish_step(t, &l);
    return status;
}

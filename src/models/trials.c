#include "models/trials.h"

#include <math.h>

#include "base/checked_math.h"
#include "fovea/autograd.h"
#include "tensor/tensor.h"

#define ACTION_SITE 0x61637473u

/* ---- memory --------------------------------------------------------------------------------- */

static void *take(char **at, size_t count, size_t size)
{
    void *place = *at;
    *at += (count * size + 7) / 8 * 8;
    return place;
}

static fv_status make_room(fv_trials *t)
{
    enum { NUMBERS = 2, REALS = 6, COUNTS = 2, ARRAYS = 18 };
    const size_t trials = (size_t)t->capacity, steps = (size_t)t->steps, inputs = (size_t)t->inputs,
                 actions = (size_t)t->cfg.actions;
    const size_t step = NUMBERS * sizeof(int64_t) + (REALS + inputs + actions) * sizeof(float);
    const size_t once = sizeof(fv_problem) + sizeof(double) + COUNTS * actions * sizeof(int64_t) +
                        (inputs + actions + 1) * sizeof(float);
    size_t each = 0;
    const bool fits = fv_checked_mul_size(steps, step, &each) &&
                      fv_checked_add_size(each, once, &each) &&
                      fv_checked_mul_size(trials, each, &t->bytes) &&
                      fv_checked_add_size(t->bytes, ARRAYS * sizeof(int64_t), &t->bytes);
    t->room = fits ? fv_mem_zalloc(&t->ctx->mem, t->bytes) : NULL;
    FV_RETURN_IF(!t->room, t->ctx, FV_ERR_MEMORY, "no memory for %lld trials",
                 (long long)t->capacity);
    char *at = t->room;
    t->problem = take(&at, trials, sizeof *t->problem);
    t->total = take(&at, trials, sizeof *t->total);
    t->action = take(&at, trials * steps, sizeof *t->action);
    t->state = take(&at, trials * steps, sizeof *t->state);
    t->pulls = take(&at, trials * actions, sizeof *t->pulls);
    t->wins = take(&at, trials * actions, sizeof *t->wins);
    t->observed = take(&at, trials * steps * inputs, sizeof(float));
    t->reward = take(&at, trials * steps, sizeof(float));
    t->expected = take(&at, trials * steps, sizeof(float));
    t->regret = take(&at, trials * steps, sizeof(float));
    t->mean_regret = take(&at, trials * steps, sizeof(float));
    t->regrets = take(&at, trials * steps * actions, sizeof(float));
    t->value = take(&at, trials * steps, sizeof(float));
    t->log_p = take(&at, trials * steps, sizeof(float));
    t->now = take(&at, trials * inputs, sizeof(float));
    t->logits = take(&at, trials * actions, sizeof(float));
    t->values = take(&at, trials, sizeof(float));
    return FV_OK;
}

fv_status fv_trials_create(fv_model *model, const fv_trial_config *cfg, int64_t capacity,
                           fv_trials *out)
{
    fv_ctx *ctx = model->ctx;
    const fv_snail_player *p = fv_snail_player_of(model);
    FV_RETURN_IF(!p, ctx, FV_ERR_UNSUPPORTED, "a %s model plays no trials", model->type);
    FV_RETURN_IF(p->cfg.kind != cfg->kind || p->cfg.actions != cfg->actions ||
                     p->cfg.states != cfg->states || p->cfg.horizon != cfg->horizon ||
                     p->cfg.episodes != cfg->episodes,
                 ctx, FV_ERR_FORMAT, "the model plays trials of other sizes");
    *out = (fv_trials){.ctx = ctx,
                       .player = p,
                       .cfg = *cfg,
                       .capacity = capacity,
                       .steps = fv_trial_steps(cfg),
                       .inputs = p->inputs};
    FV_TRY(make_room(out));
    for (int64_t i = 0; i < capacity; i++)
        FV_TRY(fv_problem_create(ctx, cfg, &out->problem[i]));
    return FV_OK;
}

void fv_trials_free(fv_trials *t)
{
    for (int64_t i = 0; t->room && i < t->capacity; i++)
        fv_problem_free(&t->problem[i]);
    if (t->room) fv_mem_free(&t->ctx->mem, t->room, t->bytes);
    t->room = NULL;
}

/* ---- actions -------------------------------------------------------------------------------- */

static double log_sum(const float *logits, int64_t n, float highest)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)(logits[i] - highest));
    return (double)highest + log(sum);
}

/* The most probable action, or one drawn with u in [0, 1); *log_p: of it. */
static int64_t choose(const float *logits, int64_t n, bool draw, double u, float *log_p)
{
    int64_t best = 0, drawn = -1;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    const double all = log_sum(logits, n, logits[best]);
    for (int64_t i = 0; draw && i < n && drawn < 0; i++)
        if ((u -= exp((double)logits[i] - all)) < 0) drawn = i;
    if (drawn >= 0) best = drawn;
    *log_p = (float)((double)logits[best] - all);
    return best;
}

static double chance_of(const fv_trials *t, const fv_trials_how *how, int64_t number, int64_t run,
                        int64_t step)
{
    uint32_t word[4];
    fv_rng_draw(fv_rng_key(t->cfg.seed, how->step, ACTION_SITE), (uint64_t)number,
                (uint64_t)run * FV_TRIAL_MAX_STEPS + (uint64_t)step, word);
    return (double)fv_rng_unit(word[0]);
}

/* What every trial sees before a step. */
static void observe(const fv_trials *t, int64_t count, int64_t step)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i * t->steps + step;
        float *x = t->observed + at * t->inputs;
        fv_trial_observe(&t->cfg, step, step ? t->state[at - 1] : 0, step ? t->action[at - 1] : -1,
                         step ? (double)t->reward[at - 1] : 0, t->state[at], x);
        for (int64_t k = 0; k < t->inputs; k++)
            t->now[i * t->inputs + k] = x[k];
    }
}

/* What each action would cost in a step, what the action taken did, and the mean over the
 * policy. */
static void note_regrets(fv_trials *t, int64_t trial, int64_t step, bool knowledge)
{
    const int64_t at = trial * t->steps + step, actions = t->cfg.actions;
    const int64_t place = step % t->cfg.horizon * t->cfg.states + t->state[at];
    const double *regret = t->problem[trial].regret + place * actions;
    double cost[FV_TRIAL_MAX_ACTIONS];
    if (knowledge) {
        fv_bandit_costs(actions, t->pulls + trial * actions, t->wins + trial * actions,
                        t->steps - 1 - step, cost);
        regret = cost;
    }
    const float *logits = t->logits + trial * actions;
    float highest = logits[0];
    for (int64_t a = 1; a < actions; a++)
        if (logits[a] > highest) highest = logits[a];
    const double all = log_sum(logits, actions, highest);
    double mean = 0;
    for (int64_t a = 0; a < actions; a++) {
        mean += exp((double)logits[a] - all) * regret[a];
        t->regrets[at * actions + a] = (float)regret[a];
    }
    t->mean_regret[at] = (float)mean;
    t->regret[at] = (float)regret[t->action[at]];
}

static void act(fv_trials *t, const fv_trials_how *how, int64_t step)
{
    const int64_t runs = how->runs > 0 ? how->runs : 1, actions = t->cfg.actions;
    for (int64_t i = 0; i < how->count; i++) {
        const int64_t at = i * t->steps + step, run = i % runs;
        const fv_problem *p = &t->problem[i];
        const double u = how->draw ? chance_of(t, how, p->number, run, step) : 0;
        t->action[at] = choose(t->logits + i * actions, actions, how->draw, u, &t->log_p[at]);
        const fv_outcome o = fv_problem_act(p, run, step, t->state[at], t->action[at]);
        t->reward[at] = (float)o.reward;
        t->expected[at] = (float)o.expected;
        t->value[at] = t->values[i];
        t->total[i] += o.expected;
        note_regrets(t, i, step, how->knowledge);
        if (how->knowledge) {
            t->pulls[i * actions + t->action[at]]++;
            t->wins[i * actions + t->action[at]] += o.reward > 0;
        }
        if (step + 1 < t->steps) t->state[at + 1] = o.next;
    }
}

static fv_status ask(fv_trials *t, fv_snail_player_state *state, int64_t count)
{
    fv_ctx *ctx = t->ctx;
    fv_tensor *logits, *values;
    fv_scope_begin(ctx);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, (int64_t[]){count, t->inputs}, t->now);
    fv_snail_player_step(ctx, t->player, state, x, &logits, &values);
    fv_status status =
        fv_tensor_read(ctx, logits, t->logits, (size_t)(count * t->cfg.actions) * sizeof(float));
    if (status == FV_OK)
        status = fv_tensor_read(ctx, values, t->values, (size_t)count * sizeof(float));
    fv_scope_end(ctx);
    return status;
}

fv_status fv_trials_play(fv_trials *t, const fv_trials_how *how)
{
    const int64_t runs = how->runs > 0 ? how->runs : 1;
    fv_status status = FV_OK;
    FV_RETURN_IF(how->knowledge && t->cfg.kind != FV_TRIAL_BANDIT, t->ctx, FV_ERR_ARGUMENT,
                 "trials: costs with knowledge are those of bandits");
    FV_RETURN_IF(how->count > t->capacity, t->ctx, FV_ERR_ARGUMENT,
                 "trials: %lld at once, expected at most %lld", (long long)how->count,
                 (long long)t->capacity);
    for (int64_t i = 0; i < how->count; i++) {
        fv_problem_draw(&t->problem[i], how->part, how->first + i / runs);
        t->total[i] = 0;
        t->state[i * t->steps] = 0;
        for (int64_t a = 0; a < t->cfg.actions; a++)
            t->pulls[i * t->cfg.actions + a] = t->wins[i * t->cfg.actions + a] = 0;
    }
    fv_snail_player_state state;
    fv_scope_begin(t->ctx);
    fv_snail_player_begin(t->ctx, t->player, how->count, &state);
    for (int64_t step = 0; step < t->steps && status == FV_OK; step++) {
        observe(t, how->count, step);
        status = ask(t, &state, how->count);
        if (status == FV_OK) act(t, how, step);
    }
    fv_scope_end(t->ctx);
    return status;
}

#include "data/problems.h"

#include <math.h>

#include "base/checked_math.h"
#include "base/ctx.h"

#define PROBLEM_SITE 0x70726f62u
#define OUTCOME_SITE 0x6f757463u

static const double TURN = 6.283185307179586;

fv_status fv_trial_check(fv_ctx *ctx, const fv_trial_config *cfg)
{
    const bool bandit = cfg->kind == FV_TRIAL_BANDIT;
    FV_RETURN_IF((!bandit && cfg->kind != FV_TRIAL_MDP) || cfg->actions < 2 ||
                     cfg->actions > FV_TRIAL_MAX_ACTIONS || cfg->states < 1 ||
                     cfg->states > FV_TRIAL_MAX_STATES || cfg->horizon < 1 || cfg->episodes < 1 ||
                     cfg->horizon > FV_TRIAL_MAX_STEPS ||
                     cfg->episodes > FV_TRIAL_MAX_STEPS / cfg->horizon ||
                     (bandit && (cfg->states > 1 || cfg->horizon > 1)),
                 ctx, FV_ERR_ARGUMENT,
                 "trials: %lld actions, %lld states, %lld episodes of %lld steps, expected 2 to %d "
                 "actions, at most %d states and %d steps; of bandits 1 state, episodes of 1 step",
                 (long long)cfg->actions, (long long)cfg->states, (long long)cfg->episodes,
                 (long long)cfg->horizon, FV_TRIAL_MAX_ACTIONS, FV_TRIAL_MAX_STATES,
                 FV_TRIAL_MAX_STEPS);
    return FV_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

static size_t bytes_of(const fv_trial_config *cfg)
{
    return (size_t)(cfg->states * cfg->actions * (1 + cfg->states)) * sizeof(double);
}

fv_status fv_problem_create(fv_ctx *ctx, const fv_trial_config *cfg, fv_problem *out)
{
    *out = (fv_problem){.ctx = ctx};
    FV_TRY(fv_trial_check(ctx, cfg));
    double *room = fv_mem_zalloc(&ctx->mem, bytes_of(cfg));
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for a problem");
    *out = (fv_problem){
        .ctx = ctx, .cfg = *cfg, .mean = room, .chance = room + cfg->states * cfg->actions};
    return FV_OK;
}

void fv_problem_free(fv_problem *p)
{
    if (p->mean) fv_mem_free(&p->ctx->mem, p->mean, bytes_of(&p->cfg));
    p->mean = NULL;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* Normal with variance 1, of two numbers in [0, 1) (Box and Muller). */
static double normal(double u, double v) { return sqrt(-2 * log(1 - u)) * cos(TURN * v); }

/* A flat Dirichlet distribution: exponential numbers, divided by their sum. */
static void draw_chances(fv_draws *d, int64_t n, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += out[i] = -log(1 - fv_draws_unit(d)) + 1e-12;
    for (int64_t i = 0; i < n; i++)
        out[i] /= sum;
}

void fv_problem_draw(fv_problem *p, fv_game_part part, int64_t number)
{
    const fv_trial_config *c = &p->cfg;
    fv_draws d =
        fv_draws_begin(fv_rng_key(c->seed, (uint64_t)part, PROBLEM_SITE), (uint64_t)number);
    p->part = part;
    p->number = number;
    for (int64_t i = 0; i < c->states * c->actions; i++) {
        const double u = fv_draws_unit(&d);
        p->mean[i] = c->kind == FV_TRIAL_BANDIT ? u : 1 + normal(u, fv_draws_unit(&d));
        draw_chances(&d, c->states, p->chance + i * c->states);
    }
}

fv_outcome fv_problem_act(const fv_problem *p, int64_t run, int64_t t, int64_t state,
                          int64_t action)
{
    const fv_trial_config *c = &p->cfg;
    const double mean = p->mean[state * c->actions + action];
    const double *chance = p->chance + (state * c->actions + action) * c->states;
    const uint64_t when = (uint64_t)run * FV_TRIAL_MAX_STEPS + (uint64_t)t;
    uint32_t word[4];
    fv_rng_draw(fv_rng_key(c->seed, (uint64_t)p->part, OUTCOME_SITE), (uint64_t)p->number, when,
                word);
    const double u = (double)fv_rng_unit(word[0]), v = (double)fv_rng_unit(word[1]);
    fv_outcome o = {.expected = mean};
    o.reward = c->kind == FV_TRIAL_BANDIT ? (u < mean ? 1 : 0) : mean + normal(u, v);
    if ((t + 1) % c->horizon == 0) return o;
    double left = (double)fv_rng_unit(word[2]) - chance[0];
    while (left >= 0 && o.next + 1 < c->states)
        left -= chance[++o.next];
    return o;
}

/* ---- planning ------------------------------------------------------------------------------- */

void fv_problem_plan(const fv_trial_config *cfg, const double *mean, const double *chance,
                     double *value, int64_t *policy)
{
    const int64_t states = cfg->states, actions = cfg->actions;
    double *after = value, *now = value + states;
    for (int64_t s = 0; s < states; s++)
        after[s] = 0;
    for (int64_t left = cfg->horizon; left-- > 0;) {
        for (int64_t s = 0; s < states; s++) {
            double best = -INFINITY;
            for (int64_t a = 0; a < actions; a++) {
                const double *next = chance + (s * actions + a) * states;
                double q = mean[s * actions + a];
                for (int64_t k = 0; k < states; k++)
                    q += next[k] * after[k];
                if (q > best) {
                    best = q;
                    policy[left * states + s] = a;
                }
            }
            now[s] = best;
        }
        double *swap = after;
        after = now;
        now = swap;
    }
}

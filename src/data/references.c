/*
 * Policies that models are compared with (fovea/trial.h): each knows how its problems are drawn.
 */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "data/problems.h"

#define POLICY_SITE 0x706f6c69u

enum { INDEX_STEPS = 1000, INDEX_LONGEST = 256 };

/* What a policy has seen so far, and its room. */
typedef struct player {
    const fv_reference *reference;
    fv_problem problem;
    fv_draws draws;
    int64_t *count;   /* [states][actions] */
    double *sum;      /* [states][actions] of rewards */
    int64_t *next;    /* [states][actions][states]: how often it followed */
    double *mean;     /* [states][actions] of a draw from the posterior */
    double *chance;   /* [states][actions][states], likewise */
    double *value;    /* [2][states] */
    int64_t *planned; /* [horizon][states] */
    void *room;
    size_t bytes;
} player;

typedef struct policy {
    const char *name;
    int64_t (*act)(player *p, int64_t t, int64_t state);
} policy;

struct fv_reference {
    fv_ctx *ctx;
    fv_trial_config cfg;
    const policy *policy;
    float *index; /* [left - 1][pulls][successes], of gittins; NULL */
    size_t index_bytes;
};

/* ---- bandits -------------------------------------------------------------------------------- */

static int64_t act_random(player *p, int64_t t, int64_t state)
{
    (void)t;
    (void)state;
    return fv_draws_below(&p->draws, p->problem.cfg.actions);
}

/* The arm with the highest score, the first of equals. */
static int64_t act_by(player *p, int64_t t, double (*score)(player *p, int64_t arm, int64_t t))
{
    int64_t best = 0;
    double highest = -INFINITY;
    for (int64_t a = 0; a < p->problem.cfg.actions; a++) {
        const double s = score(p, a, t);
        if (s > highest) {
            highest = s;
            best = a;
        }
    }
    return best;
}

static double posterior_mean(player *p, int64_t arm, int64_t t)
{
    (void)t;
    return (p->sum[arm] + 1) / ((double)p->count[arm] + 2);
}

static double upper_bound(player *p, int64_t arm, int64_t t)
{
    const double n = (double)p->count[arm];
    return n > 0 ? p->sum[arm] / n + sqrt(2 * log((double)t) / n) : INFINITY;
}

/* Gamma with a whole shape: a sum of exponential numbers. */
static double draw_gamma(fv_draws *d, int64_t shape)
{
    double sum = 0;
    for (int64_t i = 0; i < shape; i++)
        sum -= log(1 - fv_draws_unit(d));
    return sum + 1e-12;
}

static double posterior_draw(player *p, int64_t arm, int64_t t)
{
    (void)t;
    const int64_t wins = (int64_t)p->sum[arm];
    const double a = draw_gamma(&p->draws, wins + 1),
                 b = draw_gamma(&p->draws, p->count[arm] - wins + 1);
    return a / (a + b);
}

static int64_t index_at(int64_t steps, int64_t left, int64_t pulls, int64_t wins)
{
    return ((left - 1) * steps + pulls) * steps + wins;
}

static double gittins_index(player *p, int64_t arm, int64_t t)
{
    const int64_t steps = fv_trial_steps(&p->problem.cfg);
    return (double)
        p->reference->index[index_at(steps, steps - t, p->count[arm], (int64_t)p->sum[arm])];
}

static double true_mean(player *p, int64_t arm, int64_t t)
{
    (void)t;
    return p->problem.mean[arm];
}

static int64_t act_greedy(player *p, int64_t t, int64_t state)
{
    (void)state;
    return act_by(p, t, posterior_mean);
}

static int64_t act_ucb(player *p, int64_t t, int64_t state)
{
    (void)state;
    return act_by(p, t, upper_bound);
}

static int64_t act_thompson(player *p, int64_t t, int64_t state)
{
    (void)state;
    return act_by(p, t, posterior_draw);
}

/* The arm with the lowest cost of fv_bandit_costs, the first of equals. */
static int64_t act_knowledge(player *p, int64_t t, int64_t state)
{
    const int64_t arms = p->problem.cfg.actions;
    int64_t wins[FV_TRIAL_MAX_ACTIONS], best = 0;
    double cost[FV_TRIAL_MAX_ACTIONS];
    (void)state;
    for (int64_t a = 0; a < arms; a++)
        wins[a] = (int64_t)p->sum[a];
    fv_bandit_costs(arms, p->count, wins, fv_trial_steps(&p->problem.cfg) - 1 - t, cost);
    for (int64_t a = 1; a < arms; a++)
        if (cost[a] < cost[best]) best = a;
    return best;
}

static int64_t act_gittins(player *p, int64_t t, int64_t state)
{
    (void)state;
    return act_by(p, t, gittins_index);
}

static int64_t act_best_arm(player *p, int64_t t, int64_t state)
{
    (void)state;
    return act_by(p, t, true_mean);
}

/* V of one more step left, from V of one less; both [pulls][successes]. Marks the index where
 * playing on is worth more than stopping. */
static void value_step(const fv_reference *r, int64_t steps, int64_t left, double pay,
                       const float *before, float *out)
{
    for (int64_t n = 0; n + left <= steps; n++)
        for (int64_t s = 0; s <= n; s++) {
            const double p = ((double)s + 1) / ((double)n + 2);
            double v = p - pay;
            if (left > 1)
                v += p * (double)before[(n + 1) * steps + s + 1] +
                     (1 - p) * (double)before[(n + 1) * steps + s];
            out[n * steps + s] = v > 0 ? (float)v : 0;
            if (v > 0) r->index[index_at(steps, left, n, s)] = (float)pay;
        }
}

static fv_status make_index(fv_reference *r)
{
    const int64_t steps = fv_trial_steps(&r->cfg), layer = steps * steps;
    fv_ctx *ctx = r->ctx;
    FV_RETURN_IF(steps > INDEX_LONGEST, ctx, FV_ERR_ARGUMENT,
                 "gittins: %lld pulls, expected at most %d", (long long)steps, (int)INDEX_LONGEST);
    const size_t bytes = 2 * (size_t)layer * sizeof(float);
    r->index_bytes = (size_t)(steps * layer) * sizeof(float);
    r->index = fv_mem_zalloc(&ctx->mem, r->index_bytes);
    float *value = fv_mem_zalloc(&ctx->mem, bytes);
    for (int i = 0; i < INDEX_STEPS && r->index && value; i++)
        for (int64_t left = 1; left <= steps; left++)
            value_step(r, steps, left, ((double)i + 0.5) / INDEX_STEPS,
                       value + (left % 2 ? layer : 0), value + (left % 2 ? 0 : layer));
    const bool made = r->index && value;
    if (value) fv_mem_free(&ctx->mem, value, bytes);
    FV_RETURN_IF(!made, ctx, FV_ERR_MEMORY, "no memory for indices of %lld pulls",
                 (long long)steps);
    return FV_OK;
}

/* ---- decision processes --------------------------------------------------------------------- */

static int64_t act_planned(player *p, int64_t t, int64_t state)
{
    const fv_trial_config *c = &p->problem.cfg;
    if (t == 0) fv_problem_plan(c, p->problem.mean, p->problem.chance, p->value, p->planned, NULL);
    return p->planned[t % c->horizon * c->states + state];
}

/* A problem from the posterior: Dirichlet(1 + counts), and normal with precision 1 + n. */
static void draw_problem(player *p)
{
    const fv_trial_config *c = &p->problem.cfg;
    for (int64_t i = 0; i < c->states * c->actions; i++) {
        const double n = (double)p->count[i] + 1, u = fv_draws_unit(&p->draws),
                     v = fv_draws_unit(&p->draws);
        double sum = 0;
        p->mean[i] =
            (p->sum[i] + 1) / n + sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v) / sqrt(n);
        for (int64_t k = 0; k < c->states; k++)
            sum += p->chance[i * c->states + k] =
                draw_gamma(&p->draws, 1 + p->next[i * c->states + k]);
        for (int64_t k = 0; k < c->states; k++)
            p->chance[i * c->states + k] /= sum;
    }
}

static int64_t act_psrl(player *p, int64_t t, int64_t state)
{
    const fv_trial_config *c = &p->problem.cfg;
    if (t % c->horizon == 0) {
        draw_problem(p);
        fv_problem_plan(c, p->mean, p->chance, p->value, p->planned, NULL);
    }
    return p->planned[t % c->horizon * c->states + state];
}

/* ---- the table ------------------------------------------------------------------------------ */

static const policy policies[2][8] = {
    {{"gittins", act_gittins},
     {"knowledge", act_knowledge},
     {"ucb", act_ucb},
     {"thompson", act_thompson},
     {"greedy", act_greedy},
     {"random", act_random},
     {"optimal", act_best_arm}},
    {{"psrl", act_psrl}, {"random", act_random}, {"optimal", act_planned}}};

const char *fv_reference_name(fv_trial_kind kind, int i)
{
    return kind <= FV_TRIAL_MDP && i >= 0 && i < 8 ? policies[kind][i].name : NULL;
}

fv_status fv_reference_create(fv_ctx *ctx, const fv_trial_config *cfg, const char *name,
                              fv_reference **out)
{
    FV_TRY(fv_trial_check(ctx, cfg));
    const policy *found = policies[cfg->kind];
    while (found->name && strcmp(found->name, name) != 0)
        found++;
    FV_RETURN_IF(!found->name, ctx, FV_ERR_ARGUMENT, "trials: there is no policy '%.40s' for %s",
                 name, cfg->kind == FV_TRIAL_BANDIT ? "bandits" : "decision processes");
    fv_reference *r = fv_mem_zalloc(&ctx->mem, sizeof *r);
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for a policy");
    *r = (fv_reference){.ctx = ctx, .cfg = *cfg, .policy = found};
    const fv_status status = found->act == act_gittins ? make_index(r) : FV_OK;
    if (status != FV_OK) fv_reference_destroy(&r);
    if (status == FV_OK) *out = r;
    return status;
}

void fv_reference_destroy(fv_reference **reference)
{
    fv_reference *r = *reference;
    if (!r) return;
    if (r->index) fv_mem_free(&r->ctx->mem, r->index, r->index_bytes);
    fv_mem_free(&r->ctx->mem, r, sizeof *r);
    *reference = NULL;
}

/* ---- playing -------------------------------------------------------------------------------- */

static fv_status begin(const fv_reference *r, player *p)
{
    const fv_trial_config *c = &r->cfg;
    const size_t pairs = (size_t)(c->states * c->actions), triples = pairs * (size_t)c->states;
    *p = (player){.reference = r};
    p->bytes = (2 * pairs + triples) * sizeof(double) + (pairs + triples) * sizeof(int64_t) +
               (size_t)(2 * c->states) * sizeof(double) +
               (size_t)(c->states * c->horizon) * sizeof(int64_t);
    p->room = fv_mem_zalloc(&r->ctx->mem, p->bytes);
    FV_RETURN_IF(!p->room, r->ctx, FV_ERR_MEMORY, "no memory for a trial");
    p->sum = p->room;
    p->mean = p->sum + pairs;
    p->chance = p->mean + pairs;
    p->value = p->chance + triples;
    p->count = (int64_t *)(p->value + 2 * c->states);
    p->next = p->count + pairs;
    p->planned = p->next + triples;
    return fv_problem_create(r->ctx, c, &p->problem);
}

fv_status fv_reference_play(const fv_reference *r, fv_game_part part, int64_t number,
                            double *reward)
{
    const fv_trial_config *c = &r->cfg;
    player p;
    double sum = 0;
    fv_status status = begin(r, &p);
    if (status == FV_OK) {
        fv_problem_draw(&p.problem, part, number);
        p.draws =
            fv_draws_begin(fv_rng_key(c->seed, (uint64_t)part, POLICY_SITE), (uint64_t)number);
        for (int64_t t = 0, state = 0; t < fv_trial_steps(c); t++) {
            const int64_t action = r->policy->act(&p, t, state), at = state * c->actions + action;
            const fv_outcome o = fv_problem_act(&p.problem, 0, t, state, action);
            sum += o.expected;
            p.count[at]++;
            p.sum[at] += o.reward;
            /* where an episode ends, nothing is learned about the next state */
            if ((t + 1) % c->horizon) p.next[at * c->states + o.next]++;
            state = o.next;
        }
        *reward = sum;
    }
    fv_problem_free(&p.problem);
    if (p.room) fv_mem_free(&r->ctx->mem, p.room, p.bytes);
    return status;
}

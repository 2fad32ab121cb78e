/*
 * Bandits and small decision processes (fovea/trial.h): one form for both, since a bandit is a
 * decision process with one state and episodes of one step.
 *
 *     fv_problem p;
 *     s = fv_problem_create(ctx, &cfg, &p);             // room; drawn again and again:
 *     fv_problem_draw(&p, FV_GAME_TRAIN, number);
 *     fv_outcome o = fv_problem_act(&p, run, t, state, action);
 *     fv_problem_free(&p);
 */
#ifndef FV_DATA_PROBLEMS_H
#define FV_DATA_PROBLEMS_H

#include "data/draws.h"
#include "fovea/trial.h"

typedef struct fv_problem {
    fv_ctx *ctx;
    fv_trial_config cfg;
    fv_game_part part;
    int64_t number;
    double *mean;   /* [states][actions]: expected rewards */
    double *chance; /* [states][actions][states]: of the next state */
    /* [horizon][states][actions], by step of an episode: how much more the best action would bring
     * until the episode's end, all probabilities known. */
    double *regret;
    double *value; /* room for 2 x states */
} fv_problem;

typedef struct fv_outcome {
    double reward, expected, regret; /* regret: of this action */
    int64_t next;                    /* state; 0 after an episode's last step */
} fv_outcome;

static inline int64_t fv_trial_steps(const fv_trial_config *cfg)
{
    return cfg->episodes * cfg->horizon;
}

/* Fails: ARGUMENT. */
fv_status fv_trial_check(fv_ctx *ctx, const fv_trial_config *cfg);

/* Fails: ARGUMENT, MEMORY. */
fv_status fv_problem_create(fv_ctx *ctx, const fv_trial_config *cfg, fv_problem *out);
void fv_problem_free(fv_problem *p); /* a zeroed one is fine */
void fv_problem_draw(fv_problem *p, fv_game_part part, int64_t number);
/* What action does in step t of a trial. Trials of one problem with other `run` see other draws. */
fv_outcome fv_problem_act(const fv_problem *p, int64_t run, int64_t t, int64_t state,
                          int64_t action);

/* Plans `horizon` steps: value iteration from the end. policy [horizon][states]: the best action,
 * the first of equals; regret, unless NULL, [horizon][states][actions]. value: room for 2 x states.
 */
void fv_problem_plan(const fv_trial_config *cfg, const double *mean, const double *chance,
                     double *value, int64_t *policy, double *regret);

/*
 * What a pull of each arm of a bandit costs a player who afterwards pulls the arm that looks best,
 * with `left` pulls after this one. With the posterior means m_a = (wins + 1) / (pulls + 2), the
 * highest of them M, and M' the highest after the pull:
 *
 *     out_a = M - m_a - left (E[M' | a] - M)
 *
 * The last term is what the pull is expected to teach: the knowledge gradient (Frazier, Powell and
 * Dayanik 2008; Ryzhov, Powell and Frazier 2012 for bandits). Summed over a trial of T pulls, the
 * costs of any policy are expected to be T / 2 minus its reward: the telescoping sum of the
 * potential (left + 1) M.
 */
void fv_bandit_costs(int64_t arms, const int64_t *pulls, const int64_t *wins, int64_t left,
                     double *out);

/* The i-th reference policy for a kind of problem; NULL past the last. */
const char *fv_reference_name(fv_trial_kind kind, int i);

#endif

/*
 * fovea/trial.h: learning to learn by reinforcement: many steps on one unknown problem, a bandit or
 * a Markov decision process with few states.
 *
 *     fv_trial_config cfg = {.kind = FV_TRIAL_BANDIT, .actions = 5, .states = 1, .horizon = 1,
 *                            .episodes = 10, .seed = 1};
 *     fv_reference *gittins = NULL;
 *     double reward = 0;
 *     s = fv_reference_create(ctx, &cfg, "gittins", &gittins);
 *     s = fv_reference_play(gittins, FV_GAME_TEST, 0, &reward);        // of the first test problem
 *     fv_reference_destroy(&gittins);
 *
 * A model that was trained by train.task = "trials" plays the same problem:
 *
 *     fv_trial *trial = NULL;
 *     s = fv_trial_play(model, FV_GAME_TEST, 1, 0, NULL, &trial);      // seed 1
 *     for (int64_t i = 0; s == FV_OK && i < trial->count; i++)
 *         printf("%lld: %g\n", (long long)trial->step[i].action, trial->step[i].reward);
 *     fv_trial_free(&trial);
 *
 * A bandit has arms that pay 1 with a probability each, drawn uniformly from [0, 1). A decision
 * process has transition probabilities drawn from a flat Dirichlet distribution, and rewards that
 * are normal with variance 1 around a mean for each state and action, drawn from N(1, 1); every
 * episode begins in state 0. Problems and what happens in them are functions of (seed, part,
 * number, step), so that two players who do the same see the same.
 *
 * Rewards are counted as what is expected for an action, not what was drawn: the mean is the same,
 * and comparisons have less noise.
 */
#ifndef FOVEA_TRIAL_H
#define FOVEA_TRIAL_H

#include "fovea/play.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_trial_kind { FV_TRIAL_BANDIT, FV_TRIAL_MDP } fv_trial_kind;

enum { FV_TRIAL_MAX_ACTIONS = 64, FV_TRIAL_MAX_STATES = 64, FV_TRIAL_MAX_STEPS = 1000 };

/* A trial has episodes x horizon steps. A bandit has 1 state and horizon 1; episodes are pulls. */
typedef struct fv_trial_config {
    fv_trial_kind kind;
    int64_t actions, states, horizon, episodes;
    uint64_t seed;
} fv_trial_config;

/* ---- reference policies ------------------------------------------------------------------- */

/*
 * Bandits:
 *     random, optimal      any arm; the arm that pays best (known to no learner)
 *     greedy               the arm with the highest posterior mean (s + 1) / (n + 2)
 *     ucb                  UCB1: s / n + sqrt(2 ln t / n), every arm once first
 *     thompson             the arm whose draw from its posterior is the highest
 *     knowledge            the arm that would be the best to pull if nothing were learned later
 *                          (knowledge gradient): it counts what one pull is expected to teach
 *     gittins              the arm with the highest index for the steps that are left
 * Decision processes:
 *     random, optimal      any action; planning with the true probabilities
 *     psrl                 posterior sampling: each episode is planned for one draw from the
 *                          posterior (Dirichlet and normal, with the true priors)
 *
 * The Gittins index of an arm with s successes in n pulls and m steps left is the highest constant
 * pay l at which playing it, with the freedom to stop, is as good as l: the largest l with
 * V_m(n, s, l) > 0, V_m = max(0, p - l + p V_{m-1}(n + 1, s + 1) + (1 - p) V_{m-1}(n + 1, s)), p =
 * (s + 1) / (n + 2). It is computed for 1000 values of l.
 */
typedef struct fv_reference fv_reference;

/* Fails: ARGUMENT (a config that does not fit, an unknown name), MEMORY. */
FV_API FV_MUST_USE fv_status fv_reference_create(fv_ctx *ctx, const fv_trial_config *cfg,
                                                 const char *name, fv_reference **out);
FV_API void fv_reference_destroy(fv_reference **reference); /* NULL is fine */
/* The sum of the expected rewards of one trial. Fails: MEMORY. */
FV_API FV_MUST_USE fv_status fv_reference_play(const fv_reference *reference, fv_game_part part,
                                               int64_t number, double *reward);

/* ---- models ------------------------------------------------------------------------------- */

typedef struct fv_trial_step {
    int64_t state, action;
    double reward;              /* as drawn */
    double expected;            /* of this action */
    const float *probabilities; /* [actions]: of the policy */
} fv_trial_step;

typedef struct fv_trial {
    fv_ctx *ctx;
    fv_trial_config cfg;
    int64_t number, count;     /* count: steps */
    double reward, best;       /* sums of expected rewards: of the trial, of the policy "optimal" */
    const double *means;       /* [states][actions]: expected rewards */
    const fv_trial_step *step; /* [count] */
    size_t bytes;              /* of the trial's memory */
} fv_trial;

/* What a model was trained on; false: it plays no trials. */
FV_API bool fv_model_plays_trials(const fv_model *model, fv_trial_config *out);

/* Plays one trial: each action is the most probable one. The pass's capture, which may be NULL,
 * receives the model's attention over all steps. Fails: UNSUPPORTED (the model plays no trials),
 * FORMAT (sizes that do not fit), MEMORY. */
FV_API FV_MUST_USE fv_status fv_trial_play(fv_model *model, fv_game_part part, uint64_t seed,
                                           int64_t number, const fv_capture *capture,
                                           fv_trial **out);
FV_API void fv_trial_free(fv_trial **trial); /* NULL is fine; *trial becomes NULL */

#ifdef __cplusplus
}
#endif
#endif

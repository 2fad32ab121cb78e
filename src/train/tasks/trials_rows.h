/*
 * What the policy gradient learns from: collected trials with the advantage of each action.
 *
 *     fv_trial_rows rows;
 *     s = fv_trial_rows_create(ctx, 64, &cfg, &rows);
 *     fv_trial_rows_fill(&rows, &trials, 64, &rule);        // trials: played, drawn actions
 *     fv_batch batch = fv_trial_rows_batch(&rows, 0, 16);   // the first 16
 *     fv_trial_rows_free(&rows);
 */
#ifndef FV_TRAIN_TRIALS_ROWS_H
#define FV_TRAIN_TRIALS_ROWS_H

#include "models/trials.h"

typedef struct fv_advantage_rule {
    double discount, lambda;
    int64_t runs; /* trials of each problem, one after another */
    bool regret;  /* regrets in place of rewards */
} fv_advantage_rule;

typedef struct fv_trial_rows {
    fv_ctx *ctx;
    int64_t capacity, steps, inputs, actions;
    int64_t *action, *length; /* [trial][step]; [trial] */
    float *observed;          /* [trial][step][inputs] */
    float *log_p, *advantage, *target;
    float *regrets; /* [trial][step][actions] */
    const void **row;
    void *room;
    size_t bytes;
} fv_trial_rows;

fv_status fv_trial_rows_create(fv_ctx *ctx, int64_t capacity, const fv_trial_config *cfg,
                               fv_trial_rows *out);
void fv_trial_rows_free(fv_trial_rows *r); /* a zeroed one is fine */

/*
 * With rewards r, values v (of the mean reward of a whole trial, so that r is divided by the number
 * of steps T), d = discount, l = lambda:
 *
 *     g_t = r_t / T + d v_{t+1} - v_t + d l g_{t+1},     v_{T+1} = 0
 *     target_t = g_t + v_t
 *     advantage_t = g_t minus the mean of g_t over the other trials of the problem
 *
 * Subtracting the others' mean takes out whether a problem pays well; it does not bias the
 * gradient, because it does not depend on the trial's own actions.
 *
 * With `regret`, r_t is minus the regret of the action. Its sum over a trial is, as expected, that
 * of the rewards minus what the best policy would get, which no action changes: the same is
 * learned, without the noise of rewards and transitions, and an action is credited at once with
 * what it does to the rest of its episode (potential-based shaping, Ng, Harada and Russell 1999).
 * The part of a step itself then needs no draw: the loss takes the mean of the regrets over the
 * policy, m_t when the trial was played, and w_t, the model's value, is that of the steps after:
 *
 *     v_t = w_t - m_t / T,     target_t = advantage_t + w_t
 *     advantage_t = d v_{t+1} - w_t + d l g_{t+1}, minus the others' mean
 *
 * The regrets may be the costs of fv_bandit_costs instead (fv_trials_how.knowledge): their sum too
 * is, as expected, a constant minus the rewards.
 *
 * Advantages and regrets / T are divided by the root of the mean of (advantage^2 + (m - regret)^2 /
 * T^2) over all trials and steps.
 */
void fv_trial_rows_fill(fv_trial_rows *r, const fv_trials *played, int64_t count,
                        const fv_advantage_rule *rule);
/* "inputs", "action", "log_p", "advantage", "target" and "regrets" of `count` trials; valid until
 * the next. */
fv_batch fv_trial_rows_batch(fv_trial_rows *r, int64_t first, int64_t count);

typedef struct fv_trial_weights {
    double clip, value, entropy;
} fv_trial_weights;

/*
 * Summed over all steps of a batch of trials (Schulman et al. 2017), with q = p(action) / p_old,
 * p_old = exp(log_p) the probability when the action was drawn, A the advantage, c = clip, and H
 * the entropy of the policy:
 *
 *     -min(q A, clip(q, 1 - c, 1 + c) A) + sum_a p(a) regret_a + value (v - target)^2 - entropy H
 *
 * logits [trials, steps, actions], values v [trials, steps].
 */
fv_tensor *fv_trial_loss(fv_ctx *ctx, const fv_batch *batch, const fv_trial_weights *weights,
                         fv_tensor *logits, fv_tensor *values);

fv_status fv_trial_rows_save(const fv_trial_rows *r, fv_params *state);
/* Fails: FORMAT. */
fv_status fv_trial_rows_load(fv_trial_rows *r, const fv_params *state);

#endif

/*
 * A policy that learns within a trial (fovea/trial.h): a SNAIL stack, or an LSTM, over everything
 * that has happened, with
 *
 *     e_t = relu(E o_t + b)            o_t: what is seen before step t, fv_trial_observe
 *     y_t = stack(e_1 .. e_t)
 *     logits of actions = P y_t,   value = V y_t, of the mean reward that is left
 *
 *     fv_tensor *logits, *values;
 *     fv_snail_player_run(ctx, player, x, NULL, &logits, &values);    // x [rows, n, inputs]
 *
 *     fv_snail_player_state state;
 *     fv_snail_player_begin(ctx, player, rows, &state);
 *     fv_snail_player_step(ctx, player, &state, x_1, &logits, &values);   // x_1 [rows, inputs]
 */
#ifndef FV_MODELS_SNAIL_PLAYER_H
#define FV_MODELS_SNAIL_PLAYER_H

#include "data/problems.h"
#include "models/model.h"
#include "models/snail.h"

typedef struct fv_snail_player {
    fv_ctx *ctx;
    fv_trial_config cfg; /* without a seed */
    int64_t inputs, hidden;
    bool lstm; /* in place of the stack */
    fv_dense embed, policy, value;
    fv_dense gates;       /* of the LSTM, from e_t */
    fv_tensor *recurrent; /* [4 hidden, hidden] */
    fv_snail snail;
} fv_snail_player;

typedef struct fv_snail_player_state {
    fv_snail_state snail;
    fv_tensor *h, *c; /* [rows, hidden] */
} fv_snail_player_state;

/* Numbers of one observation: the last action as one-hot, its reward, whether an episode begins,
 * the share of steps that are over, the state as one-hot (of decision processes). */
int64_t fv_trial_inputs(const fv_trial_config *cfg);
/* action -1: none yet. x [fv_trial_inputs] becomes what is seen before step t. */
void fv_trial_observe(const fv_trial_config *cfg, int64_t t, int64_t action, double reward,
                      int64_t state, float *x);

/* The player of a model; NULL: the model is of another kind. */
const fv_snail_player *fv_snail_player_of(const fv_model *model);

/* *values [rows, n]. */
void fv_snail_player_run(fv_ctx *ctx, const fv_snail_player *player, fv_tensor *x,
                         const fv_pass *pass, fv_tensor **logits, fv_tensor **values);
/* The state's tensors belong to the innermost scope. */
void fv_snail_player_begin(fv_ctx *ctx, const fv_snail_player *player, int64_t rows,
                           fv_snail_player_state *out);
/* Without gradients. logits [rows, actions], values [rows]. */
void fv_snail_player_step(fv_ctx *ctx, const fv_snail_player *player, fv_snail_player_state *state,
                          fv_tensor *x, fv_tensor **logits, fv_tensor **values);

#endif

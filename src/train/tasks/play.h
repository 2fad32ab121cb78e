/*
 * Learning to play a game by deep recurrent Q-learning.
 *
 *     play.c          the task: playing, learning, metrics, the state of a run
 *     play_replay.c   the episodes that are kept, as numbers and moves
 *     play_rows.c     batches: episodes played again, and the targets of their moves
 *     play_loss.c     the loss
 *
 * With Q the values of the model, Q' those of an older copy of it, and n = play.n_step, the value
 * of the action a_t that was taken is moved towards
 *
 *     y_t = sum_{j < n} g^j r_{t+j} + g^n Q'(t + n, argmax_a Q(t + n, a))
 *
 * (double Q-learning; without play.double the argmax is that of Q'). Past the end of a game that
 * ended by a move nothing is added. An episode that reached its limit is not an end: targets lead
 * at most to its last observation, whose own move is not learned from.
 */
#ifndef FV_TRAIN_TASKS_PLAY_H
#define FV_TRAIN_TASKS_PLAY_H

#include "fovea/task.h"
#include "models/play.h"
#include "train/step.h"

/* ---- episodes kept -------------------------------------------------------------------------- */

/* The last `capacity` episodes; number `i` of all that were pushed is in place i mod capacity. */
typedef struct fv_replay {
    fv_ctx *ctx;
    int64_t capacity, limit; /* limit: moves of the longest episode */
    int64_t pushed;
    int64_t *number;
    int32_t *length;
    uint8_t *ended, *actions; /* [capacity], [capacity][limit] */
} fv_replay;

/* To be freed even on failure. Fails: MEMORY. */
fv_status fv_replay_create(fv_ctx *ctx, int64_t capacity, int64_t limit, fv_replay *out);
void fv_replay_free(fv_replay *replay);
int64_t fv_replay_count(const fv_replay *replay);
void fv_replay_push(fv_replay *replay, const fv_played *played);
/* Number, length, end and actions of the i-th kept one; rewards are not kept. */
fv_played fv_replay_get(const fv_replay *replay, int64_t i);
/* Into a state, and back; `kind` checks the actions. Fails: FORMAT, MEMORY. */
fv_status fv_replay_save(const fv_replay *replay, fv_params *state);
fv_status fv_replay_load(fv_replay *replay, const fv_game_kind *kind, const fv_params *state);

/* ---- batches -------------------------------------------------------------------------------- */

typedef struct fv_q_rule {
    double discount; /* g */
    int64_t n_step;
    bool double_q;
} fv_q_rule;

/* What a move's target is made of: y = reward + discount Q'(next, ...). weight 0: none. */
typedef struct fv_q_target {
    float reward, discount, weight;
    int64_t next;
} fv_q_target;

/* The targets of an episode's moves. */
void fv_q_targets(const fv_q_rule *rule, int64_t length, bool ended, const float *rewards,
                  fv_q_target *out);
/* Moves that an episode is learned from. */
int64_t fv_q_target_count(int64_t length, bool ended);

/* Episodes as rows of a batch. */
typedef struct fv_play_rows {
    fv_ctx *ctx;
    fv_q_rule rule;
    int64_t capacity, limit, picture[3]; /* episodes, their moves, channels x height x width */
    int64_t count, longest;
    size_t bytes;
    float *pixels, *rewards;              /* [capacity][limit][picture], of one episode [limit] */
    fv_q_target *targets;                 /* of one episode, [limit] */
    int64_t *length;                      /* [capacity] */
    int64_t *last_action, *action, *next; /* [capacity][limit] */
    float *target_reward, *discount, *weight;
    const void **row; /* [FIELDS][capacity] */
} fv_play_rows;

fv_status fv_play_rows_create(fv_ctx *ctx, int64_t capacity, const fv_game_facts *facts,
                              const fv_q_rule *rule, fv_play_rows *out);
void fv_play_rows_free(fv_play_rows *rows);
void fv_play_rows_clear(fv_play_rows *rows);
/* Plays an episode again, from its first position. */
void fv_play_rows_add(fv_play_rows *rows, fv_game *game, const fv_played *played);
/* Fields "pixels" and "last_action" for the model, "action", "reward", "discount", "next" (of the
 * flattened batch) and "weight" for the loss. Called once for the rows of a batch, which stays
 * valid until they change. */
fv_batch fv_play_rows_batch(fv_play_rows *rows);

/* Huber's loss of Q(t, a_t) against y_t, summed with the weights; values [rows, longest, actions]
 * of the model and of its copy. */
fv_tensor *fv_q_loss(fv_ctx *ctx, const fv_batch *batch, bool double_q, fv_tensor *values,
                     fv_tensor *copy_values);

#endif

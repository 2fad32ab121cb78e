/*
 * Plays trials (fovea/trial.h) with a model, many at once:
 *
 *     fv_trials t;
 *     s = fv_trials_create(model, &cfg, 64, &t);
 *     fv_trials_how how = {.part = FV_GAME_TRAIN, .first = 0, .count = 64, .runs = 4, .draw =
 * true}; s = fv_trials_play(&t, &how);              // 16 problems, each four times
 *     fv_trials_free(&t);
 */
#ifndef FV_MODELS_TRIALS_H
#define FV_MODELS_TRIALS_H

#include "models/snail_player.h"

typedef struct fv_trials_how {
    fv_game_part part;
    int64_t first;  /* number of the first problem */
    int64_t count;  /* trials */
    int64_t runs;   /* trials of each problem, one after another; 0: 1 */
    bool knowledge; /* regrets of bandits are the costs of fv_bandit_costs */
    bool draw;      /* actions are drawn; else the most probable ones */
    uint64_t step;  /* by which they are drawn, with seed, problem, run and step of the trial */
} fv_trials_how;

/* All arrays are [trial][step]. */
typedef struct fv_trials {
    fv_ctx *ctx;
    const fv_snail_player *player;
    fv_trial_config cfg;
    int64_t capacity, steps, inputs;
    fv_problem *problem; /* [capacity] */
    int64_t *action, *state;
    float *observed; /* [trial][step][inputs] */
    float *reward, *expected, *regret, *value, *log_p;
    float *regrets, *mean_regret; /* [trial][step][actions]; expected of the policy */
    double *total;                /* [trial]: sum of the expected rewards */
    int64_t *pulls, *wins;        /* [trial][actions]: so far */
    float *now, *logits, *values;
    void *room;
    size_t bytes;
} fv_trials;

/* Fails: UNSUPPORTED (the model plays no trials), FORMAT (others than cfg's), MEMORY. */
fv_status fv_trials_create(fv_model *model, const fv_trial_config *cfg, int64_t capacity,
                           fv_trials *out);
void fv_trials_free(fv_trials *t); /* a zeroed one is fine */
fv_status fv_trials_play(fv_trials *t, const fv_trials_how *how);

#endif

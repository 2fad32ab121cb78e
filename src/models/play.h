/*
 * Plays episodes of a game with a model, many at once:
 *
 *     fv_playing p;
 *     s = fv_playing_init(&p, model, 64);                        // at most 64 episodes
 *     fv_play_how how = {.seed = 1, .part = FV_GAME_VALID, .first = 0, .count = 64};
 *     s = fv_playing_run(&p, &how);                              // p.played[0 .. 63]
 *     fv_playing_free(&p);
 *
 * All episodes make their first move together, then those that are not over their second, and so
 * on; none depends on the others.
 */
#ifndef FV_MODELS_PLAY_H
#define FV_MODELS_PLAY_H

#include "data/games.h"
#include "models/model.h"

/* The course of an episode, from which it can be played again. */
typedef struct fv_played {
    int64_t number;
    int64_t length;   /* moves */
    uint8_t *actions; /* [limit] */
    bool ended, won;  /* not ended: the limit was reached */
    double reward;    /* of all moves */
} fv_played;

typedef struct fv_play_how {
    uint64_t seed;
    fv_game_part part;
    int64_t first, count; /* numbers of episodes */
    double explore;       /* share of moves that are drawn at random */
    uint64_t step;        /* by which they are drawn, with the seed, the number and the move */
} fv_play_how;

typedef struct fv_playing {
    fv_model *model;
    const fv_game_kind *kind;
    int64_t side;
    fv_game_facts facts;
    int64_t capacity;
    fv_played *played; /* [capacity] */
    /* Buffers of a move, [capacity] rows each. */
    fv_game *games;
    float *pixels;
    uint8_t *actions;
    int64_t *last_action, *best, *live;
    const void **pixel_row, **action_row, **state_row;
    float *state[2]; /* before and after a move; NULL before the first one */
    int64_t state_width;
} fv_playing;

/* The game of a model: the number in its spec whose name is a game's has the side. Fails:
 * UNSUPPORTED (it plays none), FORMAT (sizes that are not the game's). */
fv_status fv_model_game(const fv_model *model, const fv_game_kind **kind, int64_t *side);

/* To be freed even on failure. Fails: as fv_model_game; MEMORY. */
fv_status fv_playing_init(fv_playing *p, fv_model *model, int64_t capacity);
void fv_playing_free(fv_playing *p);
fv_status fv_playing_run(fv_playing *p, const fv_play_how *how);

#endif

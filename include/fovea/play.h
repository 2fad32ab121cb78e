/*
 * fovea/play.h: agents that play games.
 *
 *     fv_episode *episode = NULL;
 *     s = fv_play_episode(model, FV_GAME_TEST, 1, 0, &episode);     // seed 1, the first one
 *     for (int64_t i = 0; s == FV_OK && i < episode->count; i++)
 *         printf("%s\n", episode->actions[episode->moves[i].action]);
 *     fv_episode_free(&episode);
 *
 * The games are in src/data/game_*.c: "catch" and "maze". An episode is a function of the game,
 * (seed, part, number) and the moves. `fovea train` with train.task = "play" trains an agent by
 * deep recurrent Q-learning (docs/models/play.md).
 */
#ifndef FOVEA_PLAY_H
#define FOVEA_PLAY_H

#include "fovea/model.h"
#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Mazes, balls and so on of one part never occur in another. */
typedef enum fv_game_part {
    FV_GAME_TRAIN,
    FV_GAME_VALID,
    FV_GAME_TEST,
    FV_GAME_PARTS
} fv_game_part;

/* One move, and what the agent saw before it. */
typedef struct fv_episode_move {
    int action;
    double reward;
    const float *pixels;  /* [channels][height][width] in 0 .. 1 */
    const float *values;  /* [action_count]: of each action */
    const float *weights; /* [heads][rows][cols]: attention over the picture; NULL: none */
    const char *board;    /* [side][side] characters: the whole position */
} fv_episode_move;

typedef struct fv_episode {
    fv_ctx *ctx;
    const char *game;
    int64_t number;
    bool won;
    double reward; /* of all moves */
    int64_t side;
    int64_t channels, height, width; /* of a picture */
    int64_t heads, rows, cols;       /* of the attention; 0: none */
    int action_count;
    const char *const *actions; /* names */
    int64_t count;
    const fv_episode_move *moves; /* [count] */
    const char *last;             /* [side][side]: the position after the last move */
    size_t bytes;                 /* of the episode's memory */
} fv_episode;

/* Plays an episode: each move is the one with the highest value. Free it before the context. Fails:
 * UNSUPPORTED (the model does not play), FORMAT (a game that does not fit the model), MEMORY, and
 * what the model fails with. */
FV_API FV_MUST_USE fv_status fv_play_episode(fv_model *model, fv_game_part part, uint64_t seed,
                                             int64_t number, fv_episode **out);
FV_API void fv_episode_free(fv_episode **episode); /* NULL is fine; *episode becomes NULL */

/* The course of an episode in characters, boards beside each other in lines of at most `columns`,
 * replacing the content of `out`. Fails: MEMORY. */
FV_API FV_MUST_USE fv_status fv_episode_text(const fv_episode *episode, int columns, fv_text *out);

#ifdef __cplusplus
}
#endif
#endif

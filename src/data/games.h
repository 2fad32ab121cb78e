/*
 * Games that agents learn to play (fovea/play.h). A game is a value: integers without pointers, so
 * that it can be copied, and moves allocate nothing.
 *
 *     fv_game game;
 *     const fv_game_kind *kind = fv_game_kind_find("maze");
 *     fv_game_start(&game, kind, 0, seed, FV_GAME_TRAIN, number);     // 0: the usual side
 *     while (!fv_game_over(&game)) {
 *         fv_game_observe(&game, pixels);               // [channels][height][width] in 0 .. 1
 *         reward += fv_game_move(&game, action);        // 0 .. kind->actions - 1
 *     }
 *
 * An episode is a function of (side, seed, part, number): the same moves lead to the same end, so
 * an episode can be kept as its number and its moves. The part is a hash of the cells of the first
 * position (a maze's walls, a ball's fall): what `test` has can never be drawn for `train`.
 */
#ifndef FV_DATA_GAMES_H
#define FV_DATA_GAMES_H

#include "data/draws.h"
#include "fovea/play.h"

enum { FV_GAME_CELLS = 225, FV_GAME_NUMBERS = 8, FV_GAME_BOARD = 256 };

typedef struct fv_game_kind fv_game_kind;

typedef struct fv_game {
    const fv_game_kind *kind;
    int32_t side, moves; /* moves: made so far */
    int32_t number[FV_GAME_NUMBERS];
    uint8_t cell[FV_GAME_CELLS];
    bool ended; /* by a move, not by the limit */
    bool won;
} fv_game;

/* Sizes that depend on the side. */
typedef struct fv_game_facts {
    int64_t channels, height, width;
    int64_t limit; /* moves after which an episode is over */
} fv_game_facts;

struct fv_game_kind {
    const char *name; /* also of the number in a model's spec that has the side */
    const char *summary;
    int32_t side, min_side, max_side; /* the usual one, and its bounds */
    int32_t step;                     /* between sides */
    int actions;
    const char *const *action_names;
    fv_game_facts (*facts)(int32_t side);
    /* Sets number and cell of a first position; all else is 0. */
    void (*draw)(fv_game *game, fv_draws *draws);
    /* Makes a move: the reward in hundredths. Sets ended and won. */
    int (*move)(fv_game *game, int action);
    void (*observe)(const fv_game *game, float *pixels);
    /* The position as side x side characters, row by row. */
    void (*board)(const fv_game *game, char *out);
};

const fv_game_kind *fv_game_kind_at(size_t i);                  /* NULL past the last */
const fv_game_kind *fv_game_kind_find(const char *name);        /* NULL: there is none */
bool fv_game_side_fits(const fv_game_kind *kind, int64_t side); /* 0, the usual one, does */

void fv_game_start(fv_game *game, const fv_game_kind *kind, int64_t side, uint64_t seed,
                   fv_game_part part, int64_t number);
/* The reward of a move; a game that is over stays as it is, for 0. */
double fv_game_move(fv_game *game, int action);
fv_game_facts fv_game_facts_of(const fv_game *game);
bool fv_game_over(const fv_game *game);
void fv_game_observe(const fv_game *game, float *pixels);

#endif

/*
 * Catch: a ball falls by one row a move and drifts sideways, to the left, not at all or to the
 * right; the drift often changes, and turns round at a wall. The paddle in the last row is three
 * cells wide and moves by one cell. It must be below the ball when the ball arrives: reward 1, else
 * -1. The whole fall is drawn at the start; a single picture does not show the drift. Two by two
 * pixels are one cell, in grey.
 */
#include "data/games.h"

enum { PADDLE, CELL = 2, DRIFTS = 3, TURN = 2 }; /* the drift is drawn again one time in TURN */

static const char *const names[] = {"left", "stay", "right"};

static fv_game_facts facts(int32_t side)
{
    return (fv_game_facts){
        .channels = 1, .height = CELL * side, .width = CELL * side, .limit = side - 1};
}

/* cell[i] is the column of the ball in row i, number[PADDLE] that of the paddle's middle. */
static void draw(fv_game *game, fv_draws *draws)
{
    const int32_t side = game->side;
    int32_t at = (int32_t)fv_draws_below(draws, side);
    int32_t drift = (int32_t)fv_draws_below(draws, DRIFTS) - 1;
    game->number[PADDLE] = 1 + (int32_t)fv_draws_below(draws, side - 2);
    for (int32_t row = 0; row < side; row++) {
        game->cell[row] = (uint8_t)at;
        if (fv_draws_below(draws, TURN) == 0) drift = (int32_t)fv_draws_below(draws, DRIFTS) - 1;
        if (at + drift < 0 || at + drift >= side) drift = -drift;
        at += drift;
    }
}

static bool is_paddle(const fv_game *game, int32_t column)
{
    const int32_t away = column - game->number[PADDLE];
    return away >= -1 && away <= 1;
}

static int move(fv_game *game, int action)
{
    int32_t *paddle = &game->number[PADDLE];
    *paddle += action - 1;
    if (*paddle < 1) *paddle = 1;
    if (*paddle > game->side - 2) *paddle = game->side - 2;
    if (game->moves + 1 < game->side) return 0;
    game->ended = true;
    game->won = is_paddle(game, game->cell[game->moves]);
    return game->won ? 100 : -100;
}

static char thing_at(const fv_game *game, int32_t row, int32_t column)
{
    if (row == game->moves && column == game->cell[row]) return 'o';
    return row == game->side - 1 && is_paddle(game, column) ? '=' : '.';
}

static void observe(const fv_game *game, float *pixels)
{
    const int32_t wide = CELL * game->side;
    for (int32_t y = 0; y < wide; y++)
        for (int32_t x = 0; x < wide; x++) {
            const char thing = thing_at(game, y / CELL, x / CELL);
            pixels[y * wide + x] = thing == 'o' ? 1.0f : thing == '=' ? 0.6f : 0.0f;
        }
}

static void board(const fv_game *game, char *out)
{
    for (int32_t i = 0; i < game->side * game->side; i++)
        out[i] = thing_at(game, i / game->side, i % game->side);
}

const fv_game_kind fv_game_catch = {
    .name = "catch",
    .summary = "move a paddle below a falling ball",
    .side = 10,
    .min_side = 4,
    .max_side = 15,
    .step = 1,
    .actions = 3,
    .action_names = names,
    .facts = facts,
    .draw = draw,
    .move = move,
    .observe = observe,
    .board = board,
};

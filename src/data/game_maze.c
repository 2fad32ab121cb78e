/*
 * Maze: find the key, then the door. The rooms are the cells with even row and column of a
 * side x side grid; a random spanning tree opens the cells between them, all other cells are walls.
 * The door is in a dead end and opens for the key alone, so the key can be reached before it. A
 * move costs 0.01, the key gives 1, the door 1 and ends the game. The agent does not see the maze
 * but a window of 5 x 5 cells with itself in the middle, each of 3 x 3 coloured pixels; outside the
 * maze are walls. It carries the key visibly.
 */
#include <string.h>

#include "data/games.h"

enum { AGENT, KEY, DOOR, HAS_KEY }; /* numbers; places are row * side + column */
enum { OPEN = 0, WALL = 1 };        /* cells */
enum { VIEW = 2, WINDOW = 2 * VIEW + 1, TILE = 3, COLOURS = 3, MAX_ROOMS = 64 };

static const char *const names[] = {"up", "right", "down", "left"};
static const int32_t row_step[] = {-1, 0, 1, 0}, column_step[] = {0, 1, 0, -1};

static fv_game_facts facts(int32_t side)
{
    return (fv_game_facts){.channels = COLOURS,
                           .height = WINDOW * TILE,
                           .width = WINDOW * TILE,
                           .limit = 12 * (int64_t)side};
}

/* ---- first positions ------------------------------------------------------------------------ */

/* Opens a tree: each step leads from the last room of the path to a new neighbour, or back. */
static void carve(fv_game *game, fv_draws *draws)
{
    const int32_t side = game->side;
    int32_t path[MAX_ROOMS], length = 1;
    memset(game->cell, WALL, (size_t)side * (size_t)side);
    path[0] = 2 * (int32_t)fv_draws_below(draws, (side + 1) / 2) * side +
              2 * (int32_t)fv_draws_below(draws, (side + 1) / 2);
    game->cell[path[0]] = OPEN;
    while (length > 0) {
        const int32_t at = path[length - 1], row = at / side, column = at % side;
        int32_t free[4], count = 0;
        for (int32_t i = 0; i < 4; i++) {
            const int32_t r = row + 2 * row_step[i], c = column + 2 * column_step[i];
            if (r >= 0 && r < side && c >= 0 && c < side && game->cell[r * side + c] == WALL)
                free[count++] = i;
        }
        if (count == 0) {
            length--;
            continue;
        }
        const int32_t way = free[fv_draws_below(draws, count)];
        const int32_t step = row_step[way] * side + column_step[way];
        game->cell[at + step] = game->cell[at + 2 * step] = OPEN;
        path[length++] = at + 2 * step;
    }
}

static bool is_wall(const fv_game *game, int32_t row, int32_t column)
{
    const int32_t side = game->side;
    return row < 0 || row >= side || column < 0 || column >= side ||
           game->cell[row * side + column] == WALL;
}

static bool is_dead_end(const fv_game *game, int32_t at)
{
    int open = 0;
    for (int i = 0; i < 4; i++)
        open += !is_wall(game, at / game->side + row_step[i], at % game->side + column_step[i]);
    return game->cell[at] == OPEN && open == 1;
}

/* A tree of two rooms or more has two dead ends or more. */
static void draw(fv_game *game, fv_draws *draws)
{
    const int32_t cells = game->side * game->side;
    int32_t *place = game->number;
    carve(game, draws);
    do
        place[DOOR] = (int32_t)fv_draws_below(draws, cells);
    while (!is_dead_end(game, place[DOOR]));
    do
        place[KEY] = (int32_t)fv_draws_below(draws, cells);
    while (game->cell[place[KEY]] == WALL || place[KEY] == place[DOOR]);
    do
        place[AGENT] = (int32_t)fv_draws_below(draws, cells);
    while (game->cell[place[AGENT]] == WALL || place[AGENT] == place[DOOR] ||
           place[AGENT] == place[KEY]);
}

/* ---- moves ---------------------------------------------------------------------------------- */

static int move(fv_game *game, int action)
{
    enum { COST = -1, FOUND = 100 };
    int32_t *place = game->number;
    const int32_t side = game->side;
    const int32_t row = place[AGENT] / side + row_step[action],
                  column = place[AGENT] % side + column_step[action], to = row * side + column;
    if (is_wall(game, row, column) || (to == place[DOOR] && !place[HAS_KEY])) return COST;
    place[AGENT] = to;
    if (to == place[DOOR]) {
        game->ended = game->won = true;
        return FOUND + COST;
    }
    if (to != place[KEY] || place[HAS_KEY]) return COST;
    place[HAS_KEY] = 1;
    return FOUND + COST;
}

/* ---- pictures ------------------------------------------------------------------------------- */

static char thing_at(const fv_game *game, int32_t row, int32_t column)
{
    const int32_t *place = game->number, at = row * game->side + column;
    if (is_wall(game, row, column)) return '#';
    if (at == place[AGENT]) return place[HAS_KEY] ? 'A' : 'a';
    if (at == place[DOOR]) return 'D';
    return at == place[KEY] && !place[HAS_KEY] ? 'k' : '.';
}

/* Red, green and blue of a thing; its middle pixel may differ from the frame around it. */
static const float *colour_of(char thing, bool middle)
{
    static const float wall[] = {0.35f, 0.35f, 0.4f}, floor_[] = {0.05f, 0.05f, 0.05f},
                       key[] = {1.0f, 0.9f, 0.1f}, door[] = {0.1f, 0.8f, 0.2f},
                       agent[] = {0.2f, 0.4f, 1.0f};
    switch (thing) {
    case '#':
        return wall;
    case 'a':
        return agent;
    case 'A':
        return middle ? key : agent;
    case 'k':
        return middle ? floor_ : key;
    case 'D':
        return middle ? floor_ : door;
    default:
        return floor_;
    }
}

static void observe(const fv_game *game, float *pixels)
{
    enum { WIDE = WINDOW * TILE };
    const int32_t row = game->number[AGENT] / game->side - VIEW,
                  column = game->number[AGENT] % game->side - VIEW;
    for (int32_t y = 0; y < WIDE; y++)
        for (int32_t x = 0; x < WIDE; x++) {
            const char thing = thing_at(game, row + y / TILE, column + x / TILE);
            const float *colour = colour_of(thing, y % TILE == TILE / 2 && x % TILE == TILE / 2);
            for (int c = 0; c < COLOURS; c++)
                pixels[(c * WIDE + y) * WIDE + x] = colour[c];
        }
}

static void board(const fv_game *game, char *out)
{
    for (int32_t i = 0; i < game->side * game->side; i++)
        out[i] = thing_at(game, i / game->side, i % game->side);
}

const fv_game_kind fv_game_maze = {
    .name = "maze",
    .summary = "find a key and a door in a maze, through a small window",
    .side = 7,
    .min_side = 5,
    .max_side = 15,
    .step = 2,
    .actions = 4,
    .action_names = names,
    .facts = facts,
    .draw = draw,
    .move = move,
    .observe = observe,
    .board = board,
};

/* The table of games, and what they share: parts, limits, rewards. */
#include "data/games.h"

#include <string.h>

/* A random site that no op uses. */
#define GAME_SITE 0x67616d6573u

enum { SHARES = 10, ROUNDS = 4096 };

#define FV_GAME(name) extern const fv_game_kind fv_game_##name;
#include "data/games.def"

static const fv_game_kind *const kinds[] = {
#define FV_GAME(name) &fv_game_##name,
#include "data/games.def"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const fv_game_kind *fv_game_kind_at(size_t i) { return i < KINDS ? kinds[i] : NULL; }

const fv_game_kind *fv_game_kind_find(const char *name)
{
    for (size_t i = 0; name && i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

bool fv_game_side_fits(const fv_game_kind *kind, int64_t side)
{
    return side == 0 || (side >= kind->min_side && side <= kind->max_side &&
                         (side - kind->min_side) % kind->step == 0);
}

/* FNV-1a over the cells: the walls of a maze, the fall of a ball. */
static uint64_t hash_of(const fv_game *game)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < FV_GAME_CELLS; i++)
        h = (h ^ game->cell[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* One tenth of all boards is for validation, another for the test. */
static fv_game_part part_of(const fv_game *game)
{
    const uint64_t share = hash_of(game) % SHARES;
    return share == 0 ? FV_GAME_VALID : share == 1 ? FV_GAME_TEST : FV_GAME_TRAIN;
}

void fv_game_start(fv_game *game, const fv_game_kind *kind, int64_t side, uint64_t seed,
                   fv_game_part part, int64_t number)
{
    fv_draws draws = fv_draws_begin(fv_rng_key(seed, (uint64_t)part, GAME_SITE), (uint64_t)number);
    /* One draw in ten fits at least, so the last round is never reached. */
    for (int round = 0; round < ROUNDS; round++) {
        *game = (fv_game){.kind = kind, .side = side ? (int32_t)side : kind->side};
        kind->draw(game, &draws);
        if (part_of(game) == part) break;
    }
}

fv_game_facts fv_game_facts_of(const fv_game *game) { return game->kind->facts(game->side); }

bool fv_game_over(const fv_game *game)
{
    return game->ended || game->moves >= fv_game_facts_of(game).limit;
}

double fv_game_move(fv_game *game, int action)
{
    if (fv_game_over(game)) return 0;
    game->moves++;
    return (double)game->kind->move(game, action) / 100;
}

void fv_game_observe(const fv_game *game, float *pixels) { game->kind->observe(game, pixels); }

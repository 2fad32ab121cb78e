/* Maps, what an agent sees in them, and instructions that lead it through them. */
#include "data/worlds.h"

#include <string.h>

#include "data/datasets.h"
#include "data/draws.h"

enum { SIDE = FV_WORLD_SIDE, OBJECTS = FV_WORLD_OBJECTS, PLACED = 10, WALLS = 9, CLAUSES = 4 };

/* ---- words ---------------------------------------------------------------------------------- */

enum {
    W_RED,
    W_CHAIR = W_RED + FV_WORLD_COLOURS,
    W_GO = W_CHAIR + FV_WORLD_THINGS,
    W_WALK,
    W_MOVE,
    W_TAKE,
    W_TURN,
    W_FACE,
    W_TO,
    W_THE,
    W_PAST,
    W_WALL,
    W_UNTIL,
    W_LEFT,
    W_RIGHT,
    W_AROUND,
    W_ONE,
    W_TWO,
    W_THREE,
    W_STEP,
    W_STEPS,
    W_THEN,
    W_AND,
    WORDS
};

static const char *const words[WORDS] = {
    "red",   "blue", "green", "yellow", "chair", "table", "lamp",  "sofa",
    "plant", "box",  "go",    "walk",   "move",  "take",  "turn",  "face",
    "to",    "the",  "past",  "wall",   "until", "left",  "right", "around",
    "one",   "two",  "three", "step",   "steps", "then",  "and"};

const char *fv_errand_word(int i) { return i >= 0 && i < WORDS ? words[i] : NULL; }

const char *fv_action_name(int action)
{
    static const char *const names[FV_ACTION_COUNT] = {"forward", "left", "right", "stop"};
    return (unsigned)action < FV_ACTION_COUNT ? names[action] : "";
}

const char *fv_world_colour(int object) { return words[W_RED + object / FV_WORLD_THINGS]; }
const char *fv_world_thing(int object) { return words[W_CHAIR + object % FV_WORLD_THINGS]; }

/* ---- the world ------------------------------------------------------------------------------ */

static const int down[4] = {-1, 0, 1, 0}, across[4] = {0, 1, 0, -1};

bool fv_world_is_wall(const fv_world *w, int row, int col)
{
    return row < 0 || col < 0 || row >= SIDE || col >= SIDE || w->cell[row][col] == FV_WORLD_WALL;
}

static fv_agent ahead(fv_agent a, int turn)
{
    const int way = (a.heading + turn) % 4;
    return (fv_agent){a.row + down[way], a.col + across[way], a.heading};
}

static bool can_go(const fv_world *w, fv_agent a)
{
    const fv_agent next = ahead(a, 0);
    return !fv_world_is_wall(w, next.row, next.col);
}

fv_agent fv_world_step(const fv_world *w, fv_agent a, int action)
{
    switch (action) {
    case FV_ACTION_FORWARD:
        return can_go(w, a) ? ahead(a, 0) : a;
    case FV_ACTION_LEFT:
        a.heading = (a.heading + 3) % 4;
        return a;
    case FV_ACTION_RIGHT:
        a.heading = (a.heading + 1) % 4;
        return a;
    default:
        return a;
    }
}

void fv_world_see(const fv_world *w, fv_agent a, int last, float out[FV_WORLD_SEEN])
{
    float *at = out;
    memset(out, 0, FV_WORLD_SEEN * sizeof *out);
    for (int turn = 0; turn < 4; turn++, at += 1 + OBJECTS) {
        fv_agent p = ahead(a, turn);
        at[0] = fv_world_is_wall(w, p.row, p.col) ? 1.0F : 0.0F;
        for (; !fv_world_is_wall(w, p.row, p.col); p = ahead(p, turn))
            if (w->cell[p.row][p.col]) at[w->cell[p.row][p.col]] = 1;
    }
    if (w->cell[a.row][a.col]) at[w->cell[a.row][a.col] - 1] = 1;
    if (last >= 0) at[OBJECTS + last] = 1;
}

/* ---- instructions --------------------------------------------------------------------------- */

typedef struct guide {
    fv_draws draws;
    fv_errand *errand;
    fv_agent agent;
} guide;

static int pick(guide *g, int n) { return (int)fv_draws_below(&g->draws, n); }

static void say(guide *g, const int *list)
{
    fv_errand *e = g->errand;
    for (int i = 0; list[i] >= 0 && e->word_count < FV_ERRAND_WORDS; i++)
        e->word[e->word_count++] = (uint8_t)list[i];
}

#define SAY(g, ...) say(g, (const int[]){__VA_ARGS__, -1})

static void act(guide *g, int action, int times)
{
    fv_errand *e = g->errand;
    for (int i = 0; i < times && e->action_count < FV_ERRAND_ACTIONS; i++) {
        e->action[e->action_count++] = (uint8_t)action;
        g->agent = fv_world_step(&e->world, g->agent, action);
    }
}

static void act_turn(guide *g, int turn)
{
    act(g, turn == 3 ? FV_ACTION_LEFT : FV_ACTION_RIGHT, turn == 2 ? 2 : 1);
}

/* Free cells ahead, up to the wall. */
static int free_cells(const guide *g, int turn)
{
    int n = 0;
    for (fv_agent p = ahead(g->agent, turn); !fv_world_is_wall(&g->errand->world, p.row, p.col);
         p = ahead(p, turn))
        n++;
    return n;
}

/* An object in line in direction `turn`, at which distance; false: none. */
static bool pick_object(guide *g, int turn, int *object, int *distance)
{
    int found[SIDE], at[SIDE], n = 0;
    const fv_world *w = &g->errand->world;
    fv_agent p = ahead(g->agent, turn);
    for (int d = 1; !fv_world_is_wall(w, p.row, p.col); p = ahead(p, turn), d++)
        if (w->cell[p.row][p.col]) {
            found[n] = w->cell[p.row][p.col] - 1;
            at[n++] = d;
        }
    if (n == 0) return false;
    const int choice = pick(g, n);
    *object = found[choice];
    *distance = at[choice];
    return true;
}

static void say_object(guide *g, int object)
{
    SAY(g, W_THE, W_RED + object / FV_WORLD_THINGS, W_CHAIR + object % FV_WORLD_THINGS);
}

/* Forward, by one of the ways to say so; false: there is no room. */
static bool add_walk(guide *g)
{
    int object = 0, distance = 0;
    const int room = free_cells(g, 0), form = pick(g, 5);
    if (room == 0) return false;
    if (form < 3 && pick_object(g, 0, &object, &distance)) {
        const bool past = form == 2 && distance < room;
        SAY(g, W_GO + pick(g, 3), past ? W_PAST : W_TO);
        say_object(g, object);
        act(g, FV_ACTION_FORWARD, distance + past);
    } else if (form < 4) {
        SAY(g, W_GO + pick(g, 3), pick(g, 2) ? W_TO : W_UNTIL, W_THE, W_WALL);
        act(g, FV_ACTION_FORWARD, room);
    } else {
        const int steps = 1 + pick(g, room < 3 ? room : 3);
        SAY(g, W_TAKE, W_ONE + steps - 1, steps == 1 ? W_STEP : W_STEPS);
        act(g, FV_ACTION_FORWARD, steps);
    }
    return true;
}

static void add_turn(guide *g)
{
    static const int names[4] = {0, W_RIGHT, W_AROUND, W_LEFT};
    int object = 0, distance = 0;
    const int turn = 1 + pick(g, 3);
    if (pick(g, 2) == 0 && pick_object(g, turn, &object, &distance)) {
        if (pick(g, 2))
            SAY(g, W_FACE);
        else
            SAY(g, W_TURN, W_TO);
        say_object(g, object);
    } else {
        SAY(g, W_TURN, names[turn]);
    }
    act_turn(g, turn);
}

/* One to four clauses; a turn follows a turn only where a wall leaves nothing else. */
static void instruct(guide *g)
{
    const int clauses = 1 + pick(g, CLAUSES);
    bool did_turn = false;
    for (int i = 0; i < clauses; i++) {
        if (i > 0) SAY(g, pick(g, 2) ? W_THEN : W_AND);
        did_turn = did_turn || pick(g, 2) ? !add_walk(g) : true;
        if (did_turn) add_turn(g);
    }
    act(g, FV_ACTION_STOP, 1);
    g->errand->goal = g->agent;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void draw_map(fv_draws *d, fv_world *w)
{
    int order[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int k = (int)fv_draws_below(d, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    memset(w, 0, sizeof *w);
    for (int i = 0; i < WALLS; i++)
        w->cell[order[i] / SIDE][order[i] % SIDE] = FV_WORLD_WALL;
    uint8_t kind[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        const int k = (int)fv_draws_below(d, i + 1);
        kind[i] = kind[k];
        kind[k] = (uint8_t)(i + 1);
    }
    for (int i = 0; i < PLACED; i++)
        w->cell[order[WALLS + i] / SIDE][order[WALLS + i] % SIDE] = kind[i];
}

static void draw_errand(uint64_t row, fv_errand *out)
{
    guide g = {.draws = fv_draws_begin(fv_rng_key(1, 0x77616c6b, 0), row), .errand = out};
    memset(out, 0, sizeof *out);
    draw_map(&g.draws, &out->world);
    do {
        g.agent = (fv_agent){pick(&g, SIDE), pick(&g, SIDE), pick(&g, 4)};
    } while (fv_world_is_wall(&out->world, g.agent.row, g.agent.col));
    out->start = g.agent;
    instruct(&g);
}

static fv_made_part part_of(const fv_world *w)
{
    char text[2 * SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int cell = w->cell[i / SIDE][i % SIDE];
        text[2 * i] = (char)('a' + cell / 16);
        text[2 * i + 1] = (char)('a' + cell % 16);
    }
    return fv_made_part_of(text, sizeof text);
}

/* Draws until the map belongs to the part. One in 50 is a held-out part's. */
void fv_errand_make(fv_made_part part, uint64_t number, fv_errand *out)
{
    enum { ROUND_BITS = 16 };
    for (uint64_t round = 0; round < (uint64_t)1 << ROUND_BITS; round++) {
        draw_errand(number << ROUND_BITS | round, out);
        if (part_of(&out->world) == part) return;
    }
}

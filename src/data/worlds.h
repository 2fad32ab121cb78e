/*
 * Generated grid worlds and instructions for an agent in them.
 *
 *     fv_errand e;
 *     fv_errand_make(FV_MADE_TEST, 5, &e);           // map 5 of the test part
 *     fv_agent a = e.start;
 *     for (int i = 0; i < e.action_count; i++) a = fv_world_step(&e.world, a, e.action[i]);
 *     // a is e.goal
 *
 * A map has walls, and objects of four colours, each colour and kind at most once. The agent stands
 * on a free cell (objects can be walked over), faces one of four directions and does one of four
 * things: a step forward, a quarter turn left or right, stop. It sees along the four directions
 * from its cell, as far as the first wall.
 *
 * An instruction is made of clauses with one meaning each:
 *
 *     go to the red chair            forward, onto an object ahead
 *     walk past the red chair        one step farther
 *     go to the wall                 forward until a wall is ahead
 *     take two steps                 forward
 *     turn left, right, around       around: twice right
 *     turn to the red chair          left, right or around, wherever it is
 *
 * A map is a function of its part and number. Which part it belongs to is a function of its cells
 * (fovea/data.h), so no map of the test is ever trained on.
 */
#ifndef FV_DATA_WORLDS_H
#define FV_DATA_WORLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "fovea/data.h"

enum {
    FV_WORLD_SIDE = 8,
    FV_WORLD_COLOURS = 4,
    FV_WORLD_THINGS = 6, /* kinds of object */
    FV_WORLD_OBJECTS = FV_WORLD_COLOURS * FV_WORLD_THINGS,
    FV_WORLD_WALL = 255,
    FV_ERRAND_WORDS = 48,
    FV_ERRAND_ACTIONS = 40,
    /* what the agent sees: ahead, right, behind and left a wall at once (1 each) and the objects in
       line (1 for each), the objects on its own cell, and its last action */
    FV_WORLD_SEEN = 4 * (1 + FV_WORLD_OBJECTS) + FV_WORLD_OBJECTS + 4
};

typedef enum fv_action {
    FV_ACTION_FORWARD,
    FV_ACTION_LEFT,
    FV_ACTION_RIGHT,
    FV_ACTION_STOP,
    FV_ACTION_COUNT
} fv_action;

typedef struct fv_world {
    uint8_t cell[FV_WORLD_SIDE][FV_WORLD_SIDE]; /* 0: free, 1 + object, or FV_WORLD_WALL */
} fv_world;

typedef struct fv_agent {
    int row, col, heading; /* heading: 0 up, 1 right, 2 down, 3 left */
} fv_agent;

typedef struct fv_errand {
    fv_world world;
    fv_agent start, goal;
    int word_count, action_count; /* the last action is FV_ACTION_STOP */
    uint8_t word[FV_ERRAND_WORDS], action[FV_ERRAND_ACTIONS];
} fv_errand;

void fv_errand_make(fv_made_part part, uint64_t number, fv_errand *out);

/* Word number i of all instructions; NULL past the last. */
const char *fv_errand_word(int i);
const char *fv_action_name(int action);
const char *fv_world_colour(int object);
const char *fv_world_thing(int object);

bool fv_world_is_wall(const fv_world *w, int row, int col); /* true outside the map */
/* A step into a wall changes nothing. */
fv_agent fv_world_step(const fv_world *w, fv_agent a, int action);
/* last: the action before, or -1. */
void fv_world_see(const fv_world *w, fv_agent a, int last, float out[FV_WORLD_SEEN]);

#endif

/* Internals of character sets (fovea/shots.h). */
#ifndef FV_DATA_SHOTS_H
#define FV_DATA_SHOTS_H

#include "base/ctx.h"
#include "fovea/shots.h"

enum { FV_SHOTS_PIXELS = FV_SHOTS_SIDE * FV_SHOTS_SIDE };

typedef struct fv_shots_character {
    int32_t alphabet, number; /* number: within the alphabet, from 0 */
    fv_shots_part part;
} fv_shots_character;

struct fv_shots {
    fv_ctx *ctx;
    int64_t characters, drawings, runs, alphabets;
    fv_shots_character *character; /* [characters], sorted by alphabet */
    uint8_t *ink;                  /* [characters][drawings][pixels]; 255 is ink */
    uint8_t *run_ink;              /* [runs][examples, queries][pixels] */
    uint8_t *run_answer;           /* [runs][queries]: an example of that run */
};

/* Room for all arrays, zeroed. Fails: MEMORY. */
fv_status fv_shots_room(fv_shots *shots);

/* Fill an empty set. */
fv_status fv_shots_draw_all(fv_shots *shots, uint64_t seed);
fv_status fv_shots_read_omniglot(fv_shots *shots, const char *folder, int64_t subset);

#endif

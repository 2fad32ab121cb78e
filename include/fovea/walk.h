/*
 * fovea/walk.h: the walk of an agent that follows an instruction on a generated map.
 *
 *     fv_walk *w = NULL;
 *     s = fv_walk_example(model, 3, NULL, &w);        // map 3 of the test part, its instruction
 *     const fv_look_step *step = w->drawing.step;
 *     for (int64_t i = 0; i < w->drawing.step_count; i++)
 *         printf("%d,%d %s\n", step[i].row, step[i].col, step[i].action);
 *     fv_walk_free(&w);
 *     s = fv_walk_example(model, 3, "turn left and go to the wall", &w);    // another one
 *
 * Models come from 'train.task = "walk"'.
 */
#ifndef FOVEA_WALK_H
#define FOVEA_WALK_H

#include "fovea/look.h"
#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_walk {
    fv_look_walk drawing; /* map, steps, words and weights, to be drawn by fv_look_walk_draw */
    const char *instruction;
    bool stopped;           /* by itself; else after the longest walk */
    bool has_goal, reached; /* of the map's own instruction: position and heading */
} fv_walk;

/* Whether the model follows instructions on maps. */
FV_API bool fv_model_is_walker(const fv_model *model);

/* Walks on map `map` (0 .. 2^40 - 1) of the test part; instruction NULL: the map's own. Fails:
 * UNSUPPORTED (another kind of model), ARGUMENT (no words, a word that the model has not learned),
 * LIMIT (too many words), MEMORY. */
FV_API FV_MUST_USE fv_status fv_walk_example(fv_model *model, uint64_t map, const char *instruction,
                                             fv_walk **out);
/* Accepts NULL; sets *walk to NULL. Before the model. */
FV_API void fv_walk_free(fv_walk **walk);

#ifdef __cplusplus
}
#endif
#endif

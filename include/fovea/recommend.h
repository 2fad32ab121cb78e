/*
 * fovea/recommend.h: what a recommender proposes to a generated viewer, and which ratings it looked
 * at.
 *
 *     fv_recommendation *r = NULL;
 *     s = fv_recommend(model, 7, 10, &r);              // the ten best for viewer 7
 *     for (int64_t i = 0; i < r->count; i++)
 *         printf("%s %.2f\n", r->best[i].name, r->best[i].value);
 *     fv_recommendation_free(&r);
 *
 * Models come from 'train.task = "ratings"'.
 */
#ifndef FOVEA_RECOMMEND_H
#define FOVEA_RECOMMEND_H

#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A movie, its main property and an opinion of it. */
typedef struct fv_recommended {
    const char *name;
    const char *property; /* its main one: "comedy" */
    bool liked;   /* by the viewer; of a movie that was not rated: would be, without noise */
    double value; /* history: 0; best: probability of liking; ideal: cosine */
    const float *weights; /* best: over the history; NULL: a model without attention */
} fv_recommended;

typedef struct fv_recommendation {
    bool is_new; /* training has not seen this viewer */
    int64_t history_count, count, ideal_count;
    const fv_recommended *history;
    const fv_recommended *best; /* of the movies that are not in the history; the best first */
    /* The movies nearest to the ideal one, whose vector has the direction of the viewer's own,
     * which no vector of that length beats; the nearest first. Of form "factors" only. */
    const fv_recommended *ideal;
} fv_recommendation;

/* Proposes up to `most` movies (at least 1). Viewers below the number that the model was trained on
 * are those of training; higher numbers are new viewers, which only form "history" can serve.
 * Fails: UNSUPPORTED (another kind of model), ARGUMENT (a viewer it cannot serve), FORMAT (a model
 * whose sizes are not those of generated tastes), MEMORY. */
FV_API FV_MUST_USE fv_status fv_recommend(fv_model *model, int64_t viewer, int64_t most,
                                          fv_recommendation **out);
/* Accepts NULL; sets *r to NULL. Before the model. */
FV_API void fv_recommendation_free(fv_recommendation **r);

#ifdef __cplusplus
}
#endif
#endif

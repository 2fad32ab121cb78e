/* What the task of ratings and fovea/recommend.h use of the recommender besides its kind. */
#ifndef FV_MODELS_KIND_RECOMMENDER_H
#define FV_MODELS_KIND_RECOMMENDER_H

#include "fovea/model.h"

#define FV_RECOMMENDER_SITE "history"

/* Whether it attends over a viewer's ratings; false: it has a vector for each viewer. */
bool fv_recommender_attends(const void *self);

/* Scores of the field "candidate", [rows, longest], which mean nothing past a row's end: a movie is
 * liked with probability sigmoid(score). */
fv_tensor *fv_recommender_rate(fv_ctx *ctx, const void *self, const fv_batch *batch,
                               const fv_pass *pass);

#endif

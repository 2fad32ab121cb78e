/* A tokenizer's learner as the [tokens] of a recipe ask for it. `specials` ends with NULL; NULL:
 * the usual ones. */
#ifndef FV_TRAIN_WORDS_H
#define FV_TRAIN_WORDS_H

#include "fovea/recipe.h"
#include "fovea/tokenizer.h"

fv_status fv_words_learner(fv_ctx *ctx, const fv_recipe *recipe, const char *const *specials,
                           fv_token_learner **out);

#endif

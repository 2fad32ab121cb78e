/* A tokenizer's trainer as the [tokens] of a recipe ask for it. */
#ifndef FV_TRAIN_WORDS_H
#define FV_TRAIN_WORDS_H

#include "fovea/recipe.h"
#include "fovea/tokenizer.h"

/* Special tokens, and those of them that stand around a text; NULL: none. */
typedef struct fv_words_marks {
    const char *specials[FV_TOKENIZER_MAX_SPECIALS];
    const char *begin, *end;
} fv_words_marks;

/* `marks` NULL: the usual ones. */
fv_status fv_words_learner(fv_ctx *ctx, const fv_recipe *recipe, const fv_words_marks *marks,
                           fv_tokenizer_trainer **out);

#endif

/* A tokenizer trainer with the settings of [tokens]. */
#ifndef FV_TRAIN_TOKENIZER_H
#define FV_TRAIN_TOKENIZER_H

#include "fovea/recipe.h"
#include "fovea/tokenizer.h"

/* Special tokens, and those put before and after each text; NULL: none. */
typedef struct fv_special_tokens {
    const char *specials[FV_TOKENIZER_MAX_SPECIALS];
    const char *begin, *end;
} fv_special_tokens;

/* `kind` is a choice of tokens.kind; `marks` NULL: the trainer's defaults. */
fv_status fv_tokenizer_trainer_from(fv_ctx *ctx, const fv_recipe *recipe, int kind,
                                    const fv_special_tokens *marks, fv_tokenizer_trainer **out);

#endif

/* Tokenizer trainers with the settings of a recipe. */
#include "train/tokenizer.h"

#include <string.h>

fv_status fv_tokenizer_trainer_from(fv_ctx *ctx, const fv_recipe *recipe, int kind,
                                    const fv_special_tokens *marks, fv_tokenizer_trainer **out)
{
    static const fv_tokenizer_kind kinds[] = {FV_TOKENIZER_CHARS,         FV_TOKENIZER_WORDS,
                                              FV_TOKENIZER_BPE_WORDS,     FV_TOKENIZER_BPE_BYTES,
                                              FV_TOKENIZER_BPE_METASPACE, FV_TOKENIZER_WORDPIECE};
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, kinds[kind]);
    cfg.vocabulary = (size_t)fv_recipe_int(recipe, "tokens.vocabulary");
    cfg.min_count = (uint64_t)fv_recipe_int(recipe, "tokens.min_count");
    cfg.lowercase = fv_recipe_bool(recipe, "tokens.lowercase");
    cfg.normalize = fv_recipe_choice(recipe, "tokens.normalize") > 0;
    cfg.form = fv_recipe_choice(recipe, "tokens.normalize") == 2 ? FV_NORMAL_FORM_NFKC
                                                                 : FV_NORMAL_FORM_NFC;
    if (marks) {
        memcpy(cfg.specials, marks->specials, sizeof cfg.specials);
        cfg.begin = marks->begin;
        cfg.end = marks->end;
    }
    return fv_tokenizer_trainer_create(ctx, &cfg, out);
}

/* The inside of fovea/translate.h. */
#ifndef FV_MODELS_TRANSLATE_H
#define FV_MODELS_TRANSLATE_H

#include "base/ctx.h"
#include "data/parallel.h"
#include "fovea/translate.h"
#include "io/arena.h"

struct fv_translator {
    fv_ctx *ctx;
    fv_params *params;
    fv_pair_model model;
    fv_transformer *transformer;   /* what `model` stands for, where it is one */
    fv_tokenizer *source, *target; /* may be one */
    fv_encoder *source_encoder, *target_encoder;
    int64_t unknown; /* of the target; -1: none */
};

struct fv_translations {
    fv_ctx *ctx;
    fv_arena arena; /* all below lives here */
    int64_t count;
    int nbest;
    fv_translation *list; /* [count][nbest] */
    int *filled;          /* [count] */
};

/* Those of a folder; one for both sides where it has one. */
fv_status fv_translator_load_tokenizers(fv_ctx *ctx, const char *folder, fv_tokenizer **source,
                                        fv_tokenizer **target);
/* Whether a config.json is that of a recurrent model. Fails: IO, FORMAT, MEMORY. */
fv_status fv_model_is_recurrent(fv_ctx *ctx, const char *path, bool *out);

/* An empty list, and one place in it. */
fv_status fv_translations_make(fv_ctx *ctx, int64_t count, int nbest, fv_translations **out);
/* Fills a translation from tokens and weights ([steps][positions], or NULL). `source` are the
 * source's tokens. */
typedef struct fv_translation_parts {
    const int64_t *source, *target;
    int64_t source_count, target_count;
    const float *weights;
    int64_t positions;
    bool ended, replace_unknown;
    double score, log_prob;
} fv_translation_parts;
fv_status fv_translations_put(fv_translator *t, fv_translations *all, int64_t source,
                              const fv_translation_parts *parts);

#endif
